"""The order of a DataLoader's samples in a run: each region reads its part, and a restart goes on where the run is."""
from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch.utils.data import Sampler

from . import arguments
from .parameters import seed_of
from .steps import Step


class HasStep(Protocol):
    """A Run, or one of the RunCallbacks."""

    @property
    def step(self) -> Step | None: ...


class Pass(NamedTuple):
    """Once through this region's part of the data, in one division of it: when a region joins or leaves, another begins."""
    number: int
    begin: int
    part: int
    parts: int
    again: int  # how often this division was read before

    def follows(self, other: Pass | None) -> bool:
        """In the same division."""
        return other is not None and self != other and self == other._replace(again=self.again)


class Samples(Sampler[int]):
    """A sampler for a data set with a length.

        loader = DataLoader(rows, batch_size=32, sampler=Samples(run, len(rows), 32), drop_last=True, generator=torch.Generator())

    With a generator of its own the loader draws nothing from the model's random numbers, so that a restart changes nothing of them.

    of: the Run, or a RunCallback, whose step says which sample is next and which part of the data is this region's.
    length: of the data set. All regions read the same permutation of it in every pass, each its own part.
    samples_per_step: as Run has it. A pass has whole steps; what is left over, another pass reads.
    seed: of the permutations; the same in every region.
    rank, ranks: of a region whose processes share each step: each reads its share of the samples.

    Batches are steps: batch_size times ranks is samples_per_step. An iterator ends with the pass, but a
    Trainer's with as many samples as the data set has. When a region joins or leaves, it goes on
    with the region's new part of the new pass, from the next batch that the loader asks for. What a loader has fetched ahead by then
    (Accelerate, a Trainer: one batch; num_workers: prefetch_factor batches for each) is of the part before.
    """

    def __init__(self, of: HasStep, length: int, samples_per_step: int, *, seed: int = 0, rank: int = 0, ranks: int = 1) -> None:
        self.of, self.seed, self.rank = of, seed, rank
        self.length, self.ranks = arguments.count("length", length), arguments.count("ranks", ranks)
        self.samples_per_step = arguments.count("samples_per_step", samples_per_step)
        if self.samples_per_step % self.ranks:
            raise ValueError(f"samples_per_step is {self.samples_per_step} for {self.ranks} ranks: each reads as many samples of a step as "
                             "the others, so make it a multiple of the ranks")
        self._orders: dict[Pass, torch.Tensor] = {}  # the last one that was made

    def __len__(self) -> int:
        """Of an iterator that begins with a pass, for one rank."""
        step = None if self._of_a_trainer else self.of.step
        return self._share(1 if step is None else step.parts) // self.ranks

    @property
    def _of_a_trainer(self) -> bool:
        """Hugging Face's. It decides how many epochs there are before the run begins, by their length then, which is that of the whole
        data set: shorter ones would end before the run."""
        return getattr(self.of, "decides_epochs_first", False)

    def _share(self, parts: int) -> int:
        return self.length // parts // self.samples_per_step * self.samples_per_step

    def __iter__(self) -> Iterator[int]:
        number, given, under_way = 0, 0, None
        while (step := self.of.step) is not None:
            # A loader asks ahead of the steps: this is the number of the step that will read what is given now.
            number = max(number, step.sample)
            of_pass, first = self._pass_at(step, number)
            if given == len(self) if self._of_a_trainer else of_pass.follows(under_way):
                return
            under_way = of_pass
            yield from self._samples_at(of_pass, first)
            number += self.samples_per_step
            given += self.samples_per_step // self.ranks

    def _pass_at(self, step: Step, number: int) -> tuple[Pass, int]:
        """Of a sample number of the region: its pass, and which of the region's samples of that pass it is."""
        share = self._share(step.parts)
        if share == 0:
            raise ValueError(f"the data set has {self.length} samples for {step.parts} regions: each needs {self.samples_per_step} "
                             "at least, those of a step")
        again, first = divmod(number - step.pass_begin, share)
        return Pass(step.pass_number, step.pass_begin, step.part, step.parts, again), first

    def _samples_at(self, of_pass: Pass, first: int) -> list[int]:
        """This rank's samples of one step. One that begins off a step's place, after samples_per_step was changed, may go on in the pass
        that follows."""
        samples: list[int] = self._order(of_pass)[first:first + self.samples_per_step].tolist()
        if missing := self.samples_per_step - len(samples):
            samples += self._order(of_pass._replace(again=of_pass.again + 1))[:missing].tolist()
        return samples[self.rank::self.ranks]

    def _order(self, of_pass: Pass) -> torch.Tensor:
        if of_pass not in self._orders:
            chance = torch.Generator().manual_seed(seed_of(self.seed, of_pass.number, of_pass.again) & (1 << 63) - 1)
            order = torch.randperm(self.length, generator=chance, device="cpu")
            self._orders = {of_pass: order[of_pass.part::of_pass.parts][:self._share(of_pass.parts)].clone()}
        return self._orders[of_pass]
