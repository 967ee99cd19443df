"""What of a model crosses between regions: its parameters with requires_grad, as fp32 tensors of the whole model in the
memory of rank 0's host, whatever their type, their device and their division over ranks. Its buffers are in buffers.py."""
from __future__ import annotations

import hashlib
import logging
import pathlib
from collections.abc import Callable

import torch
from torch.nn.parameter import is_lazy

from ..follow import plain_name
from .buffers import Buffers, saved_buffers
from .divided import reshard
from .exchanged import Exchanged, Staging
from .frozen import Frozen
from .marks import HandedOut, Marks
from .memory import problem_of_ranks, problem_of_read_only, problem_of_shared, shared_places
from .optimizers import held
from .ranks import Group, Solo, agree
from .rounding import DROPPED_BITS
from .shards import beginnings, problem_of as problem_of_shards, told_apart
from .stages import Stages, first_difference, problem_of as problem_of_stages
from .wrapped import problem_of as problem_of_wrapped

log = logging.getLogger("causeway")


def trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Name and parameter of all that is trained, as plain_name() has the names. Those without elements have nothing to train."""
    reshard(model)
    return [(plain_name(name), p) for name, p in model.named_parameters() if p.requires_grad and (is_lazy(p) or p.numel() > 0)]


class Parameters:
    """All that a model exchanges. Every method is called by all ranks of the region."""

    def __init__(self, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], ranks: Solo | Group, seed: int,
                 buffers: str, whole_model: torch.nn.Module | None = None, frozen: str = "same",
                 directory: pathlib.Path | None = None) -> None:
        self.model, self.ranks, self.seed = model, ranks, seed
        self.agree(problem_of_shards(model) or self.problem_of(trained(model)))
        named = dict(trained(model))
        self.agree(problem_of_ranks(ranks.gather(shared_places(named.items()) if ranks.world > 1 else {})))
        self.stages = self.agreed_stages(named, whole_model)
        self.compare_copies(named)
        if buffers != "local":
            self.check_buffers()
        staging: dict[torch.device, Staging] = {}
        for p in named.values():
            staging.setdefault(p.device, Staging(p.device))
        stepping = [*optimizers, *(below for one in optimizers for below in held(one).values())]
        # Those that this rank holds, in an order that is the same on all.
        self.exchanged = [Exchanged(name, named[name], stepping, self.stages.group(name), staging[named[name].device])
                          for name in self.stages.holders if name in named]
        self.stagings = list(staging.values())
        self.finish()
        self.stages.to_rank_0(self.own_hosts())
        self.buffers = Buffers(model, ranks, buffers, plain_name)
        self.frozen = Frozen(model, ranks, frozen, plain_name, directory)
        self.agree(self.frozen.problem)
        self.agree(told_not_finite(self.not_finite()))
        self.entered = self.marks()

    def marks(self) -> Marks:
        return [one.mark() for one in self.exchanged]

    def check_as_entered(self) -> None:
        """The first instruction brings back what entered, whatever the program has done to the model since."""
        self.agree(self.moved())
        changed = next((one.name for one, mark in zip(self.exchanged, self.entered) if one.mark() != mark), None)
        for one in self.exchanged:
            one.come_back()  # its values are those that entered
        self.agree(changed and f"the model changed between entering the run and its first step (its parameter {changed}), and the run would "
                               "take back the change: load weights before `Run`")
        self.buffers.tell_changed()

    def handed_out(self) -> HandedOut | None:
        """A rank may hold a stage with nothing to train."""
        return HandedOut([one.parameter for one in self.exchanged]) if self.exchanged else None

    def agree(self, problem: str | None) -> None:
        agree(self.ranks, problem)

    def agreed_stages(self, named: dict[str, torch.nn.Parameter], whole_model: torch.nn.Module | None) -> Stages:
        """All ranks hold the same, unless each holds a stage of a whole model."""
        wanted = None if whole_model is None else [(name, tuple(p.shape)) for name, p in trained(whole_model)]
        all_told = self.ranks.gather((wanted, [(name, tuple(p.shape), str(p.dtype)) for name, p in named.items()]))
        if any(told != wanted for told, _ in all_told):
            raise ValueError("the ranks of this region were given different models stage_of: give the same to all, or to none")
        all_shapes = [shapes for _, shapes in all_told]
        if wanted is not None:
            self.agree(problem_of_stages(all_shapes, dict(wanted)))
            return Stages(self.ranks, all_shapes, dict(wanted))
        if difference := first_difference(all_shapes):
            rank, own, other = difference
            raise ValueError(f"the ranks of this region have different models: rank 0 has {own}, rank {rank} has {other}. If each "
                             "holds a stage of a pipeline, give Run the whole model too, which may be on the meta device: "
                             "stage_of=whole_model")
        return Stages(self.ranks, all_shapes, named)

    def compare_copies(self, named: dict[str, torch.nn.Parameter]) -> None:
        """A seed may be forgotten, as rank 0's values are given to all. But it is said, because ranks that hold parts look the same."""
        difference = told_apart(self.ranks.gather(beginnings(named))) if self.ranks.world > 1 else None
        if difference and self.ranks.leads:
            log.warning("%s", difference)

    def check_buffers(self) -> None:
        told = [(plain_name(name), tuple(buffer.shape), str(buffer.dtype)) for name, buffer in saved_buffers(self.model)]
        if difference := first_difference(self.ranks.gather(told)):
            rank, own, other = difference
            raise ValueError(f"the ranks of this region have different buffers: rank 0 has {own}, rank {rank} has {other}. Those of a "
                             "stage do not cross: give buffers=\"local\" in all regions, which leaves each region its own")

    @staticmethod
    def problem_of(named: list[tuple[str, torch.nn.Parameter]]) -> str | None:
        if not named:
            return "the model has no parameter with requires_grad: there is nothing to train in a run"
        if len({name for name, _ in named}) < len(named):
            return "two parameters of the model have the same name once wrappers are taken off their names"
        for name, p in named:
            if is_lazy(p):
                return f"the parameter {name} has no shape yet: pass a batch through the model before Run(...), then make the optimizer"
            if p.is_meta:
                return (f"the parameter {name} is on the meta device and has no values: call model.to_empty(device=...) "
                        "and initialise it first")
            if p.layout != torch.strided:
                return f"the parameter {name} is {p.layout}: a run takes dense ones, as torch.nn.Parameter(p.detach().to_dense()) makes it"
            if any(size > 1 and step == 0 for size, step in zip(p.shape, p.stride())):
                return (f"the parameter {name} shows one element in several places, as expand() makes it, and cannot be set: give the model a "
                        "parameter of its own values, such as torch.nn.Parameter(p.detach().clone(memory_format=torch.contiguous_format))")
            if p.dtype != torch.float32 and p.dtype not in DROPPED_BITS:
                remedy = "keep its torch.view_as_real(), and use torch.view_as_complex() in forward" if p.is_complex() else "call model.float()"
                return f"the parameter {name} is {p.dtype}, and a run takes float32, bfloat16 and float16: {remedy}"
            if problem := problem_of_wrapped(name, p):
                return problem
        return problem_of_shared(named) or problem_of_read_only(named, "parameter")

    def hosts(self) -> dict[str, torch.Tensor]:
        """Names to fp32 tensors; rank 0 only."""
        known = {**self.own_hosts(), **self.stages.received}
        return {**{name: known[name] for name in self.stages.holders}, **self.buffers.hosts(), **self.frozen.hosts()}

    def own_hosts(self) -> dict[str, torch.Tensor]:
        """Of what this rank is the first to hold."""
        return {one.name: one.host for one in self.exchanged if one.ranks.leads}

    def kept_through(self, work: Callable[[], object]) -> None:
        """`work` takes up what the program keeps. That may hold the parameters too, as they were before the round's outer step: those of
        the run count. Where the worker writes to the parameters themselves, it has done so already."""
        before = [(one, one.mark(), one.parameter.detach().clone()) for one in self.exchanged if one.direct]
        work()
        written = [(one, values) for one, mark, values in before if one.mark() != mark]
        for one, values in written:
            one.come_back()
            one.parameter.detach().copy_(values)
        if written and self.ranks.leads:
            log.warning("what Run was given in `also` holds the parameter %s, which the run keeps itself: the run's value counts. Leave the "
                        "parameters out of `also`", written[0][0].name)

    def take(self) -> None:
        self.check_unchanged()
        for one in self.exchanged:
            one.take()
        self.finish()
        self.stages.to_rank_0(self.own_hosts())
        self.buffers.take()
        self.frozen.look()

    def give(self, round_number: int) -> None:
        self.stages.from_rank_0(self.own_hosts())
        index = {name: number for number, name in enumerate(self.stages.holders)}
        for one in self.exchanged:
            one.give(seed_of(self.seed, round_number, index[one.name]))
        self.finish()  # the worker writes the next values into the memory that is copied from
        self.buffers.give()

    def finish(self) -> None:
        for staging in self.stagings:
            staging.finish()

    def not_finite(self) -> str | None:
        """The first name whose values are not all finite; rank 0 only knows."""
        if not self.ranks.leads:
            return None
        return next((name for name, host in self.hosts().items() if not torch.isfinite(host).all()), None)

    def moved(self) -> str | None:
        return next((told for told in (one.moved() for one in self.exchanged) if told), None)

    def check_unchanged(self) -> None:
        """The worker's buffers are for the parameters that entered. One that is frozen since still crosses: it may train again."""
        entered = {one.name for one in self.exchanged}
        new = {name for name, _ in trained(self.model)} - entered
        now = {(plain_name(name), id(p)) for name, p in self.model.named_parameters()}  # a frozen one may have the name of one that trains
        if gone := entered - {name for name, _ in now}:
            raise ValueError(f"the model changed after it entered the run: the parameter {min(gone)} is gone. Prune, merge adapters and take "
                             "modules away before Run(...), or once the run is over")
        if new:
            raise ValueError(f"the model changed after it entered the run: {told_new(min(new))}")
        if moved := self.moved():
            raise ValueError(moved)
        for one in self.exchanged:
            if (one.name, id(one.parameter)) not in now or not one.come_back():
                raise ValueError(f"the model changed after it entered the run: the parameter {one.name} was replaced. Move, "
                                 "wrap and convert the model before Run(...), and load into it without assign=True afterwards")


