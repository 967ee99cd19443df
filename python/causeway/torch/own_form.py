"""The state of an optimizer around others, which may have a form of its own, as it is taken up again."""
from __future__ import annotations

from typing import Any

import torch

from .nested import is_made_of, like
from .optimizers import has_sizes_of, held, is_plain, keep_precision, owner_of, parameters_of
from .rank_parts import LOCAL, divided_again


def placed(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """An optimizer numbers its parameters in the order of its groups. What it keeps by a name is of none of them, and not divided."""
    parameters = parameters_of(optimizer)
    return {**state, "state": {key: divided_again(one, owner_of(key, parameters)) for key, one in state["state"].items()}}


def take_up_own_form(optimizer: torch.optim.Optimizer, state: Any, types: list[str] | None, holder: str) -> None:
    """Of one around another, which alone can read it. What in it is as PyTorch's optimizers have it is of the one or the other."""
    steppers = [optimizer, *held(optimizer).values()]
    if has_strange_parts(state, steppers):
        raise ValueError(f"{holder}, a {type(optimizer).__qualname__}, in a form of its own with divided tensors, and Run does not know of which "
                         "parameters these are: delete the file to begin it anew, and let its state_dict() have those of the optimizers in it")
    state = placed_within(state, steppers)
    optimizer.load_state_dict(state)
    for part in plain_parts(state):
        for one in steppers:
            if has_sizes_of(part, one) and is_made_of(part, one.state_dict()):
                keep_precision(one, part, types)


def placed_within(value: Any, steppers: list[torch.optim.Optimizer]) -> Any:
    if is_plain(value) and (owner := next((one for one in steppers if has_sizes_of(value, one)), None)) is not None:
        return placed(value, owner)
    if isinstance(value, dict):
        return {key: placed_within(one, steppers) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return like(value, (placed_within(one, steppers) for one in value))
    return value


def plain_parts(value: Any) -> list[dict[str, Any]]:
    if is_plain(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [found for part in parts for found in plain_parts(part)]


def has_strange_parts(value: Any, steppers: list[torch.optim.Optimizer]) -> bool:
    """Of divided tensors, of which nothing says what parameters they are of."""
    if is_plain(value) and any(has_sizes_of(value, one) for one in steppers):
        return False
    if isinstance(value, dict):
        return LOCAL in value or any(has_strange_parts(one, steppers) for one in value.values())
    return isinstance(value, (list, tuple)) and any(has_strange_parts(one, steppers) for one in value)
