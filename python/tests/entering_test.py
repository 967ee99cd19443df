"""How a program enters a run, and what is said of what it brings: with a worker's double."""
import collections
import os
import unittest
import unittest.mock
import warnings

import numpy
import torch
from worker_double import a_run, steps

from causeway.torch import Run, arguments
from causeway.torch.ranks import Group, Kind, Solo
from causeway.torch.steps import Told

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class BeforeTheFirstStep(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, dtype=torch.bfloat16))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)

    def train(self, change):
        """The steps that were taken."""
        taken = 0
        with a_run(*PLAN) as (_, directory), Run(self.model, self.optimizer, directory=directory) as run:
            change()
            for step in run:
                self.model[1](self.model[0](torch.randn(3, 4))).sum().backward()
                self.optimizer.step()
                run.report(1.0)
                taken += 1
        return taken

    def test_weights_that_are_loaded_then_are_refused(self):
        others = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).state_dict()
        changes = (lambda: self.model.load_state_dict(others), lambda: torch.nn.init.zeros_(self.model[2].weight),
                   lambda: self.model[0].weight.data.mul_(0.5), lambda: self.model[2].bias.data.zero_())
        for change in changes:
            with self.assertRaisesRegex(ValueError, "changed between entering the run and its first step .*load weights before `Run`"):
                self.train(change)

    def test_what_changes_no_value_is_not(self):
        def change():
            self.model.eval()
            self.model[0](torch.randn(3, 4)).sum().backward()
            self.model.train()
            self.model.to("cpu")
            self.optimizer.zero_grad()
            self.model.state_dict()
            torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

        with self.assertNoLogs("causeway", "WARNING"):
            self.assertEqual(self.train(change), 2)

    def test_one_that_was_put_elsewhere_with_the_same_values_is_given_the_runs(self):
        weight = self.model[0].weight
        with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(self.model, directory=directory) as run:
            weight.data = weight.data.clone()
            give = worker.next
            worker.next = lambda: (worker.tensors["0.weight"].fill_(3.0), give())[1]
            for step in run:
                self.assertEqual(weight.unique().tolist(), [3.0])

    def test_statistics_of_a_pass_that_only_tries_the_model_are_told(self):
        with self.assertLogs("causeway", "WARNING") as said:
            self.assertEqual(self.train(lambda: self.model[1](torch.randn(3, 4))), 2)
        self.assertRegex(said.output[0], r"the buffer 1\.\w+ changed between entering the run and its first step")

    def test_an_optimizer_begins_anew_with_the_state_that_it_was_made_with(self):
        class Sums(torch.optim.SGD):
            """Makes its state when it is made, as Adagrad does."""

            def __init__(self, parameters):
                super().__init__(parameters, lr=0.1)
                for p in self.param_groups[0]["params"]:
                    self.state[p]["sum"] = torch.full_like(p, 0.5)

            def step(self):
                for p in self.param_groups[0]["params"]:
                    self.state[p]["sum"].add_(p.detach())

        self.optimizer = Sums(self.model.parameters())
        weight = self.model[0].weight
        with a_run(*PLAN) as (_, directory), Run(self.model, self.optimizer, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, "begins its optimizer anew"):
                for step in run:
                    with torch.no_grad():
                        weight.fill_(float("nan") if step.round == 0 else 1.0)
                    self.optimizer.step()
        self.assertEqual(self.optimizer.state[weight]["sum"].unique().tolist(), [1.5])


    def test_an_optimizer_that_learns_its_rate_begins_anew_with_the_one_it_was_given(self):
        class Learns(torch.optim.SGD):
            """Keeps what it has learnt in its groups, as Prodigy does."""

            def step(self):
                for group in self.param_groups:
                    group["d"] *= 2 * self.loss

        self.optimizer = Learns([{"params": self.model.parameters(), "d": 0.25, "growth": float("inf")}], lr=0.1)
        with a_run(*PLAN) as (_, directory), Run(self.model, self.optimizer, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, "begins its optimizer anew"):
                for step in run:
                    self.optimizer.loss = float("nan") if step.round == 0 else 1.0
                    torch.nn.init.constant_(self.model[0].weight, self.optimizer.loss)
                    self.optimizer.step()
                    self.optimizer.param_groups[0]["lr"] = 0.05
        group = self.optimizer.param_groups[0]
        self.assertEqual((group["d"], group["growth"], group["lr"]), (0.5, float("inf"), 0.05))


