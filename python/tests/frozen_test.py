"""Parameters without requires_grad: regions that hold others are told apart by a tensor's name, and one that moves is told of."""
import copy
import pathlib
import shutil
import tempfile
import unittest

import torch
from worker_double import a_run, steps

from causeway.follow import FROZEN
from causeway.torch import Run
from causeway.torch.parameters import Parameters
from causeway.torch.ranks import Solo

PLAN = [steps(number, 1, number, number) for number in range(3)]


def make_model(seed=1, frozen=True):
    torch.manual_seed(seed)
    backbone = torch.nn.Linear(300, 100)
    torch.manual_seed(1)
    return torch.nn.Sequential(backbone.requires_grad_(not frozen), torch.nn.Linear(100, 2))


class TwoRanks(Solo):
    """This one, and another that holds what `others` has."""
    world = 2

    def __init__(self, others):
        self.others = others

    def gather(self, value):
        return [value, self.others(value)]


class Names(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)

    def parameters(self, model, kind="same"):
        return Parameters(model, [], Solo(), 1, "average", None, kind, self.directory)

    def last(self, model, kind="same"):
        return list(self.parameters(model, kind).hosts())[-1]

    def test_a_model_with_nothing_frozen_has_the_tensors_that_it_had(self):
        self.assertEqual(list(self.parameters(make_model(frozen=False)).hosts()), ["0.weight", "0.bias", "1.weight", "1.bias"])

    def test_the_same_frozen_part_has_the_same_name_and_another_has_another(self):
        name = self.last(make_model())
        self.assertRegex(name, f"^{FROZEN}[0-9a-f]{{12}}$")
        wrapped = torch.nn.Sequential()
        wrapped.module = make_model()
        self.assertEqual(self.last(wrapped), name)
        self.assertEqual(self.last(make_model().to(memory_format=torch.preserve_format)), name)
        others = make_model(seed=2), make_model().to(torch.bfloat16), make_model()
        others[2][0].weight.data[-1, -1] += 1  # the last element
        self.assertEqual(len({name, *map(self.last, others)}), 4)
        self.assertEqual(self.last(make_model(seed=2), "local"), "1.bias")

    def test_tensors_that_are_not_contiguous_or_empty_or_have_no_dimension_are_read(self):
        model = make_model()
        model.register_parameter("t", torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).t(), requires_grad=False))
        model.register_parameter("none", torch.nn.Parameter(torch.zeros(0), requires_grad=False))
        model.register_parameter("one", torch.nn.Parameter(torch.tensor(3), requires_grad=False))
        with self.assertNoLogs("causeway"):
            name = self.last(model)
        model.t.data[0, 0] = 1
        self.assertNotEqual(self.last(model), name)

    def test_a_stage_on_another_rank_counts(self):
        def ranks(digest):
            return TwoRanks(lambda told: ["x"] if isinstance(told, list) and told and told[0] == "0.weight"
                            else {"x": digest} if isinstance(told, dict) and "0.weight" in told else told)

        from causeway.torch.frozen import Frozen
        names = {Frozen(make_model(), one, "same", str).digest for one in (ranks("a"), ranks("b"), Solo())}
        self.assertEqual(len(names), 3)


class Restarts(unittest.TestCase):
    def life(self, directory, model, **settings):
        """The names of the tensors."""
        (pathlib.Path(directory) / "checkpoints").mkdir(exist_ok=True)
        with a_run(*PLAN) as (worker, _):
            with Run(model, directory=directory, **settings) as run:
                for step in run:
                    run.report(1.0)
        (pathlib.Path(directory) / "checkpoints" / "state.safetensors").touch()
        return list(worker.tensors)

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)

    def test_the_same_goes_on_and_another_is_refused(self):
        names = self.life(self.directory, make_model())
        self.assertTrue(names[-1].startswith(FROZEN))
        self.assertEqual(self.life(self.directory, make_model()), names)
        with self.assertRaisesRegex(ValueError, "the 2 parameters without requires_grad are not those that this region began the run with"):
            self.life(self.directory, make_model(seed=2))
        self.assertEqual(self.life(self.directory, make_model(seed=2), frozen="local"), names)  # the run's tensors do not change

    def test_a_run_of_an_earlier_version_keeps_its_tensors(self):
        checkpoints = pathlib.Path(self.directory) / "checkpoints"
        checkpoints.mkdir()
        (checkpoints / "state.1.safetensors").touch()
        self.assertEqual(self.life(self.directory, make_model()), ["1.weight", "1.bias"])
        self.assertEqual(self.life(self.directory, make_model(seed=2)), ["1.weight", "1.bias"])

    def test_so_does_one_that_began_with_local(self):
        names = self.life(self.directory, make_model(), frozen="local")
        self.assertEqual(names, ["1.weight", "1.bias"])
        self.assertEqual(self.life(self.directory, make_model()), names)

    def test_what_was_never_saved_is_forgotten(self):
        first = self.life(self.directory, make_model())
        (pathlib.Path(self.directory) / "checkpoints" / "state.safetensors").unlink()
        self.assertNotEqual(self.life(self.directory, make_model(seed=2)), first)


class Teacher(unittest.TestCase):
    def train(self, move):
        student = torch.nn.Linear(3, 2)
        model = torch.nn.ModuleDict({"student": student, "teacher": copy.deepcopy(student).requires_grad_(False)})
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            for step in run:
                with torch.no_grad():
                    move(model["teacher"], step)
                run.report(1.0)

    def test_one_that_moves_is_told_of_once(self):
        for write in (lambda p: p.add_(0.5), lambda p: p.data.mul_(0.9).add_(0.1)):
            with self.assertLogs("causeway", "WARNING") as said:
                self.train(lambda teacher, step: [write(p) for p in teacher.parameters()] and None)
            self.assertEqual(len(said.output), 1)
            self.assertRegex(said.output[0], "the parameter teacher.weight has no requires_grad, and has changed since the run was "
                                             "entered. It does not cross between regions.*it is not kept")

    def test_one_that_is_set_to_what_it_was_is_not(self):
        with self.assertNoLogs("causeway", "WARNING"):
            self.train(lambda teacher, step: teacher.weight.copy_(teacher.weight.clone()))


if __name__ == "__main__":
    unittest.main()
