"""One parameter that crosses between regions: on its device, on the host, and on the way between them."""
from __future__ import annotations

from collections.abc import Sequence

import torch

from .divided import divided_as, whole
from .marks import sample_of, writes_to
from .memory import is_direct
from .ranks import Group, Solo
from .rounding import DROPPED_BITS, stochastic
from .wrapped import values_of

# Where optimizers that keep fp32 weights of their own (Apex, Transformer Engine) have them.
MASTER_KEYS = ("master_param", "master_weight")


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
        self.direct = is_direct(plain)
        self.read = plain if self.direct else None  # the memory that the worker reads, on all ranks
        self.address = plain.data_ptr() if self.direct else 0
        self.start: torch.Tensor | None = None  # what a low-precision parameter was set to, if that is less exact than `host`
        self._host: torch.Tensor | None = None
        if ranks.leads:
            self._host = plain if self.direct else staging.buffer(parameter.shape)
        if not self.direct:
            full = values_of(whole(plain))
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

    def moved(self) -> str | None:
        """PyTorch can give a tensor's storage other memory. The worker knows the memory of before alone, which is no longer this process's."""
        if self.read is None or self.read.data_ptr() == self.address:
            return None
        return (f"the memory of the parameter {self.name} was moved after it entered the run, as share_memory() does, or sending it to another "
                "process. Call model.share_memory() before Run(...), or send copies")

    def come_back(self) -> bool:
        """`p.data = ...`, which vector_to_parameters does, puts a parameter elsewhere: its values go to where the worker reads them, and it
        with them. False: they do not fit."""
        plain = self.parameter.detach()
        if self.read is None:
            return plain.dtype == torch.float32 or plain.dtype in DROPPED_BITS
        if self.read.data_ptr() == plain.data_ptr():
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
        now = values_of(whole((master if master is not None else self.parameter).detach()))
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
