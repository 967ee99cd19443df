"""A region in this process: what a run does to a model, and to one that is used wrongly."""
import json
import os
import signal
import sys
import threading
import unittest

import torch
from region_run import REGIONS, TRAINERS, RegionRun

import causeway
from causeway.torch import Run, steps_told

sys.path.insert(0, str(TRAINERS))
import own_samples  # noqa: E402


class OneRegion(RegionRun):
    def setUp(self):
        super().setUp()
        self.model = own_samples.make_model()
        self.optimizer = own_samples.make_optimizer(self.model.parameters())

    def train(self, step, run):
        self.optimizer.zero_grad()
        loss = own_samples.loss_of(self.model, 0, step.schedule_step)
        loss.backward()
        self.optimizer.step()
        run.report(loss)
        return float(loss.detach())

    def test_steps_count_on_and_the_model_learns(self):
        samples, schedule, losses = [], [], []
        with Run(self.model, self.optimizer, directory=self.region(), samples_per_step=8) as run:
            for step in run:
                samples.append(step.sample)
                schedule.append(step.schedule_step)
                losses.append(self.train(step, run))
        self.assertEqual(samples, list(range(0, 96, 8)))
        self.assertEqual(schedule, list(range(12)))
        self.assertLess(losses[-1], losses[0])
        self.finish_coordinators()

    def test_steps_and_run_say_how_far_the_run_is(self):
        told = []
        with Run(self.model, self.optimizer, directory=self.region()) as run:
            self.assertEqual((run.run_steps, run.progress), (None, 0.0))
            for step in run:
                told.append((step.run_steps, step.progress, run.run_steps))
                self.train(step, run)
        self.assertEqual(told, [(12, number / 12, 12) for number in range(12)])
        self.assertEqual(steps_told(self.region()), 12)  # its coordinator wrote it down

    def test_a_loop_of_the_programs_own_takes_the_same_steps(self):
        with Run(self.model, self.optimizer, directory=self.region()) as run:
            self.assertRaisesRegex(RuntimeError, "came before the run was asked", run.after_step)
            epochs = 0
            while not run.over:
                epochs += 1
                for _ in range(5):
                    loss = own_samples.loss_of(self.model, 0, run.step.schedule_step)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    if not run.after_step(loss):
                        break
            self.assertRaisesRegex(RuntimeError, "a step was taken that the run did not ask for", run.after_step)
        self.finish_coordinators()
        self.assertEqual(epochs, 3)  # 12 steps
        again = own_samples.make_model()
        self.coordinators = self.start_coordinators(out="other")
        other = own_samples.make_optimizer(again.parameters())
        with Run(again, other, directory=self.region(out="other")) as run:
            for step in run:
                other.zero_grad()
                own_samples.loss_of(again, 0, step.schedule_step).backward()
                other.step()
        for name, value in again.state_dict().items():
            self.assertTrue(torch.equal(value, self.model.state_dict()[name]), name)

    def test_lists_of_optimizers_keep_the_state_of_each(self):
        weights, biases = [[p for p in self.model.parameters() if p.dim() == dimensions] for dimensions in (2, 1)]
        two = [torch.optim.SGD(weights, lr=0.01, momentum=0.9), torch.optim.AdamW(biases, lr=0.01)]
        taken = 0
        with Run(self.model, two, directory=self.region(), save_rounds=1) as run:
            for step in run:
                for one in two:
                    one.zero_grad()
                own_samples.loss_of(self.model, 0, step.schedule_step).backward()
                for one in two:
                    one.step()
                taken += 1
        (newest,) = (self.region() / "checkpoints").glob("trainer-12-*.pt")
        state = torch.load(newest)
        self.assertEqual(len(state["optimizer 0"]["state"]), 2)
        self.assertEqual(float(state["optimizer 1"]["state"][0]["step"]), 12)
        self.assertEqual(taken, 12)

    def test_a_model_that_changes_is_named(self):
        with self.assertRaisesRegex(ValueError, "the model changed after it entered the run"):
            with Run(self.model, self.optimizer, directory=self.region()) as run:
                for step in run:
                    self.model.register_parameter("new", torch.nn.Parameter(torch.zeros(1)))

    def test_what_is_frozen_does_not_cross(self):
        self.model[0].requires_grad_(False)
        frozen = self.model[0].weight.clone()
        with Run(self.model, self.optimizer, directory=self.region()) as run:
            *names, digest = run._parameters.hosts()
            self.assertEqual(names, ["2.weight", "2.bias"])
            self.assertTrue(digest.startswith("lowest:frozen:"))
            for step in run:
                self.train(step, run)
        self.assertTrue(torch.equal(frozen, self.model[0].weight))


    def test_a_disk_without_room_for_the_trainers_state_ends_no_training(self):
        checkpoints, steps = self.region() / "checkpoints", 0
        with self.assertLogs("causeway") as said:
            with Run(self.model, self.optimizer, directory=self.region(), samples_per_step=8, save_rounds=1) as run:
                for step in run:
                    if step.schedule_step == 5:  # within the second of three rounds, which ends at sample 64
                        (checkpoints / "trainer-64-rank-0-of-1.unfinished").symlink_to("/dev/full")
                    self.train(step, run)
                    steps += 1
        self.finish_coordinators()
        self.assertEqual(steps, 12)
        self.assertEqual([path.name.split("-rank")[0] for path in sorted(checkpoints.glob("trainer-*-rank-*"))], ["trainer-32", "trainer-96"])
        told = [line for line in said.output if "trainer's state" in line]
        self.assertRegex(told[0], "was not saved: .*No space left on device.*Training goes on.*from its state at sample 32")
        self.assertIn("is saved again", told[1])
        self.assertEqual(len(told), 2)

    def test_an_optimizer_whose_state_was_never_saved_says_that_it_begins_anew(self):
        with Run(self.model, self.optimizer, directory=self.region(), samples_per_step=8) as run:
            for step in run:
                if step.round == 1:
                    break
                self.train(step, run)
        model = own_samples.make_model()
        optimizer = own_samples.make_optimizer(model.parameters())
        with self.assertLogs("causeway", "WARNING") as said:
            with Run(model, optimizer, directory=self.region(), samples_per_step=8) as run:
                self.assertEqual(run.step.sample, 32)
        self.assertIn("the optimizer to go on from: it begins anew; the region is at sample 32", said.output[0])


