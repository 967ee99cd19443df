"""Running statistics and counters go along with the parameters: the same weights evaluate alike in every region."""
import sys
import unittest

import torch
from region_run import TRAINERS, RegionRun

sys.path.insert(0, str(TRAINERS))
import batch_norm  # noqa: E402

from causeway.torch.buffers import Buffer, Buffers  # noqa: E402
from causeway.torch.parameters import Parameters  # noqa: E402
from causeway.torch.ranks import Solo  # noqa: E402

K, ROUNDS = 4, 3


def plain(regions, counts=None):
    """The state that DiLoCo gives with SGD of learning rate 1 outside, which is plain averaging, of buffers too; or, of buffers, what
    the region `counts` has."""
    models = [batch_norm.make_model() for _ in range(regions)]
    for round_number in range(ROUNDS):
        for number, model in enumerate(models):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(round_number * K, (round_number + 1) * K):
                batch_norm.step_once(model, optimizer, number, step)
        states = [model.state_dict() for model in models]
        mean = {name: torch.stack([state[name].double() for state in states]).mean(0).to(value.dtype)
                for name, value in states[0].items()}
        if counts is not None:
            mean.update({name: states[counts][name].clone() for name, _ in models[0].named_buffers()})
        for model in models:
            model.load_state_dict(mean)
    return mean


class Statistics(RegionRun):
    regions = 2
    settings = dict(steps=K * ROUNDS, k=K, codec="dense:fp32", optimizer="sgd", outer_lr=1.0)

    def train(self, buffers):
        results = [self.directory / f"{name}.pt" for name in self.names]
        regions = [self.trainer("batch_norm.py", number, self.region(name), result, buffers)
                   for number, (name, result) in enumerate(zip(self.names, results))]
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        return [torch.load(result) for result in results]

    def evaluate(self, state):
        model = batch_norm.make_model()
        model.load_state_dict(state)
        with torch.no_grad():
            return float(model.eval()(batch_norm.inputs_of(0, 999)).square().mean())

    def test_averaged_they_are_the_same_bits_and_those_of_plain_averaging(self):
        ends = self.train("average")
        for name, value in ends[0].items():
            self.assertTrue(torch.equal(value, ends[1][name]), name)
        for name, expected in plain(2).items():
            self.assertTrue(torch.allclose(ends[0][name].double(), expected.double(), rtol=1e-5, atol=1e-6), name)
        self.assertEqual(int(ends[0]["1.num_batches_tracked"]), K * ROUNDS)
        self.assertEqual(self.evaluate(ends[0]), self.evaluate(ends[1]))
        self.assertIn("verified: one history", self.run_causeway("verify", *map(self.region, self.names),
                                                                 "--certificates", "certificates"))

    def test_of_the_lowest_region_they_are_its_own(self):
        ends = self.train("lowest")
        for name, value in ends[0].items():
            self.assertTrue(torch.equal(value, ends[1][name]), name)
        expected = plain(2, counts=self.names.index(min(self.names)))
        for name, value in expected.items():
            self.assertTrue(torch.allclose(ends[0][name].double(), value.double(), rtol=1e-5, atol=1e-6), name)

    def test_local_ones_stay_apart(self):
        ends = self.train("local")
        self.assertTrue(torch.equal(ends[0]["0.weight"], ends[1]["0.weight"]))
        self.assertFalse(torch.allclose(ends[0]["1.running_mean"], ends[1]["1.running_mean"], rtol=1e-2))


class Crossing(unittest.TestCase):
    """What becomes of numbers on their way through fp32."""

    def module(self, **buffers):
        module = torch.nn.Linear(2, 2)
        for name, value in buffers.items():
            module.register_buffer(name, value)
        return module

    def test_whole_numbers_come_back_exactly(self):
        numbers = torch.tensor([0, 1, -1, 2**22, 2**53 + 1, -2**60 - 7, 2**62], dtype=torch.int64)
        module = self.module(count=numbers.clone(), flag=torch.tensor([True, False]))
        for attribute in ("count", "flag"):
            buffer = Buffer(module, attribute, attribute, "average", True)
            before = getattr(module, attribute).clone()
            buffer.take()
            getattr(module, attribute).zero_()
            buffer.give(Solo())
            self.assertTrue(torch.equal(getattr(module, attribute), before), attribute)

    def test_what_is_not_saved_does_not_cross(self):
        module = self.module(mean=torch.zeros(3), empty=torch.zeros(0))
        module.register_buffer("mask", torch.ones(4), persistent=False)
        self.assertEqual(list(Buffers(module, Solo(), "average", str).hosts()), ["average:mean"])
        self.assertEqual(Buffers(module, Solo(), "local", str).hosts(), {})

    def test_complex_ones_are_refused_by_name(self):
        with self.assertRaisesRegex(ValueError, "the buffer phase is torch.complex64"):
            Buffers(self.module(phase=torch.zeros(2, dtype=torch.complex64)), Solo(), "average", str)

    def test_ones_without_values_and_sparse_ones_are_refused_with_what_to_do(self):
        for value, sentence in ((torch.zeros(2, device="meta"), "the buffer graph is on the meta device .* call model.to_empty"),
                                (torch.eye(2).to_sparse(), "the buffer graph is torch.sparse_coo: .* Register it with persistent=False"),
                                (torch.eye(2).to_sparse_csr(), "the buffer graph is torch.sparse_csr")):
            with self.assertRaisesRegex(ValueError, sentence):
                Buffers(self.module(graph=value), Solo(), "average", str)
            self.assertEqual(Buffers(self.module(graph=value), Solo(), "local", str).hosts(), {})


