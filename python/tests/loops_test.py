"""How a program counts a run's steps, and leaves it: with a worker's double."""
import copy
import sys
import types
import unittest

import torch
import torch.nn.utils.prune
from worker_double import a_run, steps

import causeway
from causeway.torch import Run

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Again(unittest.TestCase):
    def test_the_same_run_brings_back_its_optimizer_and_looks_for_changes(self):
        """As a notebook's cell that was interrupted."""
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        with a_run(steps(0, 1, 0, 0), steps(1, 1, 1, 1), steps(1, 1, 1, 1)) as (_, directory):
            run = Run(model, optimizer, directory=directory, save_rounds=1)

            def take(model_before=lambda: None, interrupted=False):
                with run:
                    model_before()
                    for step in run:
                        optimizer.zero_grad()
                        model(torch.ones(2)).sum().backward()
                        optimizer.step()
                        if step.round == 1 and interrupted:
                            raise KeyboardInterrupt

            with self.assertRaises(KeyboardInterrupt):
                take(interrupted=True)
            self.assertAlmostEqual(optimizer.state[model.bias]["momentum_buffer"][0].item(), 1.9, places=5)
            with self.assertRaisesRegex(ValueError, "changed between entering the run and its first step"):
                take(lambda: torch.nn.init.zeros_(model.weight))
            take()
        self.assertAlmostEqual(optimizer.state[model.bias]["momentum_buffer"][0].item(), 1.9, places=5)


class Leaving(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)

    def leave_in(self, step_left):
        with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
            for number, _ in enumerate(run):
                if number == step_left:
                    break

    def test_before_the_run_is_over_is_told_with_what_it_costs(self):
        with self.assertLogs("causeway", "WARNING") as said:
            self.leave_in(1)
        self.assertRegex(said.output[0], "left in step .* of .* of round .*, before the run was over: what was trained .* counts nowhere")

    def test_by_a_rank_whose_data_ended_sooner_is_told_as_others_fail_then(self):
        with a_run(steps(0, 4, 0, 0)) as (_, directory), self.assertLogs("causeway", "WARNING") as said:
            with Run(torch.nn.Linear(2, 2), directory=directory, samples_per_step=1) as run:
                for _ in run:
                    run._ranks = types.SimpleNamespace(leads=False, rank=1)
                    break
        self.assertIn("rank 1 left Run in step 1 of 4 of round 0", said.output[-1])

    def test_after_the_last_step_is_not(self):
        with self.assertNoLogs("causeway", "WARNING"):
            self.leave_in(None)

    def test_by_an_exit_that_looks_well_is_told_too(self):
        for code, told in ((None, True), (0, True), (3, False)):
            with self.assertLogs("causeway", "WARNING") if told else self.assertNoLogs("causeway", "WARNING"), self.assertRaises(SystemExit):
                with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
                    for _ in run:
                        sys.exit(code)

    def test_with_an_error_is_not_as_the_error_says_more(self):
        with self.assertNoLogs("causeway", "WARNING"), self.assertRaises(ZeroDivisionError):
            with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
                for _ in run:
                    1 / 0