class ByHeldOutLoss(OneRegion):
    """sync.k = "auto" in a run of PyTorch programs."""

    def start_coordinators(self, out="run", **settings):
        self.run_text = '[sync]\nk = "auto"\nk_refit_rounds = 5\nk_max = 8\nheld_out_sequences = 5\n'
        return super().start_coordinators(out, **settings)

    def test_the_program_is_asked_for_the_loss_of_what_the_regions_agreed_on(self):
        asked = []

        def evaluate(samples):
            with torch.no_grad():
                asked.append((samples, float(own_samples.loss_of(self.model, 0, -1))))
            return asked[-1][1]

        steps = 0
        with Run(self.model, self.optimizer, directory=self.region(), evaluate=evaluate) as run:
            for step in run:
                self.train(step, run)
                steps += 1
        self.finish_coordinators()
        self.assertEqual(steps, 12)
        self.assertEqual({samples for samples, _ in asked}, {5})
        self.assertLess(asked[-1][1], asked[0][1])
        events = (self.region() / "events.jsonl").read_text().splitlines()
        told = [line["held_out_loss"] for line in map(json.loads, events) if "participants" in line]
        self.assertIn(asked[0][1], told)


class AnyLayout(RegionRun):
    """causeway.Worker over arrays as programs have them."""

    def test_transposed_arrays_are_read_and_written_where_they_lie(self):
        base = torch.arange(6.0).reshape(2, 3)
        worker = causeway.Worker({"w": base.t(), "x": base[:, ::2].clone()}, region=REGIONS[0], directory=self.region())
        steps = worker.next()
        self.assertTrue(torch.equal(base, torch.arange(6.0).reshape(2, 3)))
        base += 1
        worker.done(steps.count, 0.0)
        while (steps := worker.next()) is not None:
            worker.done(steps.count, 0.0)
        self.assertTrue(torch.all(base != torch.arange(6.0).reshape(2, 3)))  # each element moved by the outer step
        self.assertTrue(torch.allclose(base - base[0, 0], torch.arange(6.0).reshape(2, 3)))

    def test_what_it_cannot_write_to_is_refused_with_a_sentence(self):
        for wrong, sentence in ((torch.zeros(1).expand(4), "shows one element in several places"),
                                (torch.zeros(2, dtype=torch.float64), "is not fp32"), (3, "is no writable array")):
            with self.assertRaisesRegex((ValueError, TypeError), sentence):
                causeway.Worker({"w": wrong}, region=REGIONS[0], directory=self.region())

    def test_tensors_that_share_memory_are_refused_and_views_beside_each_other_are_not(self):
        base = torch.zeros(4, 6)
        for shared in ({"a": base, "b": base}, {"a": base[:2], "b": base[1:]}, {"a": base.flatten().unfold(0, 6, 1)}):
            with self.assertRaisesRegex(ValueError, "shares memory"):
                causeway.Worker(shared, region=REGIONS[0], directory=self.region())
        worker = causeway.Worker({"even": base[:, ::2], "odd": base[:, 1::2]}, region=REGIONS[0], directory=self.region())
        while (steps := worker.next()) is not None:
            worker.done(steps.count, 0.0)

    def test_names_that_are_no_text_are_refused_with_a_sentence(self):
        for name in (3, None, b"w", "\ud800", ("w",)):
            with self.assertRaisesRegex(ValueError, "names are text"):
                causeway.Worker({name: torch.zeros(2)}, region=REGIONS[0], directory=self.region())

    def test_a_process_that_is_forked_cannot_call_it_and_leaves_it_alone(self):
        worker = causeway.Worker({"w": torch.zeros(3)}, region=REGIONS[0], directory=self.region())
        steps = worker.next()
        child = os.fork()
        if child == 0:
            try:
                worker.called_back()
            except RuntimeError as error:
                os._exit(0 if "was forked" in str(error) else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        while steps is not None:
            worker.done(steps.count, 0.0)
            steps = worker.next()

    def test_more_steps_than_asked_for_and_other_tensors_are_refused(self):
        values = torch.zeros(3)
        worker = causeway.Worker({"w": values}, region=REGIONS[0], directory=self.region())
        steps = worker.next()
        with self.assertRaisesRegex(ValueError, "steps"):
            worker.done(steps.count + 1, 0.0)
        with self.assertRaisesRegex(ValueError, "shape"):
            worker.done(steps.count, 0.0, {"w": torch.zeros(4)})
        worker.done(steps.count, 0.0)  # nothing is lost


class Waiting(RegionRun):
    """Two regions, of which one never trains: the other waits at the end of its first round."""
    regions = 2
    run_text = "[sync]\nstart_wait_s = 0\n"

    def enter(self, **settings):
        model = own_samples.make_model()
        with Run(model, directory=self.region(), **settings) as run:
            for step in run:
                pass

    def test_ctrl_c_ends_a_wait(self):
        waits = threading.Event()

        def interrupt():
            waits.wait()
            os.kill(os.getpid(), signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with self.assertRaises(KeyboardInterrupt):
            self.enter(keep_waiting=lambda what: waits.set() or True)
        interrupter.join()

    def test_a_callback_ends_a_wait_with_the_state_saved(self):
        with self.assertRaisesRegex(causeway.Stopped, "state saved"):
            self.enter(keep_waiting=lambda what: "no contribution yet" not in what)
        self.assertTrue((self.region() / "checkpoints" / "state.safetensors").exists())

    def test_what_a_callback_raises_comes_out(self):
        def fail(what):
            raise LookupError(what)

        with self.assertRaises(LookupError):
            self.enter(keep_waiting=fail)


class NotFinite(RegionRun):
    regions = 2

    def test_a_region_whose_parameters_become_nan_follows_the_other(self):
        result = self.directory / "other.pt"
        other = self.trainer("own_samples.py", 1, self.region(self.names[1]), result)
        model = own_samples.make_model()
        optimizer = own_samples.make_optimizer(model.parameters())
        with self.assertWarnsRegex(UserWarning, "round 1: the parameters, such as [02].(weight|bias), are NaN or infinite after 4 steps"):
            with Run(model, optimizer, directory=self.region()) as run:
                for step in run:
                    optimizer.zero_grad()
                    loss = own_samples.loss_of(model, 0, step.schedule_step)
                    (loss * (float("nan") if step.schedule_step == 6 else 1)).backward()
                    optimizer.step()
        self.finish(other)
        self.finish_coordinators()
        for name, value in torch.load(result).items():
            self.assertTrue(torch.isfinite(value).all() and torch.equal(value, model.state_dict()[name]), name)


if __name__ == "__main__":
    unittest.main()
