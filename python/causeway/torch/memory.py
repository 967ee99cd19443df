"""Where in memory parameters lie. The run reads and writes each by itself, so each needs memory of its own that can be written to."""
from __future__ import annotations

import bisect
import itertools
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from .divided import DTensor
from .marks import local_of
from .wrapped import is_wrapped

MAPS = pathlib.Path("/proc/self/maps")  # of Linux
LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) (\S+ \d+) *(.*)")
BOOT = pathlib.Path("/proc/sys/kernel/random/boot_id")  # tells hosts apart
Named = Iterable[tuple[str, torch.Tensor]]


class Place(NamedTuple):
    device: str
    begin: int
    end: int
    number: int  # in the order of the model
    name: str


class Area(NamedTuple):
    """A part of a process's memory."""
    begin: int
    end: int
    rights: str
    file: str  # its device and number
    path: str
    offset: int  # in the file


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


def is_direct(tensor: torch.Tensor) -> bool:
    """The worker reads and writes it where it is. Others are copied to memory of the worker's."""
    return (tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.is_contiguous() and
            not isinstance(tensor, DTensor) and not is_wrapped(tensor))


def problem_of_shared(named: Named) -> str | None:
    """Two parameters over the same memory, as `a.data = b.data` makes them. One parameter in two modules has one name, and crosses once.
    In fp32 both copies get the same value; rounding gives two."""
    set_apart = [(name, one) for name, one in named if one.dtype != torch.float32 or is_direct(one.detach())]
    for one, other in itertools.pairwise(places_of(set_apart)):
        if one.device == other.device and other.begin < one.end:
            first, second = sorted((one, other), key=lambda place: place.number)
            return (f"the parameters {first.name} and {second.name} share memory, so the run would set it twice: tie them as one parameter in "
                    "both modules (a.weight = b.weight, not a.weight.data = b.weight.data), make the optimizer after that, and begin a new "
                    "run, because the model then has one name less")
    return None


def problem_of_read_only(named: Named, kind: str) -> str | None:
    """A file that is mapped to be read alone ends the process that writes there, with no word but SIGSEGV."""
    for place, area in areas_of(named):
        if "w" not in area.rights:
            attribute = place.name.rpartition(".")[2]
            copy = (f"its module a copy (module.{attribute} = module.{attribute}.clone())" if kind == "buffer"
                    else "the model torch.nn.Parameter(p.detach().clone())")
            return (f"the {kind} {place.name} lies in memory that can only be read, such as a file that is mapped so: load without assign=True, "
                    f"or give {copy}")
    return None


def shared_places(named: Named) -> dict[str, str]:
    """Of parameters in memory that other processes may have too: where, by a text that is the same in each of them."""
    tensors = dict(named)
    found = {place.name: f"{area.file} {area.offset + place.begin - area.begin}" for place, area in areas_of(tensors.items())
             if "s" in area.rights and not is_device(area.path) and not is_pinned(tensors[place.name])}
    try:
        host = BOOT.read_text(errors="replace").strip() if found else ""
    except OSError:
        return {}
    return {name: f"{host} {place}" for name, place in found.items()}


def is_device(path: str) -> bool:
    """All memory that a driver maps has the same number and offset, in every process."""
    return path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero"))


def is_pinned(tensor: torch.Tensor) -> bool:
    """By a driver, for this process alone."""
    try:
        return local_of(tensor).is_pinned()
    except (RuntimeError, NotImplementedError):
        return False


def problem_of_ranks(told: Sequence[Mapping[str, str]]) -> str | None:
    """`told`: shared_places() of each rank. torch.multiprocessing gives a model on the CPU to all the processes that it starts."""
    seen: dict[str, int] = {}
    for rank, places in enumerate(told):
        for name, place in places.items():
            if (other := seen.setdefault(place, rank)) != rank:
                return (f"ranks {other} and {rank} of this region hold the parameter {name} in the same memory, as torch.multiprocessing gives "
                        "a model to processes, so each would step it: make the model in each process, or copy it there (copy.deepcopy)")
    return None


def areas_of(named: Named) -> list[tuple[Place, Area]]:
    """Of what is in the host's memory."""
    places = [place for place in places_of(named) if place.device == "cpu"]
    areas = mapped() if places else []
    begins = [area.begin for area in areas]
    found = [(place, bisect.bisect_right(begins, place.begin) - 1) for place in places]
    return [(place, areas[at]) for place, at in found if at >= 0 and place.begin < areas[at].end]


def mapped() -> list[Area]:
    """Of this process, in order. Nothing where the system does not tell."""
    try:
        lines = MAPS.read_bytes().decode("utf-8", "replace").split("\n")  # names of files may hold whatever else ends a line
    except OSError:
        return []
    found = []
    for begin, end, rights, offset, file, path in (line.groups() for line in map(LINE.match, lines) if line):
        found.append(Area(int(begin, 16), int(end, 16), rights, file, path, int(offset, 16)))
    return found
