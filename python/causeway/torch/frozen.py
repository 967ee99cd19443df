"""What of a model is frozen: parameters without requires_grad. They do not cross between regions, and the run does not keep them. So that
all regions train the same model, their digest is in the name of a tensor that crosses: names are compared, whatever run.initial says."""
from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import pathlib
from collections.abc import Callable

import torch

from ..follow import FROZEN
from .divided import DTensor, whole
from .marks import local_of, parts_of, sample_of
from .ranks import Group, Solo

log = logging.getLogger("causeway")

KINDS = ("same", "local")
DIGITS = 12
PIECE_BYTES = 64 << 20  # of a tensor, as it is copied to the host
MANY_BYTES = 8 << 30  # takes some seconds
UNKNOWN = "values that cannot be read"


class Frozen:
    """All of a model's. Every method is called by all ranks of the region; a parameter's values count of the first rank that holds it."""

    def __init__(self, model: torch.nn.Module, ranks: Solo | Group, kind: str, plain_name: Callable[[str], str],
                 directory: pathlib.Path | None = None) -> None:
        self.model, self.plain_name, self.told = model, plain_name, False
        self.record = None if directory is None else directory / "checkpoints" / "frozen"
        self.problem: str | None = None
        self.digest: str | None = None  # in the name of the tensor; None: there is no such tensor
        self.watched: dict[str, tuple[list[int], str]] = {}  # of this rank's: marks, and the digest of what it holds itself
        first: dict[str, int] = {}  # rank that holds it
        for rank, names in enumerate(ranks.gather(list(self.now()))):
            for name in names:
                first.setdefault(name, rank)
        self.count = len(first)
        self.resumed: bool = ranks.gather(self.has_state())[0]
        if not first or (kind == "local" and not self.resumed):
            return
        own = self.hashed({name for name, rank in first.items() if rank == ranks.rank})
        self.settle({name: one for told in ranks.gather(own) for name, one in told.items()}, kind)

    def now(self) -> dict[str, torch.nn.Parameter]:
        return {self.plain_name(name): p for name, p in self.model.named_parameters() if not p.requires_grad}

    def hashed(self, mine: set[str]) -> dict[str, str]:
        """Those that are for this rank to hash. All gather what is divided."""
        frozen, found = self.now(), {}
        size = sum(p.numel() * p.element_size() for name, p in frozen.items() if name in mine)
        if size >= MANY_BYTES:
            log.info("reading %d GiB of frozen parameters, to compare them with the other regions'", size >> 30)
        for name, p in frozen.items():
            full = whole(p.detach())
            if name not in mine:
                continue
            values = digest_of(full)
            found[name] = f"{tuple(p.shape)} {p.dtype} {values}"
            if values == UNKNOWN:
                log.warning("the frozen parameter %s cannot be read as bytes: it is not compared with the other regions'", name)
                continue
            self.watched[name] = marks_of(p), digest_of(local_of(p)) if isinstance(p, DTensor) else values
        return found

    def settle(self, told: dict[str, str], kind: str) -> None:
        """A run's tensors stay those that it began with: a region that goes on has the name that it began with, or none."""
        digest = hashlib.sha256(repr(sorted(told.items())).encode()).hexdigest()[:DIGITS]
        self.digest = self.recorded() if self.resumed else digest
        if kind == "same" and self.digest not in (None, digest):
            self.problem = (f"the {self.count} parameters without requires_grad are not those that this region began the run with (their "
                            f"digest is {digest}, and was {self.digest}): load the same ones, or give frozen=\"local\" if the program "
                            "changes them itself")

    def has_state(self) -> bool:
        return self.record is not None and any(self.record.parent.glob("state*.safetensors"))

    def recorded(self) -> str | None:
        """None also of a run that began before frozen parameters were compared."""
        if self.record is None or not self.record.exists():
            return None
        return self.record.read_text().strip() or None

    def keep(self) -> None:
        """For a restart. The region has no state on disk before this."""
        if self.record is None or self.resumed or self.digest == self.recorded():
            return
        self.record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self.record.with_suffix(".unfinished")
        unfinished.write_text(self.digest or "")
        os.replace(unfinished, self.record)

    def hosts(self) -> dict[str, torch.Tensor]:
        if self.digest is None:
            return {}
        return {FROZEN + self.digest: torch.zeros(1, dtype=torch.float32, device="cpu")}

    def look(self) -> None:
        """Whether they are still frozen. Some programs move them by hand, as a teacher that follows the model."""
        if self.told or not self.watched:
            return
        for name, p in self.now().items():
            if name not in self.watched or (marks := marks_of(p)) == self.watched[name][0]:
                continue
            before = self.watched[name][1]
            self.watched[name] = marks, before
            if digest_of(local_of(p)) != before:
                return self.tell(name)

    def tell(self, name: str) -> None:
        self.told = True
        log.warning("the parameter %s has no requires_grad, and has changed since the run was entered. It does not cross between regions, so "
                    "each region has its own; and it is not kept, so a restart begins with what the program makes, unless `also` has it. "
                    "Register what regions are to share as a buffer", name)

    def __str__(self) -> str:
        compared = f"their digest is {self.digest}" if self.digest else "they are not compared with the other regions'"
        return f"{self.count} parameters without requires_grad stay as the program makes them; {compared}"


def marks_of(p: torch.Tensor) -> list[int]:
    """Others after every change, but for one by `.data` to a few elements of many; and now and then without a change."""
    parts = parts_of(local_of(p))
    counts = [0 if part.is_inference() else part._version for part in (p.detach(), *parts)]  # a divided one counts in the whole of it
    return [*counts, *(part.data_ptr() for part in parts), *sample_of(p)]


def digest_of(tensor: torch.Tensor) -> str:
    """Of its bytes. One without values (on the meta device, where a library keeps them elsewhere) has a digest as well."""
    try:
        hashed = hashlib.sha256()
        for part in parts_of(tensor):
            if not part.is_meta and part.numel():
                values = part.contiguous().reshape(-1).view(torch.uint8)
                for begin in range(0, values.numel(), PIECE_BYTES):
                    host = values[begin:begin + PIECE_BYTES].cpu()
                    hashed.update((ctypes.c_char * host.numel()).from_address(host.data_ptr()))
        return hashed.hexdigest()
    except (RuntimeError, NotImplementedError):
        return UNKNOWN