def told_new(name: str) -> str:
    return (f"the parameter {name} has requires_grad now, and did not cross so far. If it is to train only for a time, or later, let it have "
            "requires_grad when Run is entered, put it into a group of the optimizer, and freeze it (requires_grad_(False)) from the first step "
            "on while it is not to train. This takes a new run. Otherwise set requires_grad back before the step ends")


def told_spoiled(name: str | None) -> str:
    """What is not finite any more, of which rank 0 knows the name. A buffer may be meant so; then the region would sit out every round."""
    if name is None:
        return "parameters or buffers (rank 0 names one) are"
    kind, _, buffer = name.partition(":")
    if kind not in ("average", "lowest"):
        return f"the parameters, such as {name}, are"
    return (f"the buffer {buffer} (if it is meant, register it with persistent=False, or give buffers=\"local\" in all regions, and begin "
            "another run) is")


def told_not_finite(name: str | None) -> str | None:
    if name is None:
        return None
    kind, _, buffer = name.partition(":")
    if kind in ("average", "lowest"):
        return (f"the buffer {buffer} holds NaN before the first step, and a run cannot average that: load or initialise the model again. "
                "If it is meant, register it with persistent=False, or give buffers=\"local\" in all regions")
    return f"the parameter {name} is NaN or infinite before the first step: load or initialise the model again"


def seed_of(seed: int, round_number: int, index: int) -> int:
    text = f"{seed} {round_number} {index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
