"""What a model keeps beside its parameters and saves with them: running statistics, counters. Regions that average weights
and keep their own statistics evaluate the same weights differently, so these cross too."""
from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from ..follow import AVERAGE, LOWEST, PART_BITS, PARTS, whole_number
from .divided import DTensor, divided_as, whole
from .marks import local_of, sample_of, writes_to
from .memory import problem_of_read_only
from .ranks import Group, Solo, agree
from .wrapped import is_wrapped

log = logging.getLogger("causeway")

KINDS = ("average", "local", "lowest")


def saved_buffers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    """Those that state_dict() has, and that are not empty: what is not saved (masks, tables) is made from the code."""
    found = []
    seen: set[int] = set()
    for prefix, module in model.named_modules():
        unsaved: set[str] = getattr(module, "_non_persistent_buffers_set")
        for name, buffer in module.named_buffers(recurse=False):
            if name in unsaved or buffer.numel() == 0 or id(buffer) in seen:
                continue
            seen.add(id(buffer))
            found.append((f"{prefix}.{name}" if prefix else name, buffer))
    return found


def problem_of(buffer: torch.Tensor) -> str | None:
    if buffer.is_meta:
        return "on the meta device and has no values: call model.to_empty(device=...) and initialise it first"
    if buffer.layout != torch.strided:
        return f"{buffer.layout}: a run takes dense ones"
    if is_wrapped(buffer):
        return f"of the class {type(buffer).__name__}: a run takes plain tensors"
    return f"{buffer.dtype}: a run takes real and whole numbers" if buffer.is_complex() else None


class Buffer:
    """One buffer, found anew by its name each time, as programs replace them."""

    def __init__(self, module: torch.nn.Module, attribute: str, name: str, kind: str, leads: bool) -> None:
        self.module, self.attribute, self.plain_name = module, attribute, name
        first = self.now()
        self.shape = tuple(first.shape)
        self.whole_number = not first.dtype.is_floating_point
        self.name = (LOWEST if self.whole_number or kind == "lowest" else AVERAGE) + name
        shape = (PARTS, *first.shape) if self.whole_number else first.shape
        self.host: torch.Tensor | None = torch.zeros(shape, dtype=torch.float32, device="cpu") if leads else None

    def now(self) -> torch.Tensor:
        buffer: torch.Tensor = getattr(self.module, self.attribute)
        return buffer.detach()

    def check_shape(self) -> None:
        """Its values are exchanged in memory of the shape that it entered with."""
        buffer: torch.Tensor | None = getattr(self.module, self.attribute, None)
        if buffer is None or tuple(buffer.shape) != self.shape:
            now = "is gone" if buffer is None else f"has the shape {tuple(buffer.shape)}"
            raise ValueError(f"the buffer {self.plain_name} had the shape {self.shape} when the run was entered, and {now} now, so regions "
                             "cannot share it. Keep its shape, or register it with persistent=False, or give buffers=\"local\" in all regions")

    def mark(self) -> tuple[int, list[int], list[int]]:
        """Another one after every change, but for one by `.data` to a few elements of many; and now and then without a change."""
        now = self.now()
        return local_of(now).data_ptr(), writes_to(now), sample_of(now)

    def take(self) -> None:
        value = whole(self.now())
        if self.host is None:
            return
        if not self.whole_number:
            self.host.copy_(value.to("cpu", torch.float32))
            return
        number = value.to("cpu", torch.int64)
        for part in range(PARTS):
            last = part == PARTS - 1
            piece = number >> part * PART_BITS
            self.host[part].copy_(piece if last else piece & (1 << PART_BITS) - 1)

    def give(self, ranks: Solo | Group) -> None:
        target = self.now()
        if self.host is None:
            value = torch.empty(target.shape, dtype=target.dtype, device=target.device)
        elif self.whole_number:
            value = whole_number(self.host).to(target.device, target.dtype)
        else:
            value = self.host.to(target.device, target.dtype)
        shared = ranks.share(value.contiguous().clone())
        target.copy_(divided_as(shared, target))

    def has_no_mean(self) -> bool:
        """It holds infinities, as masks of attention do. With NaN something else is wrong."""
        return self.host is not None and bool(torch.isinf(self.host).any()) and not bool(torch.isnan(self.host).any())


