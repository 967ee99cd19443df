"""What a trainer needs to go on exactly where it stopped, beside the parameters, which the worker keeps: optimizer, random
numbers, and whatever else has state_dict() and load_state_dict()."""
from __future__ import annotations

import io
import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch

from .arguments import Stateful
from .nested import places_of, tensors_of, without_tensors
from .optimizers import (Settings, check_kind, check_sizes, held, is_plain, keep_precision, kind_of, load_unnamed, settings_of,
                         tell_other_settings, types_of)
from .own_form import has_strange_parts, placed, take_up_own_form
from .random_numbers import random_numbers, set_random_numbers
from .rank_parts import own_parts
from .ranks import Group, Solo, everybody
from .trainer_files import OF_DISKS, TrainerFiles, check_readable

log = logging.getLogger("causeway")

KEPT = 2  # a worker that is killed goes on from the last position or the one before
KINDS = "causeway: the optimizers' kinds"
GIVEN = "causeway: the optimizers' settings, as the program gave them"
TYPES = "causeway: the types of the optimizers' parameters"

AS_BEFORE = "give Run the same optimizer and `also` as before, or delete the file to begin them anew"


def told_kind(optimizer: torch.optim.Optimizer) -> str:
    kind = type(optimizer).__qualname__
    return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind}"


def told_also(name: str, attribute: str) -> str:
    """What keeps the state of an optimizer that the optimizer `name` has as `attribute`. Names that Run uses itself are refused there."""
    number = name.removeprefix("optimizer")
    key = ("inner optimizer" if attribute == "optimizer" else attribute) + number
    return f"also={{\"{key}\": {f'optimizers[{number.strip()}]' if number else name}.{attribute}}}"


class Refusals:
    """By the disk, in a row. Tells of them as intra/worker/state_saver.cc does: of the first, the second, the fourth and so on."""
    count = 0

    def told(self, refusal: str | None, after_a_restart: str) -> None:
        """How a save went. None: well."""
        if refusal is None:
            if self.count:
                log.warning("the trainer's state is saved again, after %d failures", self.count)
            self.count = 0
            return
        self.count += 1
        if self.count.bit_count() == 1:
            log.error("the trainer's state was not saved: %s (%d times in a row). Training goes on; what was saved before stays, and it "
                      "is tried again when it is due. Make room or repair the disk. %s", refusal, self.count, after_a_restart)


