"""PyTorch's schedulers stand where the run stands, however they came there: their rates are those of one that went there step by step."""
import collections
import functools
import unittest
import unittest.mock
import warnings

import torch
from torch.optim.lr_scheduler import (ChainedScheduler, CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, ExponentialLR, LambdaLR,
                                      LinearLR, LRScheduler, MultiplicativeLR, MultiStepLR, OneCycleLR, PolynomialLR, ReduceLROnPlateau,
                                      SequentialLR, StepLR)

from causeway.torch import schedules
from causeway.torch.schedules import Schedules

STEPS = 5000


class Halves(LRScheduler):
    """Of a program's own: its state says when it halves the rate."""

    def __init__(self, optimizer):
        self.last = collections.deque([1.0], maxlen=3)
        super().__init__(optimizer)

    def get_lr(self):
        self.last.append(self.last[-1] + 1)
        return [group["lr"] * (0.5 if self.last[-1] % 700 == 0 else 1) for group in self.optimizer.param_groups]


KINDS = {
    "warm-up and cosine": lambda o: [SequentialLR(o, [LinearLR(o, 0.01, 1, 100), CosineAnnealingLR(o, STEPS - 100)], [100])],
    "StepLR": lambda o: [StepLR(o, 1300, 0.1)],
    "MultiStepLR": lambda o: [MultiStepLR(o, [10, 2501, 2501], 0.1)],
    "ExponentialLR": lambda o: [ExponentialLR(o, 0.999)],
    "CosineAnnealingLR": lambda o: [CosineAnnealingLR(o, 1200, 0.01)],
    "CosineAnnealingWarmRestarts": lambda o: [CosineAnnealingWarmRestarts(o, 100, 2)],
    "PolynomialLR": lambda o: [PolynomialLR(o, STEPS, 2.0)],
    "MultiplicativeLR": lambda o: [MultiplicativeLR(o, lambda step: 1 - step % 3 * 1e-3)],
    "ChainedScheduler": lambda o: [ChainedScheduler([LinearLR(o, 0.1, 1, 50), ExponentialLR(o, 0.999)])],
    "LambdaLR": lambda o: [LambdaLR(o, lambda step: 1 - step / STEPS)],
    "OneCycleLR": lambda o: [OneCycleLR(o, 2.0, total_steps=STEPS + 1)],
    "CyclicLR": lambda o: [CyclicLR(o, 0.1, 1.0, 300)],
    "two of one optimizer": lambda o: [LinearLR(o, 0.1, 1, 2600), StepLR(o, 700, 0.5)],
    "a program's own": lambda o: [Halves(o)],
}


class Program:
    """What a Trainer has, once it has made it."""

    def __init__(self, kind, rate=None):
        weights = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
        make = (lambda value: torch.tensor(value, dtype=torch.float64)) if rate == "tensor" else float
        self.optimizer = torch.optim.SGD([{"params": [weights[0]], "lr": make(1.0)}, {"params": [weights[1]], "lr": make(0.5)}], lr=1.0,
                                         momentum=0.9)
        self.schedulers = KINDS[kind](self.optimizer)
        self.schedules = Schedules(self.schedulers)

    def rates(self):
        return [(float(group["lr"]), group["momentum"]) for group in self.optimizer.param_groups]

    def step(self):
        self.optimizer.step()
        for one in self.schedulers:
            one.step()

    def go(self, steps):
        """Takes these steps of the run, one after the other. The rate of the last."""
        for step in steps:
            self.schedules.go_to(step)
            rates = self.rates()
            self.step()
        return rates


@functools.cache
def right(kind, step):
    program = Program(kind)
    for _ in range(step):
        program.step()
    return program.rates()


