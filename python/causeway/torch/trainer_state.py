"""What a trainer needs to go on exactly where it stopped, beside the parameters, which the worker keeps: optimizer, random
numbers, and whatever else has state_dict() and load_state_dict()."""
from __future__ import annotations

import hashlib
import io
import os
import pathlib
import pickle
import random
import re
import sys
from collections.abc import Mapping
from typing import IO, Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from .arguments import Stateful
from .divided import DTensor
from .ranks import Group, Solo

KEPT = 2  # a worker that is killed goes on from the last position or the one before
LOCAL = "causeway: this rank's part of a divided tensor"


def own_parts(value: Any) -> Any:
    """Of nested state: each divided tensor replaced by the part of this rank, which needs no mesh to be read again. NumPy's
    numbers are plain ones, which need no code of others to be read."""
    if isinstance(value, DTensor):
        return {LOCAL: value.to_local()}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, dict):
        return {key: own_parts(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(own_parts, value))
    return value


def divided_again(value: Any, parameter: Any) -> Any:
    """The reverse: divided as the parameter that the state is of."""
    if isinstance(value, dict) and LOCAL in value:
        local = value[LOCAL].to(parameter.to_local().device)
        return DTensor.from_local(local, parameter.device_mesh, parameter.placements, run_check=False,
                                  shape=parameter.shape, stride=parameter.stride())
    if isinstance(value, dict):
        return {key: divided_again(one, parameter) for key, one in value.items()}
    return value


def without_tensors(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_tensors(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_tensors(one) for one in value]
    return None if torch.is_tensor(value) else value


def random_numbers() -> dict[str, Any]:
    """Where the generators of PyTorch, Python and NumPy stand, as numbers and tensors."""
    state: dict[str, Any] = {"random": torch.get_rng_state(), "random of Python": random.getstate()}
    if torch.cuda.is_available():
        state["random of the device"] = torch.cuda.get_rng_state()
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["random of NumPy"] = (str(kind), keys.tolist(), *(float(one) if isinstance(one, float) else int(one) for one in rest))
    return state


def set_random_numbers(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["random"])
    if torch.cuda.is_available() and "random of the device" in state:
        torch.cuda.set_rng_state(state["random of the device"])
    if "random of Python" in state:
        version, numbers, gauss = state["random of Python"]
        random.setstate((version, tuple(numbers), gauss))
    if "random of NumPy" in state and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(tuple(state["random of NumPy"]))


def sha256_of(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_readable(file: IO[bytes] | pathlib.Path, name: str) -> None:
    """Files are read as weights only, so that none can run code. What that does not allow is told when it is written."""
    if unsafe := get_unsafe_globals_in_checkpoint(file):
        raise ValueError(f"{name} holds {', '.join(sorted(unsafe))}, which torch.load(weights_only=True) does not read: keep numbers, "
                         "texts and tensors there, or name the types to torch.serialization.add_safe_globals before Run(...)")


class TrainerState:
    """Files in the region's checkpoints/: one for each rank and each position in the region's samples. The name ends with the
    SHA-256 of the content."""

    def __init__(self, directory: str | os.PathLike[str], ranks: Solo | Group, optimizers: list[torch.optim.Optimizer],
                 also: Mapping[str, Stateful]) -> None:
        self.directory = pathlib.Path(directory) / "checkpoints"
        self.ranks = ranks
        self.optimizers = {"optimizer" if len(optimizers) == 1 else f"optimizer {place}": one
                           for place, one in enumerate(optimizers)}
        self.also: dict[str, Any] = {**also, **self.optimizers}
        for name in self.also:  # now, rather than when the first file is written
            first = io.BytesIO()
            torch.save(without_tensors(self.state_of(name)), first)
            first.seek(0)
            check_readable(first, f"the state of {name}")

    def state_of(self, name: str) -> Any:
        return own_parts(self.also[name].state_dict())

    def files(self) -> list[tuple[int, pathlib.Path]]:
        """Sample and file, of this rank, in order; also refuses files of another number of ranks."""
        found = []
        for path in self.directory.glob("trainer-*-rank-*-of-*.pt"):
            match = re.fullmatch(r"trainer-(\d+)-rank-(\d+)-of-(\d+)(-[0-9a-f]{64})?\.pt", path.name)
            if match and int(match[3]) != self.ranks.world:
                raise ValueError(f"{path} was written by {match[3]} ranks, and this region has {self.ranks.world} now: "
                                 "start as many as before, or delete the trainer-*.pt there to begin the optimizer anew")
            if match and int(match[2]) == self.ranks.rank:
                found.append((int(match[1]), path))
        return sorted(found)

    def save(self, sample: int) -> None:
        if not self.also:
            return
        state = {**{name: self.state_of(name) for name in self.also}, **random_numbers()}
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"trainer-{sample}-rank-{self.ranks.rank}-of-{self.ranks.world}"
        unfinished = self.directory / f"{name}.unfinished"
        with open(unfinished, "wb") as out:
            torch.save(state, out)
            out.flush()
            os.fsync(out.fileno())
        check_readable(unfinished, "the trainer's state")
        finished = self.directory / f"{name}-{sha256_of(unfinished)}.pt"
        os.replace(unfinished, finished)
        files = self.files()
        kept = sorted({position for position, _ in files})[-KEPT:]
        for position, old in files:
            if position not in kept or (position == sample and old != finished):
                old.unlink(missing_ok=True)

    def read(self, path: pathlib.Path) -> dict[str, Any]:
        if not path.stem.endswith(f"-{sha256_of(path)}"):
            raise ValueError(f"{path} is damaged, or was written by an earlier version of Causeway: its content is not what its name, "
                             "which ends with its SHA-256, says. Delete what all ranks have of that sample to go on from the one before, "
                             "or every trainer-*.pt there to begin the optimizer anew")
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            return state
        except pickle.UnpicklingError as refused:
            raise ValueError(f"{path} holds more than numbers, texts and tensors, and nothing else is read. If you trust the file, name "
                             f"the types to torch.serialization.add_safe_globals before Run(...): {refused}") from refused

    def resume(self, sample: int) -> int | None:
        """From the last position that is not after `sample`. Positions after it are of work that was lost: removed."""
        usable = None
        for position, path in self.files() if self.also else []:
            if position > sample:
                path.unlink(missing_ok=True)
            else:
                usable = position, path
        if usable is None:
            return None
        position, path = usable
        state = self.read(path)
        missing = sorted(set(self.also) - set(state))
        if missing:
            raise ValueError(f"{path} has no state of {', '.join(missing)}: give Run the same optimizer and "
                             "`also` as before, or delete the file to begin them anew")
        for name, one in self.also.items():
            one.load_state_dict(placed(state[name], self.optimizers[name]) if name in self.optimizers else state[name])
        set_random_numbers(state)
        return position


def placed(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """An optimizer numbers its parameters in the order of its groups."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {**state, "state": {number: divided_again(one, parameters[number]) for number, one in state["state"].items()}}
