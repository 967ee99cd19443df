"""What a program gives to Run, refused at once and by name if it cannot be meant."""
from __future__ import annotations

import logging
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, SupportsFloat, runtime_checkable

import torch

from .divided import reshard

log = logging.getLogger("causeway")

Optimizers = torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None


@runtime_checkable
class Stateful(Protocol):
    """What is kept with the optimizer's state: schedulers, scalers, data loaders."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


VOCABULARY = 1000  # rows of an embedding, at least, that seem to be one's

DIVIDED_STATE = ("ZeroRedundancyOptimizer", "OSS")  # of PyTorch and of FairScale: ZeRO, first stage

KEPT_NAMES = ("optimizer", "random", "random of the device", "random of all devices", "random of Python", "random of NumPy")


def from_environment(given: Any, variable: str, what: str) -> Any:
    value = given if given is not None else os.environ.get(variable)
    if not value:
        raise ValueError(f"no {what} was given: pass {what}=..., or set {variable}")
    return value


def count(name: str, value: Any) -> int:
    """`value` as an int, 1 or more."""
    wrong = f"{name} is {value!r}: it must be a whole number, 1 or more"
    if isinstance(value, bool):
        raise ValueError(wrong)
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(wrong) from None
    if number < 1:
        raise ValueError(wrong)
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in allowed:
        return value
    raise ValueError(f"{name} is {value!r}: it must be {' or '.join(repr(one) for one in allowed)}")


def function(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ValueError(f"{name} is {value!r}: it must be a function, or None")
    return value


def model(value: Any, name: str = "the model") -> torch.nn.Module:
    if not isinstance(value, torch.nn.Module):
        raise ValueError(f"{name} is a {type(value).__name__}: Run takes a torch.nn.Module")
    return value


def optimizers(value: Any, of: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """A list of them, which step parameters of the model and no others."""
    given = [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
    reshard(of)
    known = {id(parameter) for parameter in of.parameters()}
    for place, one in enumerate(given):
        name = "the optimizer" if len(given) == 1 else f"optimizer {place} of the list"
        if not isinstance(one, torch.optim.Optimizer):
            raise ValueError(f"{name} is a {type(one).__name__}: Run takes a torch.optim.Optimizer, a list of them, or None")
        if kind := next((kind.__name__ for kind in type(one).__mro__ if kind.__name__ in DIVIDED_STATE), None):
            raise ValueError(f"{name} is a {kind}, which divides its state over the ranks and does not let Run save it: take the optimizer "
                             "in it by itself, or divide the model too, with fully_shard (FSDP2), which divides the state as well")
        stepped = [p for group in one.param_groups for p in group["params"]]
        strange = [p for p in stepped if id(p) not in known]
        if len(strange) == len(stepped):
            raise ValueError(f"{name} has none of the model's parameters: it is of another model, or of this one before it was "
                             "wrapped or converted. Make it from the parameters of the model that Run is given")
        if strange:
            raise ValueError(f"{name} has {len(strange)} parameters that the model does not have, the first of shape {tuple(strange[0].shape)}: "
                             "each region would train its own. Put the module that has them, such as a loss, into one ModuleDict with the "
                             "model. For parameters that each region is to have for itself, make another optimizer, and do not give it to Run")
    return given


def tell_unit(of: torch.nn.Module, samples_per_step: int) -> None:
    """Of a region that counts samples, though its model reads texts: the others may count tokens."""
    words = max((one.num_embeddings for one in of.modules() if isinstance(one, torch.nn.Embedding)), default=0)
    if words >= VOCABULARY:
        log.warning("tokens_per_step is not given, so this region counts by samples, %d for a step. Where another region gives it, this one's "
                    "training weighs next to nothing in the mean. Give tokens_per_step in all regions, or in none", samples_per_step)


def tell_extra_state(of: torch.nn.Module) -> None:
    """state_dict() has it, as it has buffers, but it may be anything."""
    own = torch.nn.Module.get_extra_state
    found = next((name or type(one).__name__ for name, one in of.named_modules() if type(one).get_extra_state is not own), None)
    if found is not None:
        log.warning("the module %s keeps state that is neither parameter nor buffer (get_extra_state): it does not cross between regions, and a "
                    "restart begins with what the program makes, unless `also` has it. Register what regions are to share as a buffer", found)


def tell_pruned(of: torch.nn.Module) -> None:
    """Of PEFT's AdaLoRA: each region prunes what it measures to matter least."""
    if any(kind.__name__ == "AdaLoraModel" for one in of.modules() for kind in type(one).__mro__):
        log.warning("AdaLoRA prunes ranks by what each region measures by itself. The mean of the regions brings back what one of them has "
                    "pruned, so ranks do not fall to target_r. Take LoRA with the rank that you want (LoraConfig)")


def also(value: Any) -> dict[str, Stateful]:
    try:
        named = dict(value)
    except (TypeError, ValueError):
        raise ValueError(f"also is {value!r}: it must be a dict of names to objects") from None
    for name, one in named.items():
        if not isinstance(name, str):
            raise ValueError(f"also has the name {name!r}: names are texts")
        if name in KEPT_NAMES or re.fullmatch(r"optimizer \d+", name):
            raise ValueError(f"also[{name!r}] has a name that Run uses itself: take another")
        if not isinstance(one, Stateful):
            raise ValueError(f"also[{name!r}] is {one!r}, which has no state_dict() and load_state_dict()")
    return named


def loss(value: Any) -> torch.Tensor | float:
    """A number, or a tensor of one, which is read later."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ValueError(f"report() was given a tensor of shape {tuple(value.shape)}: a loss is one number")
        if value.is_complex() or value.is_meta:
            has = "complex numbers" if value.is_complex() else "no value, as it is on the meta device"
            raise ValueError(f"report() was given a tensor that has {has}: a loss is one real number")
        return value.detach()
    return real(value, "report() was given", "a loss is a number, or a tensor of one")


def evaluated(value: Any) -> float:
    """What the program's `evaluate` gave."""
    return real(value, "evaluate gave", "it must give the mean loss of the samples that it is asked for, as a number or a tensor of one")


def real(value: Any, came: str, wanted: str) -> float:
    """`value` as a float. Refused if it is not one number. A NumPy number that is complex would lose half of it."""
    try:
        if not isinstance(value, SupportsFloat) or isinstance(value, (str, bytes)) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
            raise TypeError(f"it is a {type(value).__name__}")
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{came} {value!r}: {wanted}") from error


KeepWaiting = Callable[[str], Any]
Evaluate = Callable[[int], SupportsFloat]
Also = Mapping[str, Stateful] | Sequence[tuple[str, Stateful]]
