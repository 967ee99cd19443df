"""The inner steps that a region takes: as a program is given them, and as its ranks are told of them."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

import causeway

from . import arguments


@dataclasses.dataclass(frozen=True)
class Step:
    """One inner step to take."""
    sample: int  # the region's sample number of the step's first sample; no number that counts is given twice
    schedule_step: int  # position in the schedule (of learning rates) that all regions share
    part: int  # read part `part` of `parts` equal parts of the data; they change when regions join or leave
    parts: int
    pass_number: int  # how often the data was read before
    pass_begin: int  # the region's first sample number of this pass
    round: int
    index: int  # which of the round's steps at hand this is, from 0
    count: int  # how many these are
    run_steps: int  # steps of the whole run, as schedule_step counts them

    @property
    def progress(self) -> float:
        """Where the schedule stands, from 0 to 1."""
        return min(1.0, self.schedule_step / self.run_steps) if self.run_steps else 0.0

    @property
    def place(self) -> str:
        return f"step {self.index + 1} of {self.count} of round {self.round}"


@dataclasses.dataclass(frozen=True)
class Told:
    """Steps as rank 0 tells the others of them; causeway.Steps has the same."""
    round: int
    count: int
    first_sample: int
    schedule_step: int
    part: int
    parts: int
    pass_number: int
    pass_begin: int
    validation_samples: int
    run_steps: int

    @classmethod
    def of(cls, steps: causeway.Steps) -> Told:
        return cls(*(getattr(steps, field.name) for field in dataclasses.fields(cls)))

    @classmethod
    def heard(cls, numbers: Sequence[int]) -> Told:
        """Of a message, which may be longer."""
        return cls(*numbers[:len(dataclasses.fields(cls))])

    def numbers(self) -> tuple[int, ...]:
        return dataclasses.astuple(self)

    def step(self, index: int, samples_per_step: int) -> Step:
        return Step(sample=self.first_sample + index * samples_per_step, schedule_step=self.schedule_step + index, part=self.part,
                    parts=self.parts, pass_number=self.pass_number, pass_begin=self.pass_begin, round=self.round, index=index,
                    count=self.count, run_steps=self.run_steps)


def steps_told(directory: str | os.PathLike[str] | None = None) -> int | None:
    """The run's steps, where they can be known before a worker attaches: CAUSEWAY_STEPS, or what the region's coordinator
    writes into its directory. For libraries that lay out a schedule before they train."""
    if given := os.environ.get("CAUSEWAY_STEPS"):
        return arguments.count("CAUSEWAY_STEPS", int(given) if given.isdigit() else given)
    place = directory or os.environ.get("CAUSEWAY_DIRECTORY")
    try:
        steps = json.loads((pathlib.Path(place or ".") / "status.json").read_text()).get("steps")
    except (OSError, ValueError):
        return None
    return steps if isinstance(steps, int) and steps > 0 else None
