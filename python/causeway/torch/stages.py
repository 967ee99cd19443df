"""Which ranks of a region hold which parameter. With pipeline parallelism each holds those of its stage: the region's model is what
all of them hold together, and rank 0, which speaks for the region, is sent what it does not hold."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import torch

from .ranks import Group, Solo

Kind = tuple[tuple[int, ...], str]  # shape and type
Told = Sequence[tuple[str, tuple[int, ...], str]]  # of one rank: names and kinds, in the order of its model
Value = TypeVar("Value")


def first_difference(told: Sequence[Sequence[Value]]) -> tuple[int, object, object] | None:
    """The first rank that has something else than rank 0, and what each has."""
    for rank, others in enumerate(told):
        if list(others) != list(told[0]):
            own, other = next(((a, b) for a, b in zip(told[0], others) if a != b), (f"{len(told[0])} of them", f"{len(others)}"))
            return rank, own, other
    return None


def problem_of(told: Sequence[Told], whole: dict[str, tuple[int, ...]]) -> str | None:
    """Of stages that together are to be the model `whole`: names and shapes."""
    kinds: dict[str, Kind] = {}
    for rank, named in enumerate(told):
        for name, shape, dtype in named:
            if whole.get(name) != shape:
                has = f"has it as {whole[name]}" if name in whole else "has none of that name"
                return (f"rank {rank} holds a parameter {name} of shape {shape}, and the model stage_of {has}: give the parameters of a "
                        "stage the names that they have in the whole model")
            if kinds.setdefault(name, (shape, dtype)) != (shape, dtype):
                return f"rank {rank} holds the parameter {name} as {dtype}, and another rank as {kinds[name][1]}"
    missing = next((name for name in whole if name not in kinds), None)
    return missing and (f"no rank of this region trains the parameter {missing} of the model stage_of: give the parameters of a stage the "
                        "names that they have in the whole model, and freeze in both what is frozen")


class Stages:
    """Of all parameters of the region, in the order of the whole model."""

    def __init__(self, ranks: Solo | Group, told: Sequence[Told], names: Iterable[str]) -> None:
        self.ranks = ranks
        shapes = {name: shape for named in told for name, shape, _ in named}
        known = [{name for name, _, _ in named} for named in told]
        self.holders = {name: [rank for rank, names_of in enumerate(known) if name in names_of] for name in names}
        # Those that the lowest of the ranks that hold them sends to rank 0, which has memory for them.
        self.sent = [name for name, members in self.holders.items() if members[0] != 0]
        self.received = {name: torch.empty(shapes[name], dtype=torch.float32, device="cpu") for name in self.sent if ranks.leads}
        self._groups: dict[tuple[int, ...], Solo | Group] = {}

    def group(self, name: str) -> Solo | Group:
        """Of the ranks that hold it; only they call this, in the order of `holders`."""
        members = self.holders[name]
        if len(members) == self.ranks.world:
            return self.ranks
        key = tuple(members)
        if key not in self._groups:
            self._groups[key] = self.ranks.within(members)
        return self._groups[key]

    def to_rank_0(self, own: dict[str, torch.Tensor]) -> None:
        """`own`: fp32 values in host memory of what this rank is the first to hold."""
        for name in self.sent:
            self._bring(name, own, self.holders[name][0], 0)

    def from_rank_0(self, own: dict[str, torch.Tensor]) -> None:
        for name in self.sent:
            self._bring(name, own, 0, self.holders[name][0])

    def _bring(self, name: str, own: dict[str, torch.Tensor], sender: int, receiver: int) -> None:
        if self.ranks.rank in (sender, receiver):
            self.ranks.bring(self.received[name] if self.ranks.leads else own[name], sender, receiver)