class TrainerState:
    """Of one rank, at positions in the region's samples. All ranks go on from the same position."""

    def __init__(self, directory: str | os.PathLike[str], ranks: Solo | Group, optimizers: list[torch.optim.Optimizer],
                 also: Mapping[str, Stateful], region: str = "") -> None:
        self.ranks = ranks
        self.files = TrainerFiles(pathlib.Path(directory) / "checkpoints", ranks.rank, ranks.world, region)
        self.positions: list[int] = []  # that all ranks have, in order
        self.behind_at: int | None = None  # the sample at which an older state was taken up, or none
        self.refusals = Refusals()
        self.optimizers = {"optimizer" if len(optimizers) == 1 else f"optimizer {place}": one
                           for place, one in enumerate(optimizers)}
        self.groups, self.told_grown = {name: len(one.param_groups) for name, one in self.optimizers.items()}, False
        self.given: dict[str, list[Settings]] = {name: settings_of(one) for name, one in self.optimizers.items()}
        self.also: dict[str, Any] = {**also, **self.optimizers}
        self.steppers = {name: one for name, one in self.also.items() if isinstance(one, torch.optim.Optimizer)}
        self.check_readable()  # now, rather than when the first file is written
        self.is_kept = any(ranks.gather(bool(self.also)))  # on one rank: then all take part

    def check_readable(self) -> None:
        for name in self.also:
            first = io.BytesIO()
            torch.save(without_tensors(self.state_of(name)), first)
            first.seek(0)
            check_readable(first, f"the state of {name}")

    def check_after_a_step(self) -> None:
        """An optimizer makes its state in its first step. Called by all ranks, once."""
        if self.is_kept:
            everybody(self.ranks, self.check_readable)
            everybody(self.ranks, self.tell_left_out)
            everybody(self.ranks, self.tell_strange_parts)

    def tell_left_out(self) -> None:
        """Of an optimizer within another one whose state_dict() leaves its state out, as SAM's does."""
        around = {name: within for name, one in self.optimizers.items() if (within := held(one))}
        if not around:
            return
        states = {name: self.state_of(name) for name in self.also}
        kept = places_of(list(states.values()))
        for name, within in around.items():
            own = states[name]["state"] if is_plain(states[name]) else states[name]  # it may have copies
            has_all = len(tensors_of(own)) >= sum(len(tensors_of(dict(one.state))) for one in (self.optimizers[name], *within.values()))
            for attribute, below in within.items():
                places = places_of(dict(below.state))
                if has_all or not places or places & kept or any(one is below for one in self.also.values()) or not self.ranks.leads:
                    continue
                log.warning("%s, %s, has another optimizer in it, %s, and its state_dict() leaves the state of that one out: a restart begins that "
                            "anew. Keep it too: %s", name, told_kind(self.optimizers[name]), told_kind(below), told_also(name, attribute))

    def tell_strange_parts(self) -> None:
        """A restart refuses them."""
        for name, one in self.steppers.items():
            if has_strange_parts(self.state_of(name), [one, *held(one).values()]) and self.ranks.leads:
                log.warning("%s, %s, has divided tensors in a state_dict() of a form of its own, from which a restart cannot go on: let it "
                            "contain the state_dict() of each optimizer in it", name, told_kind(one))

    def state_of(self, name: str) -> Any:
        return own_parts(self.also[name].state_dict())

    def save(self, sample: int) -> None:
        """On all ranks, or on none if the disk of one takes nothing: then the training goes on without. Called by all ranks."""
        if not self.is_kept:
            return
        self.tell_grown()
        refusal = next((one for one in everybody(self.ranks, lambda: self.attempt(sample)) if one), None)
        if refusal is None:  # older files go when all ranks have the newer one
            self.positions = sorted({*self.positions, sample})[-KEPT:]
            self.files.keep(self.positions)
        elif sample not in self.positions:
            self.files.remove_at(sample)  # another rank has none
        if self.ranks.leads:
            self.refusals.told(refusal, self.after_a_restart())

    def tell_grown(self) -> None:
        """A restart takes up the state before the program comes to where it adds the group."""
        for name, one in self.optimizers.items():
            if len(one.param_groups) == self.groups[name] or self.told_grown or not self.ranks.leads:
                continue
            self.told_grown = True
            log.warning("%s has %d groups of parameters now, and had %d when the run was entered: a restart is refused unless the program "
                        "adds the group before Run is entered, with the rate 0 if it is to train later", name, len(one.param_groups),
                        self.groups[name])

    def save_alone(self, sample: int) -> None:
        """The training ends here, and other ranks may be gone: the next start finds what all of them have. An older state that was
        taken up, and did not step since, is not one of this sample."""
        if not self.is_kept or sample == self.behind_at:
            return
        try:
            self.files.write(sample, self.state())
        except OSError as error:
            error.add_note(f"The trainer's state was not saved. {self.after_a_restart()}")
            raise

    def attempt(self, sample: int) -> str | None:
        """Writes the file. What the disk said, if it takes nothing."""
        try:
            self.files.write(sample, self.state())
        except OSError as error:
            if error.errno not in OF_DISKS:
                raise
            return str(error)
        return None

    def state(self) -> dict[str, Any]:
        kinds = {name: kind_of(one) for name, one in self.steppers.items()}
        types = {name: types_of(one) for name, one in self.steppers.items()}
        return {**{name: self.state_of(name) for name in self.also}, **random_numbers(), KINDS: kinds, GIVEN: self.given, TYPES: types}

    def after_a_restart(self) -> str:
        if not self.positions:
            return "After a restart the optimizer begins anew"
        return f"After a restart the optimizer goes on from its state at sample {self.positions[-1]}"

    def resume(self, sample: int) -> int | None:
        """From the last position that is not after `sample` and that all ranks can read: with different positions they would train
        different models. None: there is none. Called by all ranks."""
        self.files.remove_unfinished()
        if not self.is_kept:
            if sample > 0 and self.ranks.leads:
                log.warning("Run was given no optimizer, so none of its state was kept: it begins anew; the region is at sample %d", sample)
            return None
        strangers = everybody(self.ranks, lambda: self.files.stranger())
        if stranger := next((one for one in strangers if one), None):
            raise ValueError(f"the trainer's state in {self.files.directory} is of region {stranger}, not of {self.files.region}: if two disks "
                             "are mounted the wrong way round, put that right. Otherwise delete the trainer-* there to begin the optimizer anew")
        told = everybody(self.ranks, lambda: self.files.up_to(sample))
        self.positions = self.intact(sorted(set.intersection(*map(set, told))))
        position = self.positions[-1] if self.positions else None
        if position is not None:
            everybody(self.ranks, lambda: self.take_up(position))
        if position != sample:
            self.behind_at = sample
            self.tell_behind(position, sample)
        return position

    def tell_behind(self, position: int | None, sample: int) -> None:
        if not self.ranks.leads:
            return
        if position is not None:
            others = sorted(set(self.also) - set(self.optimizers))
            more = (f". What `also` has ({', '.join(others)}) goes on from there too: a loader among it reads again what was read since"
                    if others else "")
            log.warning("the optimizer goes on from its state at sample %d; the region is at sample %d%s", position, sample, more)
        elif sample > 0:  # the region has trained before
            begins = "goes on as the program has it" if any(one.state for one in self.optimizers.values()) else "begins anew"
            log.warning("there is no state of the optimizer to go on from: it %s; the region is at sample %d", begins, sample)

    def intact(self, positions: list[int]) -> list[int]:
        """Without the newest, as far as a rank has a file of theirs that is damaged."""
        while positions:
            damages = everybody(self.ranks, lambda: self.files.damage(positions[-1]))
            damage = next((one for one in damages if one), None)
            if damage is None:
                break
            positions = positions[:-1]
            if not positions:
                raise ValueError(f"{damage}; no state before it can be used: delete every trainer-*.pt there to begin the optimizer anew")
            if self.ranks.leads:
                log.error("%s; trying the state before it", damage)
        return positions

    def take_up(self, position: int) -> None:
        state = self.files.read(position)
        missing = sorted(set(self.also) - set(state))
        within = [below for one in self.optimizers.values() for below in held(one).values()]
        anew = [name for name in missing if any(self.also[name] is one for one in within)]
        if len(anew) < len(missing):
            raise ValueError(f"{self.files.at(position)} has no state of {', '.join(missing)}: {AS_BEFORE}")
        if anew and self.ranks.leads:
            log.warning("%s has no state of %s, which Run was not given then: it begins anew", self.files.at(position), ", ".join(anew))
        for name, one in self.also.items():
            if name in anew:
                continue
            if name in self.steppers:
                self.take_up_optimizer(name, state, f"{self.files.at(position)} has {name}")
            else:
                take_up_object(name, one, state[name], self.files.at(position))
        self.compare_settings(state.get(GIVEN, {}))
        set_random_numbers(state)

    def take_up_optimizer(self, name: str, state: Mapping[str, Any], holder: str) -> None:
        one, own = self.steppers[name], state[name]
        kind, types = (state.get(what, {}).get(name) for what in (KINDS, TYPES))
        if is_plain(own):
            check_sizes(one, own, holder)
        if kind is not None:
            check_kind(one, kind, holder, AS_BEFORE)
        if not is_plain(own):
            take_up_own_form(one, own, types, holder)
            return
        own = placed(own, one)
        if kind is None and name in self.optimizers:
            load_unnamed(one, own, holder, AS_BEFORE)
        else:
            one.load_state_dict(own)
        keep_precision(one, own, types)

    def compare_settings(self, given: Mapping[str, list[Settings]]) -> None:
        """`given`: by the program of before. What it gave then stays known, so that every start tells of it that goes on with it."""
        for name, one in self.optimizers.items():
            if name not in given:
                continue
            if self.ranks.leads:
                tell_other_settings(name, one, given[name], self.given[name])
            self.given[name] = given[name]


def take_up_object(name: str, one: Any, state: Any, file: pathlib.Path) -> None:
    """What an object says of a state of another kind names no file, and nothing to do."""
    try:
        one.load_state_dict(state)
    except Exception as error:
        raise ValueError(f"{file} has a state of {name} that the program's {type(one).__name__} does not take up ({type(error).__name__}: "
                         f"{error}): {AS_BEFORE}") from error
