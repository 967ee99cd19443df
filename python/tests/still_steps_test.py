"""Whether what Run was given goes on to step, in the rounds after the first: with a worker's double."""
import logging
import unittest

import torch
from worker_double import a_run, steps

from causeway.torch import Run

PLAN = [steps(number, 4, 4 * number, 4 * number) for number in range(6)]


class Wraps(torch.optim.Optimizer):
    """Leaves all state to the one that it has in it."""

    def __init__(self, within):
        self.within = within
        super().__init__(within.param_groups, {})

    def step(self):
        self.within.step()


class Counts(torch.optim.SGD):
    """Keeps a number alone."""

    def step(self):
        super().step()
        state = self.state[self.param_groups[0]["params"][0]]
        state["step"] = state.get("step", 0) + 1


class InLaterRounds(unittest.TestCase):
    def told(self, make, at=None, also_steps=False):
        """In step `at` the program makes its optimizer anew."""
        model = torch.nn.Linear(2, 2)
        optimizer = given = make(model.parameters())
        with self.assertLogs("causeway") as said, a_run(*PLAN) as (_, directory), Run(model, given, directory=directory) as run:
            logging.getLogger("causeway").info("entered")
            for step in run:
                if step.schedule_step == at:
                    optimizer = make(model.parameters())
                optimizer.zero_grad()
                model(torch.ones(2)).sum().backward()
                optimizer.step()
                if also_steps:
                    given.step()
        return [one for one in said.output if "did not step any more" in one]

    KINDS = {"AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.1),
             "AdamW, fused": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
             "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
             "Counts": lambda parameters: Counts(parameters, lr=0.1),
             "Wraps": lambda parameters: Wraps(torch.optim.Adam(parameters, lr=0.1))}

    def test_an_optimizer_that_another_one_has_taken_the_place_of_is_told_once(self):
        for name, make in self.KINDS.items():
            for at, round_number in ((8, 2), (10, 3)):
                told = self.told(make, at)
                self.assertEqual(len(told), 1, name)
                self.assertIn(f"round {round_number}: the model was trained, and {name.partition(',')[0]}, which Run was given, did not", told[0])

    def test_one_that_goes_on_or_has_nothing_to_lose_is_not(self):
        for make in self.KINDS.values():
            self.assertEqual(self.told(make), [])
        self.assertEqual(self.told(lambda parameters: torch.optim.SGD(parameters, lr=0.1), at=8), [])
        self.assertEqual(self.told(lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.5), at=8, also_steps=True), [])


if __name__ == "__main__":
    unittest.main()
