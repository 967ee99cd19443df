"""What shows that a tensor was written to, without reading all of it."""
from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .divided import DTensor

FEW = 64  # elements


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
    """How often it was written to; of a divided one, to this rank's part too. Writing to its `.data` does not count, nor moving it
    elsewhere."""
    plain = tensor.detach()
    parts = [plain, plain.to_local()] if isinstance(plain, DTensor) else [plain]
    return [0 if part.is_inference() else part._version for part in parts]


class HandedOut:
    """The model as the step under way found it."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        self.before = self.marks()
        self.few = self.first_elements()

    def marks(self) -> list[tuple[list[int], int]]:
        return [(writes_to(p), local_of(p).data_ptr()) for p in self.parameters]

    def first_elements(self) -> torch.Tensor:
        """Of one that most steps move: some optimizers write to `.data`. Nobody waits for a device here."""
        return local_of(self.parameters[-1]).reshape(-1)[:FEW].clone()

    def is_trained(self) -> bool:
        return self.before != self.marks() or not torch.equal(self.few, self.first_elements())
