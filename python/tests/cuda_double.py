"""A device that is not there, for what Causeway does with one: tensors on the host that say they are on cuda:0, and streams that do their
copies as late as CUDA may. Whoever reads too early reads NaN. Kernels of the model itself run at once, so their order is not tested."""
import contextlib
import math
import unittest.mock

import torch
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)


class Stream:
    def __init__(self, device=CUDA):
        self.device = device
        self.waiting = []  # copies that the host has not waited for

    def add(self, work):
        self.waiting.append(work)

    def synchronize(self):
        work, self.waiting = self.waiting, []
        for one in work:
            one()

    def wait_stream(self, other):
        """This stream's later work reads what `other` copies. The host may still change what is copied from until it has waited itself."""
        for one in other.waiting:
            one()


class CudaDouble(TorchFunctionMode):
    """While it is entered, tensors given to place() and all views of them are on cuda:0."""

    def __init__(self):
        super().__init__()
        self.default, self.entered = Stream(), []
        self.there = {}  # storages by their address; kept, so that no address is used twice

    def place(self, tensor):
        storage = tensor.untyped_storage()
        self.there[storage.data_ptr()] = storage
        return tensor

    def is_there(self, tensor):
        return tensor.untyped_storage().data_ptr() in self.there

    @property
    def current(self):
        return self.entered[-1] if self.entered else self.default

    @contextlib.contextmanager
    def entering(self, stream):
        self.entered.append(stream)
        yield
        self.entered.pop()

    def __enter__(self):
        self.patches = contextlib.ExitStack()
        for name, double in (("Stream", Stream), ("current_stream", lambda device=None: self.current), ("stream", self.entering)):
            self.patches.enter_context(unittest.mock.patch.object(torch.cuda, name, double))
        self.patches.enter_context(unittest.mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: None))
        return super().__enter__()

    def __exit__(self, *error):
        self.patches.close()
        return super().__exit__(*error)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function == torch.Tensor.device.__get__ and self.is_there(args[0]):
            return CUDA
        if function is torch.empty and kwargs.pop("pin_memory", False):
            return function(*args, **kwargs).fill_(math.nan)
        if function is torch.Tensor.copy_ and kwargs.pop("non_blocking", False):
            target, source = args
            self.current.add(lambda: target.copy_(source))
            return target
        if function is torch.Tensor.to and CUDA in (*args[1:], kwargs.get("device")):
            dtypes = [one for one in (*args[1:], kwargs.get("dtype")) if isinstance(one, torch.dtype)]
            return self.sent(args[0], *dtypes, non_blocking=kwargs.get("non_blocking", False))
        return function(*args, **kwargs)

    def sent(self, source, dtype=None, *, non_blocking):
        copy = self.place(torch.empty_like(source, dtype=dtype))
        if not non_blocking:
            return copy.copy_(source)
        copy.fill_(math.nan)
        self.current.add(lambda: copy.copy_(source))
        return copy
