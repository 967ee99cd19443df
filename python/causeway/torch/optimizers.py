"""Whether an optimizer can go on from a state on disk, and with whose settings: PyTorch takes those of the state without a word, also of an
optimizer of another kind."""
from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from typing import Any

import torch

from .nested import with_types_of
from .schedules import copied

log = logging.getLogger("causeway")

Settings = dict[str, Any]  # of a group of parameters: its numbers and texts

# What schedulers of PyTorch write into the groups of an optimizer, and what they move from then on.
OF_SCHEDULERS = {"initial_lr": ("lr",), "base_momentum": ("momentum", "betas"), "max_momentum": ("momentum", "betas")}


# In names of optimizers.
OWN_WEIGHTS = ("schedulefree", "lookahead", "ranger")
CURVATURE = ("lbfgs",)


def inner(optimizer: Any) -> torch.optim.Optimizer:
    """Without what a library has wrapped around it."""
    while isinstance(getattr(optimizer, "optimizer", None), torch.optim.Optimizer):
        optimizer = optimizer.optimizer
    found: torch.optim.Optimizer = optimizer
    return found


def names_of(optimizer: Any) -> list[str]:
    """Of its class and those above, and of what is wrapped in it."""
    names = [kind.__name__ for kind in type(optimizer).__mro__]
    below = getattr(optimizer, "optimizer", None)
    return names + names_of(below) if isinstance(below, torch.optim.Optimizer) else names


def tell_unsuited(optimizer: torch.optim.Optimizer) -> None:
    """Warns of one that is known to do badly where the run, too, changes the parameters."""
    if known := named(optimizer, OWN_WEIGHTS):
        log.warning("%s keeps weights of its own, which do not cross between regions: each region's pull its parameters away from what "
                    "the run agreed on. Take an optimizer without them, such as AdamW, and let the outer optimizer average", known)
    if known := named(optimizer, CURVATURE):
        log.warning("%s takes every change of the parameters for its own step. The run changes them too, with every round, so training may diverge. "
                    "Take another optimizer, such as AdamW", known)


def named(optimizer: torch.optim.Optimizer, parts: tuple[str, ...]) -> str | None:
    return next((name for name in names_of(optimizer) if any(part in name.lower() for part in parts)), None)


def held(optimizer: torch.optim.Optimizer, above: tuple[torch.optim.Optimizer, ...] = ()) -> dict[str, torch.optim.Optimizer]:
    """Optimizers that this one has in it, with state of their own, by its attributes: SAM has one that steps, and so has Lookahead."""
    found: dict[str, torch.optim.Optimizer] = {}
    above = *above, optimizer
    for name, one in attributes_of(optimizer):
        if isinstance(one, torch.optim.Optimizer) and all(one is not other for other in above):
            if one.state is not optimizer.state:
                found[name] = one
            found.update({f"{name}.{under}": other for under, other in held(one, above).items()})
    return found


def attributes_of(optimizer: torch.optim.Optimizer) -> list[tuple[str, Any]]:
    """And what is in lists, tuples and dictionaries among them."""
    found: list[tuple[str, Any]] = []
    for name, one in vars(optimizer).items():
        found.append((name, one))
        if isinstance(one, (list, tuple)):
            found += ((f"{name}[{place}]", part) for place, part in enumerate(one))
        elif isinstance(one, dict) and one is not optimizer.state:
            found += ((f"{name}[{key!r}]", part) for key, part in one.items() if isinstance(part, torch.optim.Optimizer))
    return found


class Begun:
    """An optimizer as the run was entered with it. Some make their state when they are made, and never again."""

    def __init__(self, optimizer: torch.optim.Optimizer, within: Iterable[torch.optim.Optimizer] | None = None) -> None:
        self.optimizer = optimizer
        below = held(optimizer).values() if within is None else within
        self.held = [Begun(one, ()) for one in {id(one): one for one in below}.values()]  # held() has those within these, too
        self.state = copied(dict(optimizer.state))
        self.groups = [{name: copied(value) for name, value in group.items() if name != "params"} for group in optimizer.param_groups]

    def again(self) -> None:
        """Some keep in their groups what they have learnt, as Prodigy does its rate: of that, what is NaN or infinite begins anew too."""
        for one in self.held:
            one.again()
        self.optimizer.state.clear()
        self.optimizer.state.update(copied(self.state))
        for group, begun in zip(self.optimizer.param_groups, self.groups):
            group.update({name: copied(value) for name, value in begun.items() if not is_finite(group.get(name))})


def is_finite(setting: Any) -> bool:
    if isinstance(setting, torch.Tensor):
        return bool(torch.isfinite(setting).all())
    return not isinstance(setting, float) or math.isfinite(setting)


def kind_of(optimizer: torch.optim.Optimizer) -> str:
    return type(inner(optimizer)).__qualname__


