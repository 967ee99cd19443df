"""Tensors that the ranks of a region divide (DTensor: FSDP2, tensor parallelism)."""
from __future__ import annotations

from typing import Any

import torch

try:
    from torch.distributed.tensor import DTensor, distribute_tensor
except ImportError:  # PyTorch can be built without torch.distributed
    DTensor, distribute_tensor = (), None  # type: ignore[assignment, misc]


__all__ = ["DTensor", "divided_as", "reshard", "whole"]


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of it, on every rank. A collective, if the tensor is divided."""
    if not isinstance(tensor, DTensor):
        return tensor
    full: torch.Tensor = tensor.full_tensor()
    return full


def divided_as(value: torch.Tensor, target: Any) -> torch.Tensor:
    """`value`, which all ranks have, divided as `target` is."""
    if not isinstance(target, DTensor):
        return value
    assert distribute_tensor is not None
    return distribute_tensor(value, target.device_mesh, target.placements, src_data_rank=None)


def reshard(model: torch.nn.Module) -> None:
    """What FSDP2 gathered for a forward pass alone, it leaves so: then a model's parameters are not those that are trained."""
    for module in model.modules():
        if hasattr(module, "reshard"):
            module.reshard()  # type: ignore[operator]