class Rates(unittest.TestCase):
    def check(self, path, rate=None, prepare=lambda kind, program: None):
        for kind in KINDS:
            if rate == "tensor" and kind in ("OneCycleLR", "CyclicLR"):
                continue  # PyTorch's make numbers of them
            with self.subTest(kind):
                program = Program(kind, rate)
                prepare(kind, program)
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    self.assertEqual(program.go(path), right(kind, path[-1]))
                self.assertEqual([one.get_last_lr() for one in program.schedulers][-1], [rate for rate, _ in program.rates()])

    def test_of_one_that_begins_with_the_run(self):
        self.check(range(1500))

    def test_of_one_that_joins(self):
        self.check(range(2500, 2800))

    def test_of_one_that_leaves_steps_out(self):
        self.check([*range(1299), *range(1310, 1400), *range(2700, 2720)])

    def test_of_one_that_takes_steps_again(self):
        self.check([*range(1310), *range(1290, 1310), *range(1305, 1320), *range(100, 120)])

    def test_of_one_whose_rates_are_tensors(self):
        self.check([*range(100), *range(1300, 1310), *range(1290, 1320)], rate="tensor")

    def test_of_one_that_nobody_else_steps(self):
        for kind in KINDS:
            program = Program(kind)
            program.step = program.optimizer.step
            self.assertEqual(program.go([*range(2500, 2510), *range(2505, 2515)]), right(kind, 2514), kind)

    def restarted(self, kept):
        """The optimizer takes up its state of the step `kept`, with its rates, after the program is made."""
        def take_up(kind, program):
            before = Program(kind)
            for _ in range(kept):
                before.step()
            program.optimizer.load_state_dict(before.optimizer.state_dict())
        return take_up

    def test_of_one_that_is_started_again(self):
        for kept in (2500, 2480, 0):
            self.check(range(2500, 2520), prepare=self.restarted(kept))
        self.check(range(10), prepare=self.restarted(2500))

    def test_of_one_whose_scheduler_another_library_took_up(self):
        """It goes on from there. Back it knows no way, if its rate follows from the one before."""
        for kind in ("ExponentialLR", "LambdaLR"):
            ahead = Program(kind)
            ahead.go(range(50))
            ahead.schedules = Schedules(ahead.schedulers)
            self.assertEqual(ahead.go(range(70, 80)), right(kind, 79))
        ahead = Program("LambdaLR")
        ahead.go(range(50))
        ahead.schedules = Schedules(ahead.schedulers)
        self.assertEqual(ahead.go(range(10, 20)), right("LambdaLR", 19))
        ahead = Program("ExponentialLR")
        ahead.go(range(50))
        ahead.schedules = Schedules(ahead.schedulers)
        with self.assertWarnsRegex(UserWarning, "ExponentialLR was at step 50 when training began, and cannot go back to step 10"):
            ahead.go(range(10, 12))


class Cost(unittest.TestCase):
    def test_a_way_back_is_short_and_a_long_way_is_told(self):
        program = Program("StepLR")
        with unittest.mock.patch.object(schedules, "LONG", 3000), self.assertLogs("causeway", "INFO") as said:
            program.schedules.go_to(4000)
        self.assertIn("goes to step 4000 of the run step by step", said.output[0])
        taken = []
        program.schedulers[0].step = lambda step=program.schedulers[0].step: (taken.append(1), step())
        program.schedules.go_to(3990)
        self.assertLess(len(taken), 1000)

    def test_a_formula_needs_one_step(self):
        calls = []
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        Schedules([LambdaLR(optimizer, lambda step: calls.append(step) or 1.0)]).go_to(10**9)
        self.assertEqual(calls, [0, 10**9])


class Left(unittest.TestCase):
    def test_what_does_not_count_steps_is_told_by_name_and_left_alone(self):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        with self.assertWarnsRegex(UserWarning, "scheduler ReduceLROnPlateau does not step with the run: after a restart it begins anew"):
            left = Schedules([ReduceLROnPlateau(optimizer)])
        left.go_to(5)
        self.assertEqual(optimizer.param_groups[0]["lr"], 1.0)


if __name__ == "__main__":
    unittest.main()