class ByItself(unittest.TestCase):
    def test_one_of_several_processes_that_know_nothing_of_each_other_is_told(self):
        def enter(**environment):
            with a_run() as (_, directory), unittest.mock.patch.dict(os.environ, environment), Run(torch.nn.Linear(2, 2), directory=directory):
                pass

        with self.assertLogs("causeway", "WARNING") as said:
            enter(RANK="1", WORLD_SIZE="2")
        self.assertIn("WORLD_SIZE is 2, and torch.distributed is not initialised, so this process enters the run by itself", said.output[0])
        self.assertIn("call torch.distributed.init_process_group() before Run is entered", said.output[0])
        with self.assertNoLogs("causeway", "WARNING"):
            enter(RANK="0", WORLD_SIZE="1")


class Gone(unittest.TestCase):
    def test_ranks_do_not_hide_why_rank_0_ends(self):
        """Ctrl-C ends all ranks of a terminal, some before rank 0 can tell them."""
        def closed(*told):
            raise RuntimeError("Connection closed by peer")

        group = Group.__new__(Group)
        group.tell = closed
        with self.assertRaises(KeyboardInterrupt) as raised:
            try:
                raise KeyboardInterrupt
            except BaseException as error:
                group.tell_error(error)
                raise
        self.assertEqual(raised.exception.__notes__, ["The other ranks of this region were not told of it: Connection closed by peer"])


class Unreadable(unittest.TestCase):
    def test_state_that_an_optimizer_makes_in_its_first_step_is_refused_after_that_step(self):
        class Lazy(torch.optim.SGD):
            def step(self):
                for p in self.param_groups[0]["params"]:
                    self.state[p]["history"] = collections.deque([1.0])

        model = torch.nn.Linear(2, 2)
        with a_run(steps(0, 5, 0, 0)) as (_, directory), Run(model, Lazy(model.parameters(), lr=0.1), directory=directory) as run:
            taken = []
            with self.assertRaisesRegex(ValueError, "the state of optimizer holds collections.deque.*weights_only"):
                for step in run:
                    run.optimizers[0].step()
                    taken.append(step.index)
            run.leave()
        self.assertEqual(taken, [0])


class Unsuited(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)
        self.plain = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def enter(self, optimizer):
        with a_run() as (_, directory), Run(self.model, optimizer, directory=directory):
            pass

    def told(self, optimizer):
        with self.assertLogs("causeway", "WARNING") as said:
            self.enter(optimizer)
        self.assertEqual(len(said.output), 1)
        return said.output[0]

    def test_ones_with_weights_of_their_own_are_told_of(self):
        class AdamWScheduleFree(torch.optim.SGD):
            pass

        class Ranger(torch.optim.SGD):
            """RAdam with Lookahead."""

        class Lookahead(torch.optim.Optimizer):
            def __init__(self, optimizer):
                super().__init__(optimizer.param_groups, {})
                self.optimizer = optimizer

        for optimizer in (*(kind(self.model.parameters(), lr=0.1) for kind in (AdamWScheduleFree, Ranger)), Lookahead(self.plain)):
            self.assertIn(f"{type(optimizer).__name__} keeps weights of its own, which do not cross", self.told(optimizer))

    def test_one_that_learns_from_how_far_it_came_is_told_of(self):
        self.assertIn("LBFGS takes every change of the parameters for its own step", self.told(torch.optim.LBFGS(self.model.parameters())))

    def test_others_are_not(self):
        with self.assertNoLogs("causeway", "WARNING"):
            self.enter(self.plain)


class DividedState(unittest.TestCase):
    def test_an_optimizer_that_gives_its_state_to_no_rank_alone_is_refused(self):
        class ZeroRedundancyOptimizer(torch.optim.SGD):
            """As PyTorch's."""

            def state_dict(self):
                raise RuntimeError("Optimizer state has not been consolidated on this rank")

        model = torch.nn.Linear(2, 2)
        with a_run() as (_, directory), self.assertRaisesRegex(ValueError, "the optimizer is a ZeroRedundancyOptimizer, which divides its state "
                                                                           "over the ranks.*fully_shard"):
            Run(model, ZeroRedundancyOptimizer(model.parameters(), lr=0.1), directory=directory)


