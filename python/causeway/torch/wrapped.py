"""Tensors of a library's own class, which keep their values in other tensors: torchao's weights for training in 8 bits are such."""
from __future__ import annotations

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .divided import DTensor


def is_wrapped(tensor: torch.Tensor) -> bool:
    """It has no memory of its own, and what it gives back is of its class as well."""
    return is_traceable_wrapper_subclass(tensor) and not isinstance(tensor, DTensor)


def values_of(tensor: torch.Tensor) -> torch.Tensor:
    """As a plain tensor."""
    if not is_wrapped(tensor):
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def problem_of(name: str, tensor: torch.Tensor) -> str | None:
    """Of one that does not hold what it is set to: what it holds instead would differ by region, and come back as if steps had led there. Of
    one that ranks divide, this rank's part is looked at: it may be of such a class as well."""
    if isinstance(tensor, DTensor):
        tensor = tensor.to_local()
    if not is_wrapped(tensor) or tensor.is_meta:
        return None
    wanted = torch.linspace(-1, 1, tensor.numel(), dtype=tensor.dtype, device=tensor.device).reshape(tensor.shape)
    try:
        held = tensor.detach().clone()
        held.copy_(wanted)
        if torch.equal(values_of(held), wanted):
            return None
        why = "rounds what it is set to, so each region would hold other values"
    except Exception as error:  # of any type: torchao's int8 weights lack an attribute
        why = f"cannot be read and set as a run does ({error})"
    return (f"the parameter {name}, of the class {type(tensor).__name__}, {why}: take a class that keeps the whole values, such as that of "
            "torchao's int8_mixed_precision_training(), or plain parameters. What is frozen may be of any class")
