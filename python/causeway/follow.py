"""The weights that `causeway follow` publishes, in place: for a process that serves the model while it trains.

    from causeway.follow import Follower

    for weights in Follower("served"):          # the directory of `causeway follow`; ends with the run's last version
        weights.load_into(model)                # of {name: tensor}, mapped from the file: nothing is copied before this
        print(weights.version)

It only reads files, and needs nothing but PyTorch or NumPy.
"""
import json
import logging
import mmap
import pathlib
import time
from collections.abc import Iterator
from typing import Any

_NUMPY_TYPES = {"F32": "float32"}
_HEADER_BYTES_MAX = 100_000_000
log = logging.getLogger("causeway")

# What wrappers put into the names, so that regions that wrap a model differently have the same names.
WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.", "_forward_module.")
# Before the names of what is no parameter: statistics, and the digest of frozen parameters. What the run does with a tensor, its name
# says: see docs/audit.md.
AVERAGE, LOWEST, FROZEN = "average:", "lowest:", "lowest:frozen:"
# A whole number crosses in parts that fp32 holds exactly, and so does the difference of two. The first dimension counts the parts.
PART_BITS, PARTS = 22, 3


def plain_name(name: str) -> str:
    while (found := next((w for w in WRAPPERS if name.startswith(w)), None)) is not None:
        name = name[len(found):]
    for wrapper in WRAPPERS:
        name = name.replace("." + wrapper, ".")
    return name


def plain_key(key: str) -> str:
    """Of a file. Earlier versions knew fewer wrappers."""
    kind = next((one for one in (AVERAGE, LOWEST) if key.startswith(one)), "")
    return kind + plain_name(key.removeprefix(kind))


def whole_number(parts: Any) -> Any:
    """As int64, of the parts that stand for it."""
    import torch
    pieces = parts.to(torch.int64)
    return sum((pieces[part] << part * PART_BITS for part in range(PARTS)), torch.zeros_like(pieces[0]))


class Weights(dict[str, Any]):
    """One version: {name: tensor}. The tensors are read-only views of the file, which stays mapped while one of them lives."""

    def __init__(self, directory: pathlib.Path, array: Any):
        super().__init__()
        self.directory = directory
        self.facts: dict[str, Any] = json.loads((directory / "version.json").read_text())
        self.version: int = self.facts["version"]
        with open(directory / "model.safetensors", "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        length = int.from_bytes(content[:8], "little")
        if length > min(_HEADER_BYTES_MAX, len(content) - 8):
            raise ValueError(f"{directory / 'model.safetensors'} is damaged: its header has {length} bytes")
        header = json.loads(content[8:8 + length])
        header.pop("__metadata__", None)
        for name, tensor in header.items():
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            if not 0 <= begin <= end <= len(content):
                raise ValueError(f"{directory / 'model.safetensors'} is damaged: {name} lies outside")
            self[name] = array(content, tensor["dtype"], tensor["shape"], begin, end - begin)

    def load_into(self, model: Any) -> None:
        """Sets a PyTorch model's parameters, and the buffers that the run shares. What does not cross in a run stays as it is: frozen
        parameters, buffers that each region has for itself. Raises ValueError if it is not the model of the run."""
        own, state, used = model.state_dict(), {}, set()
        keys = {plain_key(key): key for key in self}
        for name, to in own.items():
            plain = plain_name(name)
            found = next((keys[key] for key in (plain, AVERAGE + plain, LOWEST + plain) if key in keys), None)
            if found is not None:
                state[name] = self._value(found, to)
                used.add(found)
        strange = next((name for name in self if name not in used and not name.startswith(FROZEN)), None)
        if strange is not None:
            raise ValueError(f"{self.directory} has {strange}, but the model does not: give the model of the run")
        known = {own[name].data_ptr() for name in state}  # tied weights are in the file once
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and parameter.numel() > 0 and name not in state and parameter.data_ptr() not in known:
                raise ValueError(f"the model has the parameter {name}, but {self.directory} does not: give the model of the run, and "
                                 "freeze what is frozen in the run")
        model.load_state_dict(state, strict=False)

    def _value(self, name: str, to: Any) -> Any:
        value = self[name]
        if to.is_floating_point() or value.shape != (PARTS, *to.shape):
            return value
        exact = value.dtype.itemsize == 4 or value.numel() == 0 or bool(value.abs().max() < 256)
        if not exact and name not in _told_of_rounding:
            _told_of_rounding.add(name)
            log.warning("%s is a whole number, and is rounded in the file: `causeway follow --dtype float32` writes it exactly",
                        name.removeprefix(LOWEST))
        return whole_number(value)


_told_of_rounding: set[str] = set()


def _torch_array(content: mmap.mmap, dtype: str, shape: list[int], begin: int, size: int) -> Any:
    import torch
    types = {"F32": torch.float32, "BF16": torch.bfloat16}
    if size == 0:
        return torch.empty(shape, dtype=types[dtype], device="cpu")
    count = size // types[dtype].itemsize
    return torch.frombuffer(content, dtype=types[dtype], count=count, offset=begin).reshape(shape)


def _numpy_array(content: mmap.mmap, dtype: str, shape: list[int], begin: int, size: int) -> Any:
    import numpy
    if dtype not in _NUMPY_TYPES:
        raise ValueError(f"NumPy has no {dtype}: use framework=\"torch\", or `causeway follow --dtype float32`")
    count = size // numpy.dtype(_NUMPY_TYPES[dtype]).itemsize
    return numpy.frombuffer(content, _NUMPY_TYPES[dtype], count, begin).reshape(shape)


class Follower:
    """Gives the versions in a directory of `causeway follow`: always the newest one. Versions between are skipped."""

    def __init__(self, directory: str | pathlib.Path, framework: str = "torch", poll_s: float = 0.2):
        self._directory = pathlib.Path(directory)
        self._array = {"torch": _torch_array, "numpy": _numpy_array}[framework]
        self._poll_s = poll_s
        self._seen = ""  # what `current` pointed to

    def newest(self) -> Weights | None:
        """The newest version. None: it was given already, or there is none yet."""
        gone = None
        while (directory := self._current()) is not None and directory.name != self._seen:
            try:
                weights = Weights(directory, self._array)
            except FileNotFoundError:
                if directory == gone:
                    raise
                gone = directory  # it gave way to a newer one while it was opened
                continue
            self._seen = directory.name
            return weights
        return None

    def over(self) -> bool:
        """Whether the run is over, and its last version was given."""
        directory = self._current()
        if directory is None or directory.name != self._seen:
            return False
        return bool(json.loads((directory / "version.json").read_text())["final"])

    def _current(self) -> pathlib.Path | None:
        try:
            return (self._directory / "current").resolve(strict=True)
        except FileNotFoundError:
            return None

    def __iter__(self) -> Iterator[Weights]:
        while True:
            weights = self.newest()
            if weights is not None:
                yield weights
            elif self.over():
                return
            else:
                time.sleep(self._poll_s)