class ExtraState(unittest.TestCase):
    def test_of_a_module_is_told_of_by_its_name(self):
        class Counts(torch.nn.Linear):
            def get_extra_state(self):
                return {"passes": 3}

        def enter(model):
            with a_run() as (_, directory), Run(model, directory=directory):
                pass

        for model, name in ((Counts(2, 2), "Counts"), (torch.nn.Sequential(torch.nn.ReLU(), Counts(2, 2)), "1")):
            with self.assertLogs("causeway", "WARNING") as said:
                enter(model)
            self.assertEqual(len(said.output), 1)
            self.assertIn(f"the module {name} keeps state that is neither parameter nor buffer (get_extra_state)", said.output[0])
        with self.assertNoLogs("causeway", "WARNING"):
            enter(torch.nn.Linear(2, 2))


class Wrapped(unittest.TestCase):
    """A restart may come without the wrapper, and other regions have none."""

    def names(self, model):
        with a_run(*PLAN) as (worker, directory), Run(model, directory=directory):
            return set(worker.tensors)

    def test_a_module_of_lightning_fabric_has_the_names_of_what_is_in_it(self):
        class FabricModule(torch.nn.Module):
            """As lightning.fabric.wrappers has it."""

            def __init__(self, forward_module, original_module):
                super().__init__()
                self._forward_module, self._original_module = forward_module, original_module

        def make():
            return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))

        plain, model = self.names(make()), make()
        around = torch.nn.Module()
        around.module = model
        self.assertEqual(self.names(FabricModule(model, model)), plain)
        self.assertEqual(self.names(FabricModule(around, model)), plain)
        self.assertEqual(self.names(torch.nn.ModuleDict({"a": FabricModule(model, model)})), self.names(torch.nn.ModuleDict({"a": make()})))

    def test_a_compiled_one_has_those_of_the_one_that_is_not(self):
        plain = self.names(torch.nn.Sequential(torch.nn.Linear(2, 2)))
        self.assertEqual(self.names(torch.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)))), plain)
        self.assertEqual(self.names(torch.nn.Sequential(torch.compile(torch.nn.Linear(2, 2)))), plain)


class AdaLora(unittest.TestCase):
    def test_pruning_by_each_region_is_told_of(self):
        class AdaLoraModel(torch.nn.Module):
            """PEFT's."""

            def __init__(self):
                super().__init__()
                self.lora_E = torch.nn.Parameter(torch.zeros(2, 1))

        def enter(model):
            with a_run() as (_, directory), Run(model, directory=directory):
                pass

        with self.assertLogs("causeway", "WARNING") as said:
            enter(torch.nn.Sequential(AdaLoraModel()))
        self.assertEqual(len(said.output), 1)
        self.assertIn("The mean of the regions brings back what one of them has pruned", said.output[0])


class Losses(unittest.TestCase):
    def report(self, loss):
        with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(torch.nn.Linear(2, 2), directory=directory) as run:
            for step in run:
                run.report(loss)
        return worker.losses

    def test_that_are_no_real_number_are_refused_where_they_are_reported(self):
        for loss, sentence in ((torch.tensor(1j), "that has complex numbers"), (torch.zeros((), device="meta"), "on the meta device"),
                               (1j, "1j"), (numpy.complex64(1 + 2j), "1.*2j"), (numpy.zeros(2), "array")):
            with self.assertRaisesRegex(ValueError, r"report\(\) was given .*" + sentence):
                self.report(loss)

    def test_numbers_of_every_kind_are_taken(self):
        for loss in (2, 2.0, torch.tensor([2.0]), torch.tensor(2, dtype=torch.int8), numpy.float32(2), numpy.array(2.0)):
            self.assertEqual(self.report(loss), [2.0])

    def test_of_held_out_samples_too(self):
        asked = steps(0, 0, 0, 0)
        asked.validation_samples = 5
        for given in (None, "low", torch.zeros(2), 1j):
            with a_run(asked) as (_, directory):
                with self.assertRaisesRegex(ValueError, "evaluate gave .*: it must give the mean loss of the samples"):
                    with Run(torch.nn.Linear(2, 2), directory=directory, evaluate=lambda samples: given) as run:
                        run.step


class Unit(unittest.TestCase):
    def test_of_a_region_that_counts_samples_of_texts_is_told_of(self):
        def enter(words, **settings):
            model = torch.nn.Sequential(torch.nn.Embedding(words, 2))
            with a_run() as (_, directory), Run(model, directory=directory, samples_per_step=8, **settings):
                pass

        with self.assertLogs("causeway", "WARNING") as said:
            enter(2000)
        self.assertIn("this region counts by samples, 8 for a step. Where another region gives it, this one's training weighs next to "
                      "nothing in the mean. Give tokens_per_step in all regions, or in none", said.output[0])
        with self.assertNoLogs("causeway", "WARNING"):
            enter(2000, tokens_per_step=8 * 64)
            enter(10)


