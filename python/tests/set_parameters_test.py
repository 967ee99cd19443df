"""Steps that set parameters elsewhere, and models that change as they train: with a worker's double."""
import unittest

import torch
import torch.nn.utils.prune
from worker_double import a_run, steps

from causeway.torch import Run

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class PutElsewhere(unittest.TestCase):
    """Steps that set `p.data`, as vector_to_parameters does."""

    def train(self, change, dtype=torch.float32):
        self.model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)).to(dtype)
        sent = []
        with a_run(steps(0, 1, 0, 0), steps(1, 1, 1, 1)) as (worker, directory), Run(self.model, directory=directory) as run:
            worker.done = lambda count, loss: sent.append({name: value.clone() for name, value in worker.tensors.items()})
            for step in run:
                change(step.round + 1.0)
            for name, value in worker.tensors.items():
                self.assertEqual(value.data_ptr(), self.model.get_parameter(name).data_ptr())
        return sent

    def test_are_taken_with_the_values_that_they_set(self):
        def by_vector(value):
            vector = torch.nn.utils.parameters_to_vector(self.model.parameters())
            torch.nn.utils.vector_to_parameters(torch.full_like(vector.detach(), value), self.model.parameters())

        def by_data(value):
            for p in self.model.parameters():
                p.data = torch.full_like(p.data.t(), value).t()

        for change in (by_vector, by_data):
            for value, tensors in enumerate(self.train(change), 1):
                self.assertEqual({one for tensor in tensors.values() for one in tensor.unique().tolist()}, {float(value)})

    def test_of_an_evaluation_count_nowhere_and_its_parameters_come_back(self):
        """As one that swaps an average of weights in, and leaves it there."""
        model = torch.nn.Linear(2, 2)

        def evaluate(samples):
            for p in model.parameters():
                p.data = torch.full_like(p.data, 9.0)
            return 1.0

        asked = steps(0, 0, 0, 0)
        asked.validation_samples = 5
        begun = []
        with a_run(asked, steps(0, 1, 0, 0)) as (worker, directory), Run(model, directory=directory, evaluate=evaluate) as run:
            def give():
                for tensor in worker.tensors.values():
                    tensor.fill_(3.0)
                return next(worker.planned, None)

            worker.next, worker.validated = give, lambda loss: None
            for _ in run:
                begun.extend(value for p in model.parameters() for value in p.flatten().tolist())
        self.assertEqual(set(begun), {3.0})

    def test_with_another_type_are_refused(self):
        for change in (lambda value: self.model.double(), lambda value: setattr(self.model[0], "weight", torch.nn.Parameter(torch.ones(2, 2)))):
            with self.assertRaisesRegex(ValueError, "the model changed after it entered the run: the parameter 0.weight was replaced"):
                self.train(change)

    def test_with_a_type_that_no_run_takes_are_refused_where_they_are_copied(self):
        with self.assertRaisesRegex(ValueError, "the parameter 0.weight was replaced. Move, wrap and convert .* load into it without assign"):
            self.train(lambda value: self.model.double(), torch.bfloat16)


class Changed(unittest.TestCase):
    """What is trained is other parameters than those that entered."""

    def refused(self, change, sentence):
        model = torch.nn.Linear(2, 2)
        with a_run(*PLAN) as (_, directory), self.assertRaisesRegex(ValueError, "the model changed after it entered the run: " + sentence):
            with Run(model, directory=directory) as run:
                for step in run:
                    change(model)

    def test_one_that_is_gone_is_named(self):
        self.refused(lambda model: torch.nn.utils.prune.identity(model, "weight"),
                     r"the parameter weight is gone. Prune, merge adapters .* before Run\(...\), or once the run is over")

    def test_one_that_is_new_is_named_with_what_to_do(self):
        self.refused(lambda model: model.register_parameter("also", torch.nn.Parameter(torch.zeros(1))),
                     "the parameter also has requires_grad now, .* let it have requires_grad when Run is entered")


class Frozen(unittest.TestCase):
    """What entered with requires_grad may lose it and get it back: gradual unfreezing, GANs that freeze the other part, PEFT's set_adapter()."""

    def test_what_is_frozen_since_it_entered_still_crosses(self):
        model = torch.nn.Linear(2, 2, dtype=torch.bfloat16)  # the worker has a copy
        sent = []
        with a_run(*PLAN, steps(2, 1, 2, 2)) as (worker, directory), Run(model, directory=directory) as run:
            def done(count, loss):
                sent.append(worker.tensors["bias"].tolist())
                worker.tensors["bias"].fill_(7)  # what the regions agreed on

            worker.done = done
            for step in run:
                if step.round > 0:
                    self.assertEqual(model.bias.tolist(), [7, 7])
                model.bias.requires_grad_(step.round == 2)
                model.bias.data.fill_(step.round)
        self.assertEqual(sent, [[0, 0], [1, 1], [2, 2]])

    def test_one_that_never_trains_may_have_the_name_of_one_that_does(self):
        """Names are compared without those of wrappers: weight, and module.weight."""
        model = torch.nn.Linear(2, 2)
        model.module = torch.nn.Linear(2, 2).requires_grad_(False)  # a teacher
        with a_run(*PLAN) as (worker, directory), Run(model, directory=directory) as run:
            self.assertEqual([step.round for step in run], [0, 1])


class Shared(unittest.TestCase):
    """share_memory(), and a model that is sent to another process, give tensors other memory than the worker knows."""

    def train(self, at):
        model = torch.nn.Linear(2, 2)
        if at == "before":
            model.share_memory()
        with a_run(*PLAN) as (_, directory), Run(model, directory=directory) as run:
            if at == "entered":
                model.share_memory()
            for step in run:
                if at == step.round:
                    model.bias.share_memory_()

    def test_after_the_run_is_entered_is_refused(self):
        for at, name in (("entered", "weight"), (0, "bias"), (1, "bias")):
            with self.assertRaisesRegex(ValueError, rf"the memory of the parameter {name} was moved .*Call model.share_memory\(\) before Run"):
                self.train(at)

    def test_before_it_is_not(self):
        self.train("before")


if __name__ == "__main__":
    unittest.main()
