"""SIGTERM and Ctrl-C in a program that trains: it ends with the work handed over and saved, as `causeway worker` does. With a worker's double."""
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch
from worker_double import a_run, steps

import causeway
from causeway.torch import Run
from causeway.torch.ranks import Solo
from causeway.torch.stop_signals import StopSignals, Terminated
from causeway.torch.trainer_state import TrainerState

PLAN = [steps(0, 4, 0, 0), steps(1, 4, 4, 4)]


class Stop(unittest.TestCase):
    def setUp(self):
        for number, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            self.addCleanup(signal.signal, number, signal.signal(number, default))
        self.model = torch.nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.handed_over = []

    def train(self, at, waits=True, by=lambda: signal.raise_signal(signal.SIGTERM)):
        """The signal comes in step `at`. Gives the files of the trainer's state."""
        with a_run(*PLAN) as (worker, directory):
            give = worker.next

            def attach(tensors, **settings):
                self.keep_waiting = settings["keep_waiting"]
                return worker

            def wait():
                if waits and not self.keep_waiting("the others"):
                    raise causeway.Stopped("told to stop; state saved")
                return give()

            worker.next = wait
            worker.done = lambda count, loss: self.handed_over.append(count)
            causeway.Worker = attach
            try:
                with Run(self.model, self.optimizer, directory=directory) as run:
                    for step in run:
                        self.model(torch.ones(2)).sum().backward()
                        self.optimizer.step()
                        if step.schedule_step == at:
                            by()
            finally:
                self.files = [path.name.split("-rank")[0] for path in sorted(pathlib.Path(directory).glob("checkpoints/trainer-*.pt"))]

    def check_stopped(self, at, handed_over, **how):
        with self.assertRaises(Terminated) as raised:
            self.train(at, **how)
        self.assertEqual(raised.exception.code, 130)
        self.assertEqual(self.handed_over, handed_over)
        self.assertEqual(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_at_ctrl_c_too(self):
        with self.assertRaisesRegex(KeyboardInterrupt, "state saved"):
            self.train(1, by=lambda: signal.raise_signal(signal.SIGINT))
        self.assertEqual((self.handed_over, self.files), ([2], ["trainer-2"]))
        self.assertEqual(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_the_step_under_way_ends_and_is_handed_over_and_saved(self):
        self.check_stopped(1, [2])
        self.assertEqual(self.files, ["trainer-2"])

    def test_ranks_wait_for_each_others_files_as_the_first_to_end_may_take_the_others_along(self):
        did, save = [], TrainerState.save_alone
        with (unittest.mock.patch.object(TrainerState, "save_alone", lambda *of: (save(*of), did.append("saved"))),
              unittest.mock.patch.object(Solo, "gather", lambda solo, value: did.append("met") or [value])):
            self.check_stopped(1, [2])
        self.assertEqual(did[-2:], ["saved", "met"])

    def test_at_the_end_of_torchrun_too_which_sends_none_where_it_was_killed(self):
        parents = unittest.mock.Mock(return_value=os.getppid())
        with (unittest.mock.patch.dict(os.environ, TORCHELASTIC_RUN_ID="none"), unittest.mock.patch.object(os, "getppid", parents),
              self.assertLogs("causeway", "WARNING") as told):
            self.check_stopped(1, [2], by=lambda: parents.configure_mock(return_value=1))
        self.assertEqual(self.files, ["trainer-2"])
        self.assertIn("is gone: this step ends", told.output[0])

    def test_the_signal_that_follows_a_killed_torchrun_is_the_first(self):
        # As systemd sends it once its main process is gone, or Slurm.
        parents = unittest.mock.Mock(return_value=os.getppid())
        with (unittest.mock.patch.dict(os.environ, TORCHELASTIC_RUN_ID="none"), unittest.mock.patch.object(os, "getppid", parents),
              unittest.mock.patch.object(signal, "raise_signal") as ended, self.assertLogs("causeway", "WARNING") as told):
            signals = StopSignals(lambda: True)
            self.addCleanup(signals.restore)
            signals.listen()
            self.assertEqual(signals.came, 0)
            parents.configure_mock(return_value=1)
            self.assertEqual((signals.came, signals.came), (signal.SIGTERM, signal.SIGTERM))
            signals.handle(signal.SIGTERM, None)
            ended.assert_not_called()
        self.assertEqual(len(told.output), 1)

    def test_so_is_the_last_one_of_a_round(self):
        self.check_stopped(3, [4])
        self.assertEqual(self.files, ["trainer-4"])

    def test_a_run_that_is_over_meanwhile_ends_as_others_do(self):
        self.train(1, waits=False)  # the round that was ordered is given back, and there is none after it
        self.assertEqual(self.handed_over, [2, 0])

    def test_what_it_ends_with_comes_out_of_another_process(self):
        """As of a ProcessPoolExecutor, which would be broken for good."""
        self.assertEqual(pickle.loads(pickle.dumps(Terminated())).code, 130)

    def test_a_handler_of_the_programs_own_stays(self):
        came = []
        signal.signal(signal.SIGTERM, own := lambda *of: came.append(1))
        self.train(1)
        self.assertEqual((signal.getsignal(signal.SIGTERM), came, self.handed_over), (own, [1], [4, 4]))


SCRIPT = """
import multiprocessing, os, signal, sys, torch
from worker_double import a_run, steps
from causeway.torch import Run, stop_signals
signal.signal(signal.SIGINT, signal.default_int_handler)
model = torch.nn.Linear(2, 2)
with a_run(steps(0, 9, 0, 0)) as (worker, directory), Run(model, directory=directory) as run:
    for step in run:
        if sys.argv[1] == "child":
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                os._exit(7)
            print(os.waitpid(child, 0)[1])
            break
        if sys.argv[1] == "killed":
            loader = iter(torch.utils.data.DataLoader(range(8), num_workers=2, multiprocessing_context="spawn"))
            next(loader)
            os.kill(os.getpid(), signal.SIGTERM)
            for child in multiprocessing.active_children():
                os.kill(child.pid, signal.SIGKILL)
                child.join()
            print("goes on")
            break
        number = getattr(signal, sys.argv[1])
        os.kill(os.getpid(), number)
        if number == signal.SIGTERM or len(sys.argv) > 2:
            os.kill(os.getpid(), number)
        print("goes on", flush=True)
        stop_signals.REPEATS_S = 0  # it came long ago
        os.kill(os.getpid(), number)
"""

OF_TWO_RANKS = """
import signal, sys, torch, torch.distributed as dist
from worker_double import a_run, steps
import causeway
from causeway.torch import Run
meeting, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
with a_run(steps(0, 9, 0, 0)) as (worker, directory), Run(torch.nn.Linear(2, 2), directory=directory) as run:
    give = worker.next

    def told_to_stop():
        if run.stop_signals.came:
            raise causeway.Stopped("told to stop; state saved")
        return give()

    worker.next = told_to_stop
    try:
        for step in run:
            if rank == 0:
                signal.raise_signal(signal.SIGTERM)
    except causeway.WorkerError:
        sys.stdin.read()  # it has something else to do
"""


class InAProcess(unittest.TestCase):
    def run_script(self, *how, **environment):
        return subprocess.run([sys.executable, "-c", SCRIPT, *how], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                              cwd=pathlib.Path(__file__).parent, env={**os.environ, **environment})

    def test_one_that_a_launcher_sends_on_is_the_same_and_another_one_ends_it_at_once(self):
        done = self.run_script("SIGTERM")
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGTERM, "goes on\n"), done.stderr)

    def test_another_ctrl_c_ends_it_at_once_as_the_first_one_says(self):
        done = self.run_script("SIGINT")
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGINT, "goes on\n"), done.stderr)
        self.assertIn("Another Ctrl-C ends the program at once", done.stderr)

    def test_one_that_torchrun_sends_on_does_not(self):
        done = self.run_script("SIGINT", "twice", TORCHELASTIC_RUN_ID="none")
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGINT, "goes on\n"), done.stderr)

    def test_rank_0_ends_where_it_alone_gets_one_and_the_others_live_on(self):
        with tempfile.TemporaryDirectory() as directory:
            ranks = [subprocess.Popen([sys.executable, "-c", OF_TWO_RANKS, f"{directory}/meeting", str(rank)], stdin=subprocess.PIPE,
                                      cwd=pathlib.Path(__file__).parent) for rank in (0, 1)]
            try:
                self.assertEqual(ranks[0].wait(300), 130)
                ranks[1].communicate()
                self.assertEqual(ranks[1].returncode, 0)
            finally:
                for one in ranks:
                    one.kill()
                    one.communicate()

    def test_a_loaders_worker_that_dies_of_it_does_not_end_the_step(self):
        done = self.run_script("killed")
        self.assertEqual((done.returncode, done.stdout), (0, "goes on\n"))

    def test_a_child_that_was_forked_ends_as_others_do(self):
        done = self.run_script("child")
        self.assertEqual((done.returncode, done.stdout), (0, f"{int(signal.SIGTERM)}\n"))


if __name__ == "__main__":
    unittest.main()
