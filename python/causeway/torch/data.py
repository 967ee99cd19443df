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

        loader = DataLoader(rows, batch_size=32, sampler=Samples(run, len(rows), 32), drop_last=True, generator=torch.Generator())

    With a generator of its own the loader draws nothing from the model's random numbers, so that a restart changes nothing of them.

    of: the Run, or a RunCallback, whose step says which sample is next and which part of the data is this region's.
    length: of the data set. All regions read the same permutation of it in every pass, each its own part.
    samples_per_step: as Run has it. A pass has whole steps; what is left over, another pass reads.
    seed: of the permutations; the same in every region.
    rank, ranks: of a region whose processes share each step: each reads its share of the samples.

    An iterator ends with the pass. Batches are steps: batch_size times ranks is samples_per_step.
    """

    def __init__(self, of: HasStep, length: int, samples_per_step: int, *, seed: int = 0, rank: int = 0, ranks: int = 1) -> None:
        self.of, self.seed, self.rank = of, seed, rank
        self.length, self.ranks = arguments.count("length", length), arguments.count("ranks", ranks)
        self.samples_per_step = arguments.count("samples_per_step", samples_per_step)

    def __len__(self) -> int:
        """Of a whole pass, for one rank."""
        return self._share(self.of.step.parts if self.of.step is not None else 1) // self.ranks

    def _share(self, parts: int) -> int:
        return self.length // parts // self.samples_per_step * self.samples_per_step

    def __iter__(self) -> Iterator[int]:
        step = self.of.step
        if step is None:
            return
        share = self._share(step.parts)
        if share == 0:
            raise ValueError(f"the data set has {self.length} samples for {step.parts} regions: each needs {self.samples_per_step} "
                             "at least, those of a step")
        # Since this division of the data began: a region that joins or leaves begins another.
        passes, first = divmod(step.sample - step.pass_begin, share)
        chance = torch.Generator().manual_seed(seed_of(self.seed, step.pass_number, passes) & (1 << 63) - 1)
        order = torch.randperm(self.length, generator=chance, device="cpu")[step.part::step.parts][:share]
        yield from order[first + self.rank::self.ranks].tolist()
