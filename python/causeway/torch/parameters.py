"""What of a model crosses between regions: its parameters with requires_grad, as fp32 tensors of the whole model in the
memory of rank 0's host, whatever their type, their device and their division over ranks. Its buffers are in buffers.py."""
from __future__ import annotations

import hashlib
import logging
import pathlib
from collections.abc import Sequence

import torch
from torch.nn.parameter import is_lazy

from ..follow import plain_name
from .buffers import Buffers, saved_buffers
from .divided import DTensor, divided_as, reshard, whole
from .frozen import Frozen
from .marks import HandedOut, sample_of, writes_to
from .ranks import Group, Solo
from .rounding import DROPPED_BITS, stochastic
from .shards import beginnings, problem_of as problem_of_shards, told_apart
from .stages import Stages, first_difference, problem_of as problem_of_stages

log = logging.getLogger("causeway")

# Where optimizers that keep fp32 weights of their own (Apex, Transformer Engine) have them.
MASTER_KEYS = ("master_param", "master_weight")


def trained(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    """Name and parameter of all that is trained, as plain_name() has the names. Those without elements have nothing to train."""
    reshard(model)
    return [(plain_name(name), p) for name, p in model.named_parameters() if p.requires_grad and (is_lazy(p) or p.numel() > 0)]


class Staging:
    """Copies between a device and the host, on a stream of their own, so that they wait for nothing but what they copy."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def buffer(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device="cpu", pin_memory=self.stream is not None)

    def to_host(self, tensor: torch.Tensor, host: torch.Tensor) -> None:
        """Done when finish() returns."""
        if self.stream is None:
            host.copy_(tensor)
            return
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            host.copy_(tensor, non_blocking=True)
        tensor.record_stream(self.stream)

    def to_device(self, host: torch.Tensor) -> torch.Tensor:
        if self.stream is None:
            return host.to(self.device)
        with torch.cuda.stream(self.stream):
            there = host.to(self.device, non_blocking=True)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        there.record_stream(torch.cuda.current_stream(self.device))
        return there

    def finish(self) -> None:
        if self.stream is not None:
            self.stream.synchronize()


class Exchanged:
    """One parameter. `host` is its fp32 value on rank 0 of those that hold it, of the whole tensor; None on other ranks."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, optimizers: list[torch.optim.Optimizer], ranks: Solo | Group,
                 staging: Staging) -> None:
        self.name, self.parameter, self.staging = name, parameter, staging
        self.optimizers, self.ranks = optimizers, ranks
        plain = parameter.detach()
        # Then the worker reads and writes the parameter itself.
        self.direct = (plain.device.type == "cpu" and plain.dtype == torch.float32 and plain.is_contiguous()
                       and not isinstance(plain, DTensor))
        self.read = plain if self.direct else None  # the memory that the worker reads, on all ranks
        self.start: torch.Tensor | None = None  # what a low-precision parameter was set to, if that is less exact than `host`
        self._host: torch.Tensor | None = None
        if ranks.leads:
            self._host = plain if self.direct else staging.buffer(parameter.shape)
        if not self.direct:
            full = whole(plain)
            if ranks.leads:
                staging.to_host(full.float(), self.host)

    @property
    def host(self) -> torch.Tensor:
        assert self._host is not None  # rank 0's alone
        return self._host

    def master(self) -> torch.Tensor | None:
        """The optimizer's own fp32 value of the parameter; None: it has none, or none yet."""
        if self.parameter.dtype == torch.float32:
            return None
        states = [one.state.get(self.parameter, {}) for one in self.optimizers]
        return next((state[key] for state in states for key in MASTER_KEYS if torch.is_tensor(state.get(key))), None)

    def come_back(self) -> bool:
        """`p.data = ...`, which vector_to_parameters does, puts a parameter elsewhere: its values go to where the worker reads them, and it
        with them. False: they do not fit."""
        plain = self.parameter.detach()
        if self.read is None or self.read.data_ptr() == plain.data_ptr():
            return True
        if (plain.shape, plain.dtype, plain.device) != (self.read.shape, self.read.dtype, self.read.device):
            return False
        self.read.copy_(plain)
        self.parameter.data = self.read
        return True

    def take(self) -> None:
        """The parameter, or the change to it, into `host`."""
        if self.direct:
            return
        master = self.master()
        now = whole((master if master is not None else self.parameter).detach())
        if not self.ranks.leads:
            return
        if self.start is None:
            self.staging.to_host(now.float(), self.host)
        else:  # adds what the steps did: rounding took nothing from `host`
            self.host.add_(now.to("cpu", torch.float32) - self.start.float())

    def give(self, seed: int) -> None:
        """`host` into the parameter, on every rank."""
        if self.direct:
            self.ranks.share(self.parameter.detach())
            return
        dtype = self.parameter.dtype
        master = self.master()
        if dtype == torch.float32 or master is not None:
            self.start = None
            value = self.passed_on(self._host, torch.float32)
            if master is not None:
                self.put(master, value)
            self.put(self.parameter, value)
            return
        if self.ranks.leads:
            self.start = stochastic(self.host, dtype, seed)
        self.put(self.parameter, self.passed_on(self.start, dtype))

    def passed_on(self, value: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor:
        """Rank 0's value on everybody's device."""
        if value is not None and self.ranks.leads:
            return self.ranks.share(self.staging.to_device(value))
        return self.ranks.share(torch.empty(self.parameter.shape, dtype=dtype, device=self.staging.device))

    @staticmethod
    def put(target: torch.Tensor, value: torch.Tensor) -> None:
        target.detach().copy_(divided_as(value, target))

    def mark(self) -> tuple[list[int], list[int]]:
        """Another one after a change. Moving it elsewhere is none, and no optimizer that begins."""
        return writes_to(self.parameter), sample_of(self.parameter)


class Parameters:
    """All that a model exchanges. Every method is called by all ranks of the region."""

    def __init__(self, model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], ranks: Solo | Group, seed: int,
                 buffers: str, whole_model: torch.nn.Module | None = None, frozen: str = "same",
                 directory: pathlib.Path | None = None) -> None:
        self.model, self.ranks, self.seed = model, ranks, seed
        self.agree(problem_of_shards(model) or self.problem_of(trained(model)))
        named = dict(trained(model))
        self.stages = self.agreed_stages(named, whole_model)
        self.compare_copies(named)
        if buffers != "local":
            self.check_buffers()
        staging: dict[torch.device, Staging] = {}
        for p in named.values():
            staging.setdefault(p.device, Staging(p.device))
        # Those that this rank holds, in an order that is the same on all.
        self.exchanged = [Exchanged(name, named[name], optimizers, self.stages.group(name), staging[named[name].device])
                          for name in self.stages.holders if name in named]
        self.stagings = list(staging.values())
        self.finish()
        self.stages.to_rank_0(self.own_hosts())
        self.buffers = Buffers(model, ranks, buffers, plain_name)
        self.frozen = Frozen(model, ranks, frozen, plain_name, directory)
        self.agree(self.frozen.problem)
        self.agree(told_not_finite(self.not_finite()))
        self.entered = [one.mark() for one in self.exchanged]

    def check_as_entered(self) -> None:
        """The first instruction brings back what entered, whatever the program has done to the model since."""
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
        """Raises on all ranks the problem of the first that has one."""
        problem = next((told for told in self.ranks.gather(problem) if told), None)
        if problem:
            raise ValueError(problem)

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
            if p.dtype != torch.float32 and p.dtype not in DROPPED_BITS:
                return f"the parameter {name} is {p.dtype}: a run takes float32, bfloat16 and float16"
        return None

    def hosts(self) -> dict[str, torch.Tensor]:
        """Names to fp32 tensors; rank 0 only."""
        known = {**self.own_hosts(), **self.stages.received}
        return {**{name: known[name] for name in self.stages.holders}, **self.buffers.hosts(), **self.frozen.hosts()}

    def own_hosts(self) -> dict[str, torch.Tensor]:
        """Of what this rank is the first to hold."""
        return {one.name: one.host for one in self.exchanged if one.ranks.leads}

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

    def check_unchanged(self) -> None:
        """The worker's buffers are for the parameters that entered."""
        now = dict(trained(self.model))
        if changed := set(now) ^ {one.name for one in self.exchanged}:
            name = min(changed)
            raise ValueError(f"the model changed after it entered the run: the parameter {name} has {'' if name in now else 'no '}"
                             "requires_grad now. Set it back before the step ends (loops of GANs do so), or begin another run with what "
                             "is trained from here on")
        for one in self.exchanged:
            if now[one.name] is not one.parameter or not one.come_back():
                raise ValueError(f"the model changed after it entered the run: the parameter {one.name} was replaced. Move, "
                                 "wrap and convert the model before Run(...)")


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
