"""How a program enters a run, and what is said of what it brings: with a worker's double."""
import collections
import os
import unittest
import unittest.mock

import torch
from worker_double import a_run, steps

from causeway.torch import Run
from causeway.torch.ranks import Group

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

    def test_parameters_of_another_type_are_refused_with_what_to_do(self):
        for dtype, remedy in ((torch.float64, r"call model.float\(\)"), (torch.complex64, r"torch.view_as_complex\(\) in forward")):
            model = torch.nn.Linear(2, 2, dtype=dtype)
            with a_run() as (_, directory), self.assertRaisesRegex(ValueError, f"the parameter weight is {dtype}, .*: .*{remedy}"):
                Run(model, directory=directory).__enter__()

    def test_parameters_without_a_shape_are_refused(self):
        with a_run(*PLAN) as (_, directory), self.assertRaisesRegex(ValueError, "weight has no shape yet: pass a batch through the model"):
            with Run(torch.nn.LazyLinear(2), directory=directory):
                pass


if __name__ == "__main__":
    unittest.main()
