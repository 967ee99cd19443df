"""What a region's first round shows of a program: whether its steps train what Run was given. The regions would go on to the end together,
with the model that they began with, or with state of optimizers that no restart brings back."""
from __future__ import annotations

import logging
from collections.abc import Sequence

import torch

from .optimizers import held, kind_of

log = logging.getLogger("causeway")

UNTRAINED_STEPS = 4  # fewer may be left out by a loss's scaler


def tell(round_number: int, taken: int, trained: bool, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    if not trained and taken >= UNTRAINED_STEPS:
        log.warning("round %d: its %d steps changed no parameter of the model that Run was given. Look whether optimizer.step() is called, "
                    "with a rate above 0, and whether the model that is trained is this one and not a copy. A step of the run is one step "
                    "of the optimizer: with gradient accumulation, one batch is less than a step", round_number, taken)
    idle = next((one for one in optimizers if has_moments(one)), None)
    if trained and idle is not None and not any(has_stepped(one) for one in optimizers):
        log.warning("round %d: the model was trained, and %s, which Run was given, has not stepped. Give Run the optimizer that steps: "
                    "otherwise what that one has learnt is lost at a restart", round_number, kind_of(idle))


def has_moments(optimizer: torch.optim.Optimizer) -> bool:
    """It has state once it has stepped."""
    return any("betas" in group or group.get("momentum") for group in optimizer.param_groups)


def has_stepped(optimizer: torch.optim.Optimizer) -> bool:
    """One around another may leave all state to that."""
    return bool(optimizer.state) or any(below.state for below in held(optimizer).values())
