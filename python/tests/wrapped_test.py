"""Parameters of a library's own class, which keep their values in another tensor, as torchao's do: with a worker's double."""
import unittest
import unittest.mock

import torch
from worker_double import a_run, steps

from causeway.torch import Run, wrapped
from causeway.torch.pushed import some_values
from causeway.torch.shards import beginnings

aten = torch.ops.aten
PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Wrapped(torch.Tensor):
    """Has no memory: its values are in `inner`. It can do little, as such classes can."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["inner"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def kept(cls, values):
        return values

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments, settings=None):
        if function not in (aten.detach.default, aten.clone.default, aten.copy_.default):
            raise NotImplementedError(f"{cls.__name__} has no {function}")
        inner = function(*(one.inner if isinstance(one, cls) else one for one in arguments), **(settings or {}))
        if function is not aten.copy_.default:
            return cls(inner)
        if isinstance(arguments[0], cls):
            inner.copy_(cls.kept(inner))
        return arguments[0]


class Rounded(Wrapped):
    """To whole numbers, for short."""

    @classmethod
    def kept(cls, values):
        return values.round()


def make_model(kind, dtype):
    model = torch.nn.Linear(3, 2, dtype=dtype)
    model.weight = torch.nn.Parameter(kind(torch.zeros(2, 3, dtype=dtype)))
    return model


class OfALibrary(unittest.TestCase):
    def test_one_that_keeps_what_it_is_set_to_crosses_with_its_values(self):
        for dtype in (torch.float32, torch.bfloat16):
            model = make_model(Wrapped, dtype)
            begun, ended = [], []
            with a_run(*PLAN) as (worker, directory), Run(model, directory=directory) as run:
                give = worker.next
                worker.next = lambda: (worker.tensors["weight"].add_(1), give())[1]  # the outer step
                worker.done = lambda count, loss: ended.append(worker.tensors["weight"].unique().tolist())
                for step in run:
                    begun.append(model.weight.inner.unique().tolist())
                    model.weight.inner.add_(2)
            self.assertIs(type(worker.tensors["weight"]), torch.Tensor)
            self.assertEqual((begun, ended), ([[1.0], [4.0]], [[3.0], [6.0]]))
            self.assertEqual(model.weight.inner.unique().tolist(), [7.0])

    def test_ranks_compare_its_values_and_a_trainer_looks_at_them(self):
        for dtype in (torch.float32, torch.bfloat16):
            model = make_model(Wrapped, dtype)
            plain = {"weight": torch.zeros(2, 3, dtype=dtype), "bias": model.bias}
            self.assertEqual(beginnings(dict(model.named_parameters())), beginnings(plain))
            self.assertEqual(some_values(model)[0].tolist(), [0.0] * 6)

    def test_one_that_rounds_it_is_refused(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.assertRaisesRegex(ValueError, "the parameter weight, of the class Rounded, rounds what it is set to"):
                with a_run(*PLAN) as (_, directory), Run(make_model(Rounded, dtype), directory=directory):
                    pass

    def test_so_is_one_that_ranks_divide(self):
        class Divided:
            """In place of a DTensor."""

            def __init__(self, local):
                self.to_local = lambda: local

        with unittest.mock.patch.object(wrapped, "DTensor", Divided):
            for kind, found in ((Rounded, "of the class Rounded, rounds what it is set to"), (Wrapped, "None")):
                self.assertIn(found, str(wrapped.problem_of("weight", Divided(kind(torch.zeros(2, 3))))))

    def test_one_that_cannot_be_set_is_refused_with_what_its_class_says(self):
        class Fixed(Wrapped):
            @classmethod
            def kept(cls, values):
                raise AttributeError("Fixed has no copy_")

        with self.assertRaisesRegex(ValueError, r"of the class Fixed, cannot be read and set as a run does \(Fixed has no copy_\)"):
            with a_run(*PLAN) as (_, directory), Run(make_model(Fixed, torch.float32), directory=directory):
                pass

    def test_a_buffer_is_refused_by_name_unless_it_stays_at_home(self):
        model = torch.nn.Linear(2, 2)
        model.register_buffer("scale", Wrapped(torch.zeros(2, 2)))
        with self.assertRaisesRegex(ValueError, 'the buffer scale is of the class Wrapped: a run takes plain tensors.*buffers="local"'):
            with a_run(*PLAN) as (_, directory), Run(model, directory=directory):
                pass
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory, buffers="local") as run:
            self.assertEqual(len(list(run)), 2)

    def test_one_that_is_frozen_may_be_of_any_class(self):
        model = make_model(Rounded, torch.float32)
        model.weight.requires_grad_(False)
        with a_run(*PLAN) as (worker, directory), Run(model, directory=directory):
            self.assertNotIn("weight", worker.tensors)


if __name__ == "__main__":
    unittest.main()