class Changed(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)
        self.model.register_buffer("history", torch.zeros(1))

    def take_after(self, change, kind="average"):
        buffers = Buffers(self.model, Solo(), kind, str)
        change()
        buffers.take()
        buffers.take()

    def test_another_shape_is_refused_by_name(self):
        for value in (torch.zeros(2), torch.zeros(()), torch.zeros(1, 1)):
            with self.assertRaisesRegex(ValueError, r"the buffer history had the shape \(1,\) when the run was entered, and has the shape "
                                                    ".*persistent=False, or give buffers=.local."):
                self.take_after(lambda: setattr(self.model, "history", value))
            self.model.history = torch.zeros(1)
        with self.assertRaisesRegex(ValueError, "and is gone now"):
            self.take_after(lambda: delattr(self.model, "history"))

    def test_one_that_is_registered_later_is_told_of_once(self):
        with self.assertLogs("causeway", "WARNING") as said:
            self.take_after(lambda: self.model.register_buffer("late", torch.ones(2)))
        self.assertEqual(len(said.output), 1)
        self.assertIn("the buffer late was registered, or got its first values, after the run was entered", said.output[0])
        with self.assertNoLogs("causeway"):
            self.take_after(lambda: self.model.register_buffer("unsaved", torch.ones(2), persistent=False))
            self.take_after(lambda: self.model.register_buffer("own", torch.ones(2)), "local")


class Infinite(unittest.TestCase):
    """A mask of -inf that is saved with the model, as many programs have it, has no mean."""

    def setUp(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
        self.mask = torch.full((3, 3), float("-inf")).triu(1)
        self.model[0].register_buffer("mask", self.mask.clone())

    def parameters(self, kind="average"):
        return Parameters(self.model, [], Solo(), 1, kind)

    def test_it_is_left_out_and_the_others_are_averaged(self):
        for kind, names in (("average", {"average:1.running_mean", "average:1.running_var", "lowest:1.num_batches_tracked"}),
                            ("lowest", {"lowest:1.running_mean", "lowest:1.running_var", "lowest:1.num_batches_tracked"})):
            parameters = self.parameters(kind)
            self.assertEqual(set(parameters.buffers.hosts()), names)
            self.assertIn("because they hold infinities, and left as the program makes them: 0.mask", str(parameters.buffers))
            self.model[1].running_mean.fill_(1.0)
            with self.assertNoLogs("causeway"):
                parameters.take()
                parameters.give(0)
            self.assertTrue(torch.equal(self.model[0].mask, self.mask))

    def test_one_that_changes_later_is_told_once_and_one_that_is_set_to_the_same_is_not(self):
        parameters = self.parameters()
        self.model[0].mask.copy_(self.mask)
        with self.assertNoLogs("causeway"):
            parameters.take()
        self.model[0].mask.data.fill_(0.0)
        with self.assertLogs("causeway", "WARNING") as said:
            parameters.take()
            self.model[0].mask = torch.zeros(4, 4)  # for longer texts
            parameters.take()
        self.assertEqual(len(said.output), 1)
        self.assertIn("the buffer 0.mask held infinities when the run was entered", said.output[0])

    def test_nan_is_refused_as_what_it_is_in(self):
        self.model[1].running_mean[0] = float("nan")
        with self.assertRaisesRegex(ValueError, "^the buffer 1.running_mean holds NaN before the first step.*persistent=False"):
            self.parameters()
        self.model[0].mask.fill_(float("nan"))
        self.parameters("local")
        self.model[0].weight.data[0] = float("inf")
        with self.assertRaisesRegex(ValueError, "^the parameter 0.weight is NaN or infinite before the first step"):
            self.parameters("local")


if __name__ == "__main__":
    unittest.main()
