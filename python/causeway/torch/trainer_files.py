"""The files of a trainer's state in the region's checkpoints/: one for each rank and each position in the region's samples. The
name ends with the SHA-256 of the content."""
from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import pathlib
import pickle
import re
from collections.abc import Container
from typing import IO, Any

import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

# Of the disk, not of the program: diloco/files/error.cc has the same.
OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE)

OWNER = "trainer-region"  # the file that names it


def sha256_of(path: pathlib.Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_readable(file: IO[bytes] | pathlib.Path, name: str) -> None:
    """Files are read as weights only, so that none can run code. What that does not allow is told when it is written."""
    if unsafe := get_unsafe_globals_in_checkpoint(file):
        raise ValueError(f"{name} holds {', '.join(sorted(unsafe))}, which torch.load(weights_only=True) does not read: keep numbers, "
                         "texts and tensors there, or name the types to torch.serialization.add_safe_globals before Run(...)")


class Output:
    """What torch.save writes to. It ends with a RuntimeError of its own where the disk refused: `refusal` is what the disk said."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.refusal: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self.file.write(data)
        except OSError as error:
            self.refusal = self.refusal or error
            raise

    def flush(self) -> None:
        self.file.flush()


def write_synced(state: dict[str, Any], path: pathlib.Path) -> None:
    with open(path, "wb") as file:
        output = Output(file)
        try:
            torch.save(state, output)  # type: ignore[arg-type]
        except RuntimeError:
            if output.refusal is not None:
                raise output.refusal from None
            raise
        file.flush()
        os.fsync(file.fileno())


class TrainerFiles:
    """Those of one rank. `region`: whose they are; empty: nobody asks."""

    def __init__(self, directory: pathlib.Path, rank: int, world: int, region: str = "") -> None:
        self.directory, self.rank, self.world, self.region = directory, rank, world, region

    def stranger(self) -> str | None:
        """The region that wrote them, if it is another one."""
        try:
            owner = (self.directory / OWNER).read_text().strip()
        except (OSError, ValueError):
            return None
        return owner if owner and self.region and owner != self.region and self.all() else None

    def sign(self) -> None:
        owner = self.directory / OWNER
        if self.region and (not owner.exists() or owner.read_text().strip() != self.region):
            unfinished = self.directory / f"{OWNER}-{self.rank}"
            unfinished.write_text(self.region + "\n")
            os.replace(unfinished, owner)

    def all(self) -> list[tuple[int, pathlib.Path]]:
        """Position and file, in order; also refuses files of another number of ranks."""
        found = []
        for path in self.directory.glob("trainer-*-rank-*-of-*.pt"):
            match = re.fullmatch(r"trainer-(\d+)-rank-(\d+)-of-(\d+)(-[0-9a-f]{64})?\.pt", path.name)
            if match and int(match[3]) != self.world:
                raise ValueError(f"{path} was written by {match[3]} ranks, and this region has {self.world} now: "
                                 "start as many as before, or delete the trainer-*.pt there to begin the optimizer anew")
            if match and int(match[2]) == self.rank:
                found.append((int(match[1]), path))
        return sorted(found)

    def up_to(self, sample: int) -> list[int]:
        """Positions that are not after `sample`. Those after it are of work that was lost: removed."""
        for position, path in self.all():
            if position > sample:
                path.unlink(missing_ok=True)
        return [position for position, _ in self.all()]

    def at(self, position: int) -> pathlib.Path:
        return dict(self.all())[position]

    def write(self, position: int, state: dict[str, Any]) -> None:
        """Whole, or not at all."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"trainer-{position}-rank-{self.rank}-of-{self.world}"
        unfinished = self.directory / f"{name}.unfinished"
        try:
            write_synced(state, unfinished)
            check_readable(unfinished, "the trainer's state")
            finished = self.directory / f"{name}-{sha256_of(unfinished)}.pt"
            self.sign()
            os.replace(unfinished, finished)
        except BaseException as error:
            self.remove(unfinished)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(unfinished)
            raise
        self.remove_at(position, but=finished)

    def remove_at(self, position: int, but: pathlib.Path | None = None) -> None:
        for one, path in self.all():
            if one == position and path != but:
                self.remove(path)

    def keep(self, positions: Container[int]) -> None:
        """Removes all others."""
        for position, path in self.all():
            if position not in positions:
                self.remove(path)

    def remove_unfinished(self) -> None:
        """What killed processes left, of any rank: no rank writes yet."""
        for path in self.directory.glob("trainer-*.unfinished"):
            self.remove(path)

    def remove(self, path: pathlib.Path) -> None:
        """If the disk lets it be done. What stays takes room, and is removed later."""
        with contextlib.suppress(OSError):
            path.unlink()

    def damage(self, position: int) -> str | None:
        """Why the file cannot be used. None: it is as it was written."""
        path = self.at(position)
        try:
            if path.stem.endswith(f"-{sha256_of(path)}"):
                return None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return f"{path} is damaged: {error.strerror}"
        return (f"{path} is damaged, or was written by an earlier version of Causeway: its content is not what its name, which ends "
                "with its SHA-256, says")

    def read(self, position: int) -> dict[str, Any]:
        path = self.at(position)
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            return state
        except pickle.UnpicklingError as refused:
            raise ValueError(f"{path} holds more than numbers, texts and tensors, and nothing else is read. If you trust the file, name "
                             f"the types to torch.serialization.add_safe_globals before Run(...): {refused}") from refused
