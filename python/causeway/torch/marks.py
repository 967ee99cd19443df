"""What shows that a tensor was written to, without reading all of it."""
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .divided import DTensor

FEW = 64  # elements
SAMPLED = 1 << 14  # elements of a tensor, or up to twice as many: smaller ones are read whole
Marks = list[tuple[list[int], list[int]]]  # of parameters: writes to each, and a sample of its values
INTEGERS = {1: torch.uint8, 2: torch.int16}  # by their bytes; larger ones are several


def local_of(p: torch.Tensor) -> torch.Tensor:
    local: torch.Tensor = p.to_local().detach() if isinstance(p, DTensor) else p.detach()
    return local


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Quantized ones may be made of several."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    return [part for name in names for part in parts_of(getattr(tensor, name))]


def writes_to(tensor: torch.Tensor) -> list[int]:
    """How often it was written to; of a divided one, to this rank's part too. Writing to its `.data` does not count, nor what a
    fused optimizer writes, nor moving it elsewhere."""
    plain = tensor.detach()
    parts = [plain, plain.to_local()] if isinstance(plain, DTensor) else [plain]
    return [0 if part.is_inference() else part._version for part in parts]


def sample_of(tensor: torch.Tensor) -> list[int]:
    """Of the bits of elements all over it, of this rank's part: another one after most changes, also by its `.data`. What cannot be
    read has none."""
    try:
        return [sum_of(part) for part in parts_of(local_of(tensor)) if not part.is_meta and part.numel()]
    except (RuntimeError, NotImplementedError):
        return []


def sum_of(part: torch.Tensor) -> int:
    some = part.reshape(-1)[::max(1, part.numel() // SAMPLED)].contiguous()
    bits = some.view(INTEGERS.get(some.element_size(), torch.int32)).to(torch.int64)
    weights = torch.arange(bits.numel(), device=bits.device).remainder_(251).add_(1)  # else two that change places are the same
    return int((bits * weights).sum())


class HandedOut:
    """The model as the step under way found it."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.before = self.marks()
        self.few = self.first_elements()

    def marks(self) -> list[tuple[list[int], list[int]]]:
        """Taken at every step, so a plain parameter costs no operation."""
        return [([p._version], [p.data_ptr()]) if type(p) is torch.nn.Parameter and not p.is_inference() else
                (writes_to(p), [part.data_ptr() for part in parts_of(local_of(p))]) for p in self.parameters]

    def first_elements(self) -> torch.Tensor:
        """Of one that most steps move: some optimizers write to `.data`. Nobody waits for a device here."""
        return parts_of(local_of(self.parameters[-1]))[0].reshape(-1)[:FEW].clone()

    def is_trained(self) -> bool:
        return self.before != self.marks() or not torch.equal(self.few, self.first_elements())
