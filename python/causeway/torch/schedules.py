"""Learning rate schedulers that a library or a loop has: they stand where the run stands, whatever was restarted, joined or left out.

Most of PyTorch's compute a rate from the one before. To be elsewhere than one step on, they go there step by step, from a state that was
kept: that of when they were made, or a later one."""
from __future__ import annotations

import collections
import copy
import inspect
import logging
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch.optim.lr_scheduler import CyclicLR, LambdaLR, LRScheduler, OneCycleLR

log = logging.getLogger("causeway")

# Their rate follows from last_epoch alone, so they need not go step by step.
FORMULAS = (LambdaLR.get_lr, OneCycleLR.get_lr, CyclicLR.get_lr)
KEPT_EVERY = 1000  # steps: how far back a state is kept for what a region does twice
LONG = 100_000  # steps that take a second or so


def position(scheduler: Any) -> int | None:
    """Steps that it has taken; None: it counts none."""
    while not hasattr(scheduler, "last_epoch") and getattr(scheduler, "_schedulers", None):
        scheduler = scheduler._schedulers[0]  # ChainedScheduler
    found = getattr(scheduler, "last_epoch", None)
    return found if isinstance(found, int) else None


def can_follow(scheduler: Any) -> bool:
    """ReduceLROnPlateau cannot: it steps by what was measured."""
    if position(scheduler) is None or not hasattr(scheduler, "state_dict") or not hasattr(scheduler, "load_state_dict"):
        return False
    try:
        inspect.signature(scheduler.step).bind()
    except (TypeError, ValueError):
        return False
    return True


def has_formula(scheduler: Any) -> bool:
    kind = type(scheduler)
    return isinstance(scheduler, LRScheduler) and kind.get_lr in FORMULAS and kind.step is LRScheduler.step


def copied(value: Any) -> Any:
    """Of a scheduler's state, what steps change. Other objects that it names stay the same ones."""
    if torch.is_tensor(value):
        return value.detach().clone()
    if isinstance(value, dict):
        same_kind = copy.copy(value)
        for key, one in value.items():
            same_kind[key] = copied(one)
        return same_kind
    if isinstance(value, list):
        return [copied(one) for one in value]
    return copy.copy(value) if isinstance(value, (set, collections.deque)) else value


class Kept(NamedTuple):
    """What brings schedulers back to a step."""
    at: int
    states: list[Any]
    rates: list[list[Any]]  # of each scheduler's optimizer


class Schedules:
    """Made before the run is entered, which takes up the optimizers' state of an earlier life, with schedulers as a program has just made
    them. Each takes one step for one of the run's: a library takes it, or go_to()."""

    def __init__(self, schedulers: Iterable[Any]) -> None:
        self.all: list[Any] = []
        for one in schedulers:
            if can_follow(one):
                self.all.append(one)
            else:
                tell_left(one, "does not step with the run")
        self.has_formula = all(map(has_formula, self.all))
        self.kept = [self.now()]
        self.is_right = False  # the optimizers may take up rates of another step

    def go_to(self, step: int) -> None:
        """The rates of the run's step `step`, as those of one who took every step before it."""
        if not self.is_right or any(position(one) != step for one in self.all):
            if self.has_formula:
                self.jump(step)
            elif not self.walk(step):
                return
        self.is_right = True
        self.keep()

    def jump(self, step: int) -> None:
        for one in self.all:
            one.last_epoch = step - 1
        self.take(1)

    def walk(self, step: int) -> bool:
        """False: the way back is not known, and the rates stay as they are."""
        if not self.is_right or self.at() > step:
            self.kept = [self.kept[0], *(one for one in self.kept[1:] if one.at <= step)]
            if self.kept[0].at > step:
                tell_left(self.all[0], f"was at step {self.kept[0].at} when training began, and cannot go back to step {step}")
                return False
            self.go_back(self.kept[-1])
        if step - self.at() > LONG:
            log.info("the learning rate's schedule goes to step %d of the run step by step, which may take some seconds", step)
        self.take(step - KEPT_EVERY - self.at())
        self.keep()
        self.take(step - self.at())
        return True

    def at(self) -> int:
        return max((position(one) or 0 for one in self.all), default=0)

    def now(self) -> Kept:
        rates = [[copied(group["lr"]) for group in groups_of(one)] for one in self.all]
        return Kept(self.at(), [copied(one.state_dict()) for one in self.all], rates)

    def keep(self) -> None:
        """The first, and the last two."""
        if self.at() >= self.kept[-1].at + KEPT_EVERY:
            self.kept = [self.kept[0], *self.kept[1:][-1:], self.now()]

    def go_back(self, kept: Kept) -> None:
        for scheduler, state, rates in zip(self.all, kept.states, kept.rates):
            scheduler.load_state_dict(copied(state))
            for group, rate in zip(groups_of(scheduler), rates):
                if torch.is_tensor(group["lr"]):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate

    def take(self, count: int) -> None:
        """By turns, as a library steps them: two of one optimizer change each other's rate."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no optimizer stepped meanwhile
            for _ in range(count):
                for one in self.all:
                    one.step()


def groups_of(scheduler: Any) -> list[dict[str, Any]]:
    optimizer = getattr(scheduler, "optimizer", None)
    return optimizer.param_groups if optimizer is not None else []


def tell_left(scheduler: Any, why: str) -> None:
    warnings.warn(f"the learning rate's scheduler {type(scheduler).__name__} {why}: after a restart it begins anew, and the regions' rates "
                  "differ", stacklevel=4)
