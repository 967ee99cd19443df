"""Where in memory parameters lie. The run reads and writes each by itself, so each needs memory of its own that can be written to."""
from __future__ import annotations

import bisect
import itertools
import pathlib
from collections.abc import Iterable
from typing import NamedTuple

import torch

from .marks import local_of

MAPS = pathlib.Path("/proc/self/maps")  # of Linux
ADVICE = "load weights without assign=True or mmap, or give the model torch.nn.Parameter(p.detach().clone())"
Named = Iterable[tuple[str, torch.Tensor]]


class Place(NamedTuple):
    device: str
    begin: int
    end: int
    number: int  # in the order of the model
    name: str


def place_of(name: str, number: int, tensor: torch.Tensor) -> Place | None:
    """None: it has no memory. What is not contiguous may lie between others, so of that the first element alone counts."""
    try:
        local = local_of(tensor)
        begin = local.data_ptr()
        size = local.numel() if local.is_contiguous() else 1
        return Place(str(local.device), begin, begin + size * local.element_size(), number, name) if begin else None
    except (RuntimeError, NotImplementedError):
        return None


def places_of(named: Named) -> list[Place]:
    return sorted(place for number, (name, one) in enumerate(named) if (place := place_of(name, number, one)))


def problem_of_shared(named: Named) -> str | None:
    """Two parameters over the same memory, as `a.data = b.data` makes them. One parameter in two modules has one name, and crosses once."""
    for one, other in itertools.pairwise(places_of(named)):
        if one.device == other.device and other.begin < one.end:
            first, second = sorted((one, other), key=lambda place: place.number)
            return (f"the parameters {first.name} and {second.name} share memory, so the run would set it twice: tie them as one parameter in "
                    "both modules (a.weight = b.weight, not a.weight.data = b.weight.data), and make the optimizer after that")
    return None


def problem_of_read_only(named: Named, kind: str) -> str | None:
    """A file that is mapped to be read alone ends the process that writes there, with no word but SIGSEGV."""
    places = [place for place in places_of(named) if place.device == "cpu"]
    ranges = mapped() if places else []
    for place in places:
        found = bisect.bisect_right(ranges, (place.begin, True, 1 << 64)) - 1
        begin, writable, end = ranges[found] if found >= 0 else (0, True, 0)
        if not writable and begin <= place.begin < end:
            return f"the {kind} {place.name} lies in memory that can only be read, such as a file that is mapped: {ADVICE}"
    return None


def mapped() -> list[tuple[int, bool, int]]:
    """Of this process, in order: begin, whether it can be written to, end. Nothing where the system does not tell."""
    try:
        lines = MAPS.read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        addresses, rights, *_ = line.split(maxsplit=2)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        found.append((begin, "w" in rights, end))
    return found
