"""Whether the optimizers that Run was given go on to step. A program may make another one as it trains, whose state no restart brings back."""
from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from .divided import DTensor
from .first_round import UNTRAINED_STEPS
from .optimizers import held, kind_of

log = logging.getLogger("causeway")


class StillSteps:
    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self.optimizers, self.told = optimizers, False
        self.before: list[Any] | None = None  # at the end of the round before

    def look(self, round_number: int, taken: int, trained: bool) -> None:
        """At the end of a round. What never stepped at all, the first round tells of."""
        before, self.before = self.before, [mark for one in self.optimizers for mark in marks_of(one)]
        if self.told or not before or before != self.before or not trained or taken < UNTRAINED_STEPS:
            return
        self.told = True
        log.warning("round %d: the model was trained, and %s, which Run was given, did not step any more. If the program has made another "
                    "optimizer, what that one has learnt is lost at a restart. Change the one that Run has instead: set its param_groups, or clear "
                    "its state (optimizer.state.clear()) to begin anew", round_number, kind_of(self.optimizers[0]))


def marks_of(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Of its state: others after a step."""
    found: list[Any] = []
    for one in (optimizer, *held(optimizer).values()):
        for state in one.state.values():
            parts = state.values() if isinstance(state, dict) else (state,)
            found += (mark for part in parts if (mark := mark_of(part)) is not None)
    return found


def mark_of(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        local = value.to_local() if isinstance(value, DTensor) else value
        return 0 if local.is_inference() else local._version, id(value)
    return value if isinstance(value, (int, float)) else None