def plain(value: Any) -> Any:
    """A setting as it can be kept and compared, or None. Rates may be tensors, and numbers those of NumPy."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    return value if isinstance(value, (bool, int, float, str)) else None


def settings_of(optimizer: torch.optim.Optimizer) -> list[Settings]:
    """Of each group. Not what a scheduler moves, nor what it keeps there."""
    found = []
    for group in optimizer.param_groups:
        moved = {setting for mark, settings in OF_SCHEDULERS.items() if mark in group for setting in (*settings, mark)}
        left = {"params", "max_lr", "min_lr", *moved}
        values = {name: plain(value) for name, value in group.items() if name not in left}
        found.append({name: value for name, value in values.items() if value is not None})
    return found


def check_kind(optimizer: torch.optim.Optimizer, kind: str, holder: str, remedy: str) -> None:
    """`kind`: of the optimizer whose state `holder` has."""
    if kind != (own := kind_of(optimizer)):
        raise ValueError(f"{holder} as the state of {kind}, and the program's is {own}: {remedy}")


def load_unnamed(optimizer: torch.optim.Optimizer, state: dict[str, Any], holder: str, remedy: str) -> None:
    """An earlier version did not keep of what kind the state is: what it lacks tells. A later PyTorch's new settings are filled in when it
    is loaded."""
    try:
        optimizer.load_state_dict(state)
        missing = sorted({name for group in optimizer.param_groups for name in set(inner(optimizer).defaults) - set(group)})
    except KeyError as error:
        missing = [str(error.args[0])]
    if missing:
        raise ValueError(f"{holder} without {', '.join(missing)}, which {kind_of(optimizer)} has: {remedy}")


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def owner_of(key: Any, parameters: list[torch.nn.Parameter]) -> Any:
    """Whose state it is that a state_dict() has as `key`: of a parameter, by its number, or the optimizer's own, by a name."""
    return parameters[key] if isinstance(key, int) else key


def sizes_of(state: dict[str, Any]) -> list[int]:
    """Parameters of each group. `state`: of an optimizer, or itself by its param_groups."""
    return [len(group["params"]) for group in state["param_groups"]]


def told_sizes(sizes: list[int]) -> str:
    return f"{len(sizes)} groups of {' and '.join(map(str, sizes))} parameters" if len(sizes) != 1 else f"1 group of {sizes[0]} parameters"


def is_plain(state: Any) -> bool:
    """As PyTorch's optimizers have it. One around another may have a form of its own, which it alone can read."""
    return isinstance(state, dict) and "state" in state and "param_groups" in state


def has_sizes_of(state: Any, optimizer: torch.optim.Optimizer) -> bool:
    """`state`: is_plain()."""
    try:
        return isinstance(state["state"], dict) and sizes_of(state) == sizes_of({"param_groups": optimizer.param_groups})
    except (KeyError, TypeError):
        return False


def check_sizes(optimizer: torch.optim.Optimizer, state: dict[str, Any], holder: str) -> None:
    """Of the groups, in a state that `holder` has: a program may add some as it trains."""
    kept, own = sizes_of(state), sizes_of({"param_groups": optimizer.param_groups})
    if kept != own:
        raise ValueError(f"{holder} with {told_sizes(kept)}, and the program's has {told_sizes(own)}: give it the same ones before Run is "
                         "entered (one that is to train later may have the rate 0 until then), or delete the file to begin the optimizer anew")


def types_of(optimizer: torch.optim.Optimizer) -> list[str]:
    """Of its parameters."""
    return [str(p.dtype) for p in parameters_of(optimizer)]


def keep_precision(optimizer: torch.optim.Optimizer, state: dict[str, Any], types: list[str] | None) -> None:
    """PyTorch casts what it loads to the type of the parameter, whole numbers too. Moments and master weights in fp32 of a parameter in bf16
    stay fp32, and moments in 8 bits stay so; those of one that has another type now are cast. `types`: of the parameters that the state is
    of; an earlier version did not keep them."""
    if types != types_of(optimizer):
        return
    parameters = parameters_of(optimizer)
    for key, saved in state["state"].items():
        own = owner_of(key, parameters)
        if own in optimizer.state:
            optimizer.state[own] = with_types_of(saved, optimizer.state[own])


def tell_other_settings(name: str, optimizer: torch.optim.Optimizer, before: list[Settings], now: list[Settings]) -> None:
    """The program was changed since, and PyTorch goes on with what is kept. A setting that the program itself moves is as it was given
    before, and nothing to tell of."""
    for place, (group, given_before, given) in enumerate(zip(optimizer.param_groups, before, now)):
        for setting, value in given.items():
            taken = plain(group.get(setting))
            if setting not in given_before or value in (given_before[setting], taken):
                continue
            where = f"{setting} of {name}" + (f", group {place}" if len(now) > 1 else "")
            log.warning("%s is %s, as in the saved state, and not %s, as the program gives it now: to change it, set it in the "
                        "optimizer's param_groups once run.step is known", where, taken, value)
