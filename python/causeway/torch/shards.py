"""Models whose ranks hold parts that do not say so. A DTensor says how it is divided; a plain tensor of the same shape on every rank looks
like a copy, and rank 0's would be given to all."""
from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .divided import DTensor
from .wrapped import values_of

try:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
except ImportError:  # PyTorch can be built without torch.distributed
    FullyShardedDataParallel = ShardingStrategy = None  # type: ignore[assignment, misc]

INSTEAD = "in a way that Run does not know: use fully_shard (FSDP2)"
COMPARED = 4  # elements of a tensor's dimension


def problem_of(model: torch.nn.Module | None) -> str | None:
    """With what Run cannot take the model. None: nothing that is known here."""
    if model is None:
        return None
    for module in model.modules():
        if is_divided_by_fsdp1(module):
            return f"FSDP1 (FullyShardedDataParallel) divides parameters {INSTEAD}"
        stage: Any = getattr(module, "zero_optimization_stage", None)  # of a DeepSpeedEngine
        level: Any = stage() if callable(stage) else 0
        if level > 0:
            return f"DeepSpeed's ZeRO divides parameters, or the weights that its optimizer steps, {INSTEAD}"
    if any(hasattr(p, "ds_id") for p in model.parameters()):
        return f"DeepSpeed's ZeRO divides parameters {INSTEAD}"
    return None


def is_divided_by_fsdp1(module: torch.nn.Module) -> bool:
    if FullyShardedDataParallel is None or ShardingStrategy is None or not isinstance(module, FullyShardedDataParallel):
        return False
    return module.sharding_strategy is not ShardingStrategy.NO_SHARD and dist.get_world_size(module.process_group) > 1


def beginnings(named: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Digests of each plain tensor's first elements: parts of one tensor, or copies with other seeds, differ in them."""
    return {name: digest(values_of(tensor.detach())) for name, tensor in named.items() if not isinstance(tensor, DTensor)}


def digest(tensor: torch.Tensor) -> str:
    first = tensor[(slice(COMPARED),) * tensor.dim()].float().flatten().tolist()
    return hashlib.blake2b(repr(first).encode(), digest_size=8).hexdigest()


def told_apart(told: Sequence[Mapping[str, str]]) -> str | None:
    """A sentence on the first tensor of which ranks hold other values than the first that has it."""
    seen: dict[str, tuple[int, str]] = {}
    for rank, digests in enumerate(told):
        for name, value in digests.items():
            first, expected = seen.setdefault(name, (rank, value))
            if value != expected:
                return (f"rank {rank} of this region has other values of {name} than rank {first}: all ranks get those of rank {first}. "
                        f"If each rank holds a part of it, it is divided {INSTEAD}, or tensor parallelism with DTensor")
    return None