class Counting(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Linear(2, 2)

    def test_each_step_in_two_ways_is_refused(self):
        with a_run(*PLAN) as (_, directory), self.assertRaisesRegex(RuntimeError, "leave after_step.. out, and give the loss to report"):
            with Run(self.model, directory=directory) as run:
                for _ in run:
                    run.after_step()

    def test_begins_with_the_step_that_was_asked_for_before(self):
        for ask in (lambda run: None, lambda run: run.over, lambda run: run.step):
            with a_run(*PLAN) as (_, directory), Run(self.model, directory=directory) as run:
                ask(run)
                taken = [step.schedule_step for step in run]
            self.assertEqual(taken, list(range(sum(one.count for one in PLAN))))

    def train(self, run, epoch, write):
        """Loops over the run and a loader of two batches. The steps that were trained."""
        trained = []
        while run.progress < 1:
            for step, _ in epoch(run):
                write(self.model.bias)
                trained.append(step.schedule_step)
        return trained

    def test_a_step_for_which_a_loader_has_no_batch_left_is_handed_out_again(self):
        def no_grad(p):
            with torch.no_grad():
                p.add_(1)

        writes = [no_grad, lambda p: p.data.add_(1), lambda p: setattr(p, "data", p.data + 1)]
        epochs = [lambda run: zip(run, range(2)), lambda run: ((step, batch) for batch, step in zip(range(2), run))]
        for write in writes:
            for epoch in epochs:
                with a_run(steps(0, 3, 0, 0), steps(1, 4, 3, 3)) as (_, directory), Run(self.model.bfloat16(), directory=directory) as run:
                    self.assertEqual(self.train(run, epoch, write), list(range(7)))

    def test_a_step_with_a_loss_is_taken_though_its_optimizer_changed_nothing(self):
        """As one whose gradients are infinite, which a scaler leaves out."""
        with a_run(steps(0, 7, 0, 0)) as (_, directory), Run(self.model, directory=directory) as run:
            taken = []
            for _ in range(3):
                for step in run:
                    run.report(1.0)
                    taken.append(step.schedule_step)
                    if len(taken) % 3 == 0:
                        break
        self.assertEqual(taken, list(range(7)))

    def test_goes_on_with_the_numbers_that_the_worker_was_told_of(self):
        with a_run(*PLAN) as (_, directory):
            run = Run(self.model, directory=directory, samples_per_step=16, save_rounds=3)
            for name in ("samples_per_step", "save_rounds"):
                with self.assertRaises(AttributeError):
                    setattr(run, name, 64)
            self.assertEqual((run.samples_per_step, run.save_rounds), (16, 3))

    def test_says_how_far_the_run_is_with_every_step_and_at_the_end(self):
        with a_run(steps(0, 2, 0, 0, run_steps=4), steps(1, 2, 2, 2, run_steps=4)) as (_, directory):
            with Run(self.model, directory=directory) as run:
                self.assertEqual([run.progress, *(run.progress for _ in run), run.progress], [0.0, 0.0, 0.25, 0.5, 0.75, 1.0])


class Untrained(unittest.TestCase):
    """Steps that leave the model as it is: without optimizer.step(), or on a copy."""

    def train(self, write, dtype=torch.float32):
        model = torch.nn.Linear(2, 2).to(dtype)
        with a_run(steps(0, 5, 0, 0), steps(1, 5, 5, 5)) as (_, directory), Run(model, directory=directory) as run:
            for step in run:
                write(model, step)
                run.report(1.0)

    def test_are_told_of_once(self):
        copies = []

        def on_a_copy(model, step):
            copies[:] = copies or [copy.deepcopy(model)]
            torch.nn.init.zeros_(copies[0].weight)

        for write in (lambda model, step: model(torch.ones(2, dtype=model.bias.dtype)).sum().backward(), on_a_copy):
            for dtype in (torch.float32, torch.bfloat16):
                with self.assertLogs("causeway", "WARNING") as said:
                    self.train(write, dtype)
                self.assertEqual(len(said.output), 1)
                self.assertIn("round 0: its 5 steps changed no parameter of the model that Run was given", said.output[0])

    def test_are_not_told_of_where_one_step_changed_something(self):
        def in_the_last(model, step):
            if step.index == 4:
                model.bias.data[0] += 1

        for write in (in_the_last, lambda model, step: setattr(model.bias, "data", model.bias.data + 1)):
            with self.assertNoLogs("causeway", "WARNING"):
                self.train(write)


class AnotherOptimizer(unittest.TestCase):
    """A program that steps another one than it gave to Run."""

    def train(self, given, stepping):
        with a_run(steps(0, 1, 0, 0), steps(1, 1, 1, 1)) as (_, directory), Run(self.model, given, directory=directory) as run:
            for step in run:
                self.model(torch.ones(2)).sum().backward()
                stepping.step()

    def setUp(self):
        self.model = torch.nn.Linear(2, 2)
        self.adam, self.other = (torch.optim.Adam(self.model.parameters()) for _ in range(2))
        self.plain = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def test_is_told_of_once(self):
        with self.assertLogs("causeway", "WARNING") as said:
            self.train(self.adam, self.other)
        self.assertEqual(len(said.output), 1)
        self.assertIn("the model was trained, and Adam, which Run was given, has not stepped. Give Run the optimizer that steps", said.output[0])

    def test_is_not_looked_for_where_one_has_no_state_or_steps_less_often(self):
        with self.assertNoLogs("causeway", "WARNING"):
            self.train(self.plain, self.other)
            self.train(self.adam, self.adam)
            self.train([self.adam, self.other], self.other)


class Caught(unittest.TestCase):
    """A loop that skips a batch at a RuntimeError, as many do for want of memory, skips what ends the run as well."""

    def enter(self, directory, error, at):
        def wait(give, calls=[]):
            calls.append(1)
            if len(calls) == at + 1:
                raise error
            return give()

        give, self.worker.next = self.worker.next, lambda: wait(give)
        return Run(torch.nn.Linear(2, 2), directory=directory)

    def check_ended(self, run, said):
        for ask in (lambda: run.over, lambda: run.step, run.after_step, lambda: iter(run)):
            with self.assertRaisesRegex(RuntimeError, f"the run was ended by an error that the program caught .{said}.*start it again"):
                ask()

    def test_an_error_of_after_step_ends_the_loop_at_its_next_question(self):
        for error, said in ((causeway.WorkerError("disk"), "WorkerError: disk"), (causeway.Stopped("told to"), "Stopped: told to")):
            with a_run(*PLAN) as (self.worker, directory), self.enter(directory, error, at=1) as run:
                self.assertFalse(run.over)
                with self.assertRaises(type(error)):
                    run.after_step()
                self.check_ended(run, said)
                run.leave()

    def test_so_does_one_before_the_first_step_and_one_that_is_entered_again_goes_on(self):
        with a_run(*PLAN) as (self.worker, directory):
            run = self.enter(directory, causeway.WorkerError("disk"), at=0)
            with self.assertRaisesRegex(RuntimeError, "was ended by an error"), run:
                with self.assertRaises(causeway.WorkerError):
                    run.step
                self.check_ended(run, "WorkerError: disk")
                run.step
            with run:
                self.assertEqual(len(list(run)), 2)


if __name__ == "__main__":
    unittest.main()