class WithoutValues(unittest.TestCase):
    def test_parameters_without_elements_stay_at_home(self):
        model = torch.nn.Linear(2, 2)
        model.empty = torch.nn.Parameter(torch.zeros(0, 4))
        with a_run(*PLAN) as (worker, directory), Run(model, torch.optim.SGD(model.parameters(), lr=0.1), directory=directory) as run:
            self.assertEqual(set(worker.tensors), {"weight", "bias"})
            self.assertEqual(len(list(run)), 2)

    def test_parameters_without_a_shape_are_refused(self):
        with a_run(*PLAN) as (_, directory), self.assertRaisesRegex(ValueError, "weight has no shape yet: pass a batch through the model"):
            with Run(torch.nn.LazyLinear(2), directory=directory):
                pass


class NaN(unittest.TestCase):
    def test_in_a_buffer_is_named_with_what_to_do(self):
        model = torch.nn.BatchNorm1d(2)
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, r"round 0: the buffer running_var \(if it is meant, register it .*buffers=\"local\".* is NaN or "
                                                    "infinite after 1 steps. This region sits the round out"):
                for step in run:
                    model.running_var.fill_(float("inf") if step.round == 0 else 1.0)

    def done(self, ranks, model, not_finite=None):
        """One round of a rank, whose warnings these are."""
        with a_run(steps(0, 1, 0, 0)) as (_, directory), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with Run(model, directory=directory) as run:
                run._ranks = ranks
                run._parameters.not_finite = not_finite or run._parameters.not_finite
                run._done(Told.of(steps(0, 1, 0, 0)), 1)
        return [str(one.message) for one in said]

    def test_a_rank_that_does_not_know_the_name_says_so(self):
        """Rank 0 alone has the values, and may have found them in a buffer."""
        class Hears(Solo):
            leads, rank, world = False, 1, 2
            told = iter([(Kind.YES, []), (Kind.GO_ON, [])])

            def hear(self):
                return next(self.told)

            def gather(self, value):
                return [value] * 2

        (said,) = self.done(Hears(), torch.nn.BatchNorm1d(2))
        self.assertRegex(said, r"round 0: parameters or buffers \(rank 0 names one\) are NaN or infinite after 1 steps")

    def test_a_search_that_fails_is_told_to_the_other_ranks(self):
        class Tells(Solo):
            world, told = 2, None

            def tell_error(self, error):
                self.told = error

            def gather(self, value):
                return [value] * 2

        def interrupted():
            raise KeyboardInterrupt

        ranks = Tells()
        with self.assertRaises(KeyboardInterrupt):
            self.done(ranks, torch.nn.Linear(2, 2), interrupted)
        self.assertIsInstance(ranks.told, KeyboardInterrupt)

    def test_in_an_optimizer_that_run_does_not_know_is_named(self):
        model = torch.nn.Linear(2, 2)
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            with self.assertWarnsRegex(UserWarning, "which Run was not given: what is NaN in it spoils every round to come"):
                for step in run:
                    with torch.no_grad():
                        model.weight.fill_(float("nan") if step.round == 0 else 1.0)


class Reported(unittest.TestCase):
    def test_why_it_is_no_number_is_not_lost(self):
        class Fails:
            def __float__(self):
                raise RuntimeError("CUDA error: out of memory")

        for take in (arguments.loss, arguments.evaluated):
            with self.assertRaisesRegex(ValueError, "a number") as raised:
                take(Fails())
            self.assertEqual(str(raised.exception.__cause__), "CUDA error: out of memory")
            for no_number in ("3", None, numpy.complex64(1)):
                self.assertRaisesRegex(ValueError, "a number", take, no_number)


class StrangeParameters(unittest.TestCase):
    def test_of_an_optimizer_are_refused_with_what_to_do(self):
        model, loss = torch.nn.Linear(2, 2), torch.nn.Linear(3, 1, bias=False)
        with self.assertRaisesRegex(ValueError, r"has 1 parameters that the model does not have, the first of shape \(1, 3\).*one ModuleDict"):
            Run(model, torch.optim.SGD([*model.parameters(), *loss.parameters()], lr=0.1), directory="r")
        both = torch.nn.ModuleDict({"model": model, "loss": loss})
        Run(both, torch.optim.SGD(both.parameters(), lr=0.1), directory="r")


if __name__ == "__main__":
    unittest.main()