class LeftOut:
    """A buffer that does not cross, because it held infinities before the first step. It is looked at, because it should not change."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer, self.told = buffer, False
        self.before = None if isinstance(buffer.now(), DTensor) else buffer.host  # gathering a divided one would take all ranks
        self.seen = buffer.mark() if self.before is not None else None

    def look(self) -> None:
        if self.before is None or self.told or self.seen == (mark := self.buffer.mark()):
            return
        self.seen = mark
        if torch.equal(self.buffer.now().to("cpu", torch.float32), self.before):
            return
        self.told = True
        log.warning("the buffer %s held infinities when the run was entered, so it does not cross, and now it has changed: each region has "
                    "its own, and a restart begins with what the program makes. Begin it with finite numbers if regions are to share it",
                    self.buffer.plain_name)


class Buffers:
    """All of a model's. Every method is called by all ranks of the region; rank 0's values count."""

    def __init__(self, model: torch.nn.Module, ranks: Solo | Group, kind: str, plain_name: Callable[[str], str]) -> None:
        self.model, self.ranks, self.kind = model, ranks, kind
        self.all: list[Buffer] = []
        self.left_out: list[LeftOut] = []
        self.entered: list[tuple[int, list[int], list[int]]] = []
        self.plain, self.known = plain_name, set[str]()
        if kind == "local":
            return
        modules = dict(model.named_modules())
        named = saved_buffers(model)
        self.known = {plain_name(name) for name, _ in named}
        for name, buffer in named:
            if problem := problem_of(buffer):
                raise ValueError(f"the buffer {name} is {problem}. Register it with persistent=False, if the program makes it the same at every "
                                 "start; or give buffers=\"local\" in all regions: then every buffer stays in its region")
            prefix, _, attribute = name.rpartition(".")
            self.all.append(Buffer(modules[prefix], attribute, plain_name(name), kind, ranks.leads))
        self.take()
        self.leave_out()
        agree(ranks, problem_of_read_only(((one.plain_name, one.now()) for one in self.all), "buffer"))
        self.entered = [one.mark() for one in self.all]

    def leave_out(self) -> None:
        """What has no mean stays as the program makes it. It makes it alike in every region and at every start, so all leave out the same;
        where one does not, its names differ from the others', and it is refused."""
        names = self.ranks.gather({one.name for one in self.all if one.has_no_mean()})[0]
        self.left_out = [LeftOut(one) for one in self.all if one.name in names]
        self.all = [one for one in self.all if one.name not in names]

    def tell_changed(self) -> None:
        """Statistics may well change before the first step, by a forward pass that only tries the model. Weights that are loaded do not
        leave it at that: Parameters looks."""
        changed = [one.plain_name for one, mark in zip(self.all, self.entered) if one.mark() != mark]
        if changed and self.ranks.leads:
            log.warning("the buffer %s changed between entering the run and its first step: the run takes back the change", changed[0])

    def hosts(self) -> dict[str, torch.Tensor]:
        return {one.name: one.host for one in self.all if one.host is not None}

    def tell_new(self) -> None:
        """Of one that was registered since the run was entered: once."""
        if self.kind == "local" or not self.ranks.leads:
            return
        new = [name for name in (self.plain(name) for name, _ in saved_buffers(self.model)) if name not in self.known]
        self.known.update(new)
        if new:
            log.warning("the buffer %s was registered, or got its first values, after the run was entered: it does not cross, and each region "
                        "has its own. Register it before, or with persistent=False if that is intended", new[0])

    def take(self) -> None:
        self.tell_new()
        for one in self.all:
            one.check_shape()
        for one in self.all:
            one.take()
        for other in self.left_out:
            other.look()

    def give(self) -> None:
        for one in self.all:
            one.give(self.ranks)

    def __str__(self) -> str:
        averaged = sum(one.name.startswith(AVERAGE) for one in self.all)
        lowest = len(self.all) - averaged
        told = f"{averaged} buffers are averaged with every round, {lowest} are the first region's that a round lists"
        if not self.left_out:
            return told
        names = [one.buffer.plain_name for one in self.left_out]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        return f"{told}. Not averaged, because they hold infinities, and left as the program makes them: {', '.join(names[:3])}{more}"
