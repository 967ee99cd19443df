"""The order of a DataLoader's samples in a run: each region reads its part, and a restart goes on where the run is."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import torch
from torch.utils.data import Sampler

from . import arguments
from .parameters import seed_of
from .run import Step


class HasStep(Protocol):
    """A Run, or one of the RunCallbacks."""

    @property
    def step(self) -> Step | None: ...


class Samples(Sampler[int]):
    """A sampler for a data set with a length.

        loader = DataLoader(rows, batch_size=32, sampler=Samples(run, len(rows)), drop_last=True, generator=torch.Generator())

    With a generator of its own the loader draws nothing from the model's random numbers, so that a restart changes nothing of them.

    of: the Run, or a RunCallback, whose step says which sample is next and which part of the data is this region's.
    length: of the data set. All regions read the same permutation of it in every pass, each its own part.
    seed: of the permutations; the same in every region.
    rank, ranks: of a region whose processes share each step: each reads its share of the samples.

    An iterator ends with the pass. Batches have to be steps: batch_size times ranks is samples_per_step, so that sample numbers
    and steps agree.
    """

    def __init__(self, of: HasStep, length: int, *, seed: int = 0, rank: int = 0, ranks: int = 1) -> None:
        self.of, self.seed, self.rank = of, seed, rank
        self.length, self.ranks = arguments.count("length", length), arguments.count("ranks", ranks)

    def __len__(self) -> int:
        """Of a whole pass, for one rank."""
        parts = self.of.step.parts if self.of.step is not None else 1
        return self.length // parts // self.ranks

    def __iter__(self) -> Iterator[int]:
        step = self.of.step
        if step is None:
            return
        share = self.length // step.parts
        if share == 0:
            raise ValueError(f"the data set has {self.length} samples for {step.parts} regions: each needs one at least")
        # Since this division of the data began: a region that joins or leaves begins another.
        passes, first = divmod(step.sample - step.pass_begin, share)
        chance = torch.Generator().manual_seed(seed_of(self.seed, step.pass_number, passes) & (1 << 63) - 1)
        order = torch.randperm(self.length, generator=chance)[step.part::step.parts][:share]
        yield from order[first + self.rank::self.ranks].tolist()
