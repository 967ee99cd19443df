"""The processes of one region, which train together: rank 0 speaks for all, and the others hear what it was told."""
from __future__ import annotations

import enum
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

import causeway

log = logging.getLogger("causeway")
Value = TypeVar("Value")


class Kind(enum.IntEnum):
    """What a message of rank 0 to the others is."""
    WAITING = 0  # it still waits; nobody's patience with a collective runs out
    STEPS = 1
    OVER = 2
    ERROR = 3
    GO_ON = 4
    YES = 5
    NO = 6
    STOPPED = 7  # an error, by which the run was told to stop


class LeaderStopped(causeway.WorkerError):
    """Rank 0 was told to stop, and its state is saved."""


class Solo:
    """A region of one process."""
    rank, world = 0, 1
    leads = True

    def tell(self, kind: Kind, numbers: Iterable[int] = ()) -> None:
        pass

    def tell_error(self, error: BaseException) -> None:
        pass

    def share(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def within(self, members: list[int]) -> Solo | Group:
        return self

    def bring(self, tensor: torch.Tensor, sender: int, receiver: int) -> None:
        raise AssertionError("a region's only process holds all of the model")

    def hear(self) -> tuple[Kind, list[int]]:
        raise AssertionError("nobody tells a region's only process anything")


class Group:
    """A region whose processes are a group of torch.distributed."""
    NUMBERS = 10  # of a message, at most

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self.group = group
        self.rank, self.world = dist.get_rank(group), dist.get_world_size(group)
        self.source = self.of_all(0)
        nccl = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def tell(self, kind: Kind, numbers: Iterable[int] = ()) -> None:
        """Rank 0's side of hear()."""
        message = [int(kind), *map(int, numbers)]
        message += [0] * (1 + self.NUMBERS - len(message))
        dist.broadcast(torch.tensor(message, dtype=torch.int64, device=self.device), self.source, self.group)

    def tell_error(self, error: BaseException) -> None:
        try:
            self.tell(Kind.STOPPED if isinstance(error, causeway.Stopped) else Kind.ERROR)
            dist.broadcast_object_list([str(error) or type(error).__name__], self.source, self.group, self.device)
        except RuntimeError as problem:  # ranks that are gone, as Ctrl-C ends all of them: the error of this one is to be seen
            error.add_note(f"The other ranks of this region were not told of it: {problem}")

    def hear(self) -> tuple[Kind, list[int]]:
        """What rank 0 told, once it is more than that it waits: (kind, numbers). Raises what it could not do."""
        while True:
            message = torch.zeros(1 + self.NUMBERS, dtype=torch.int64, device=self.device)
            dist.broadcast(message, self.source, self.group)
            kind, *numbers = message.tolist()
            if kind in (Kind.ERROR, Kind.STOPPED):
                told: list[Any] = [None]
                dist.broadcast_object_list(told, self.source, self.group, self.device)
                raise (LeaderStopped if kind == Kind.STOPPED else causeway.WorkerError)(f"rank 0 of this region stopped: {told[0]}")
            if kind != Kind.WAITING:
                return Kind(kind), numbers

    def share(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rank 0's `tensor` to all, on any device that the group can reach; in place."""
        if tensor.device.type == self.device.type:
            dist.broadcast(tensor, self.source, self.group)
            return tensor
        passed = tensor.to(self.device)
        dist.broadcast(passed, self.source, self.group)
        return tensor.copy_(passed)

    def gather(self, value: Any) -> list[Any]:
        """Everybody's value, in the order of the ranks."""
        values: list[Any] = [None] * self.world
        dist.all_gather_object(values, value, group=self.group)
        return values

    def of_all(self, rank: int) -> int:
        """A rank of this group, as torch.distributed counts all processes."""
        return dist.get_global_rank(self.group, rank) if self.group is not None else rank

    def within(self, members: list[int]) -> Solo | Group:
        """Some of the ranks, this one among them. Only they call this."""
        if len(members) == 1:
            return Solo()
        group = dist.new_group([self.of_all(rank) for rank in members], backend=dist.get_backend(self.group),
                               use_local_synchronization=True)
        assert isinstance(group, dist.ProcessGroup)  # not of another's ranks
        return Group(group)

    def bring(self, tensor: torch.Tensor, sender: int, receiver: int) -> None:
        """The sender's `tensor` in host memory into the receiver's. Only these two call this."""
        if self.rank == sender:
            dist.send(tensor.contiguous().to(self.device), self.of_all(receiver), self.group)
            return
        passed = torch.empty(tensor.shape, dtype=tensor.dtype, device=self.device)
        dist.recv(passed, self.of_all(sender), self.group)
        tensor.copy_(passed)


def ranks(group: dist.ProcessGroup | None = None) -> Solo | Group:
    """Of `group`; None: of all processes that torch.distributed knows of, or of this one alone."""
    if not (dist.is_available() and dist.is_initialized()):
        return Solo()
    joined = Group(group)
    return joined if joined.world > 1 else Solo()


def ranks_told(group: dist.ProcessGroup | None = None) -> Solo | Group:
    """As ranks(). The processes that torchrun starts know nothing of each other before the program says so."""
    found = ranks(group)
    started = os.environ.get("WORLD_SIZE", "")
    told_of = dist.is_available() and dist.is_initialized()
    if not told_of and "RANK" in os.environ and started.isdigit() and int(started) > 1:
        log.warning("WORLD_SIZE is %s, and torch.distributed is not initialised, so this process enters the run by itself. If the processes "
                    "are the ranks of one region, call torch.distributed.init_process_group() before Run is entered", started)
    return found


def agree(ranks: Solo | Group, problem: str | None) -> None:
    """Raises on all ranks the problem of the first that has one."""
    problem = next((told for told in ranks.gather(problem) if told), None)
    if problem:
        raise ValueError(problem)


def everybody(ranks: Solo | Group, work: Callable[[], Value]) -> list[Value]:
    """What `work` gives on each rank, once all are done with it. What it raises on one ends all: nobody waits for who is gone."""
    try:
        own: tuple[Any, Exception | None] = work(), None
    except Exception as error:
        own = None, error
    value, failure = own
    told = ranks.gather((value, None if failure is None else str(failure) or type(failure).__name__))
    if failure is not None:
        raise failure
    for rank, (_, problem) in enumerate(told):
        if problem:
            raise causeway.WorkerError(f"rank {rank} of this region stopped: {problem}")
    return [value for value, _ in told]


def led(ranks: Solo | Group, work: Callable[[], tuple[Kind, Sequence[int]]]) -> tuple[Kind, Sequence[int]]:
    """What rank 0's `work` gives, a kind and numbers, on every rank. What it raises is raised by all."""
    if not ranks.leads:
        return ranks.hear()
    try:
        kind, numbers = work()
    except BaseException as error:
        ranks.tell_error(error)
        raise
    ranks.tell(kind, numbers)
    return kind, numbers


def done_by_leader(ranks: Solo | Group, work: Callable[[], None]) -> None:
    """Rank 0 does `work`, and the others wait for it."""
    def done() -> tuple[Kind, Sequence[int]]:
        work()
        return Kind.GO_ON, ()

    led(ranks, done)


def decided_by_leader(ranks: Solo | Group, question: Callable[[], bool]) -> bool:
    """Rank 0's answer, yes or no, on every rank."""
    return led(ranks, lambda: (Kind.YES if question() else Kind.NO, ()))[0] == Kind.YES
