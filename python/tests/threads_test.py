"""A region in a thread that is not the main one: its waits end when the run is left, and when the program ends."""
import pathlib
import subprocess
import sys
import threading
import unittest

import torch
from region_run import RegionRun
from worker_double import a_run, steps

import causeway
from causeway.torch import Run

PLAN = [steps(0, 1, 0, 0), steps(1, 1, 1, 1)]


class Left(unittest.TestCase):
    def test_a_wait_ends_once_the_run_is_left_with_the_state_saved(self):
        """As asyncio.to_thread(run.after_step) waits while Ctrl-C ends the coroutine that entered the run."""
        model, raised = torch.nn.Linear(2, 2), []
        waits, left = threading.Event(), threading.Event()

        def train(run):
            try:
                for step in run:
                    run.optimizers[0].step()
            except causeway.Stopped as stopped:
                raised.append(stopped)

        with a_run(PLAN[0]) as (worker, directory):
            give = worker.next

            def attach(tensors, **settings):
                def wait():
                    if (steps := give()) is None:
                        waits.set()
                        left.wait()
                        if not settings["keep_waiting"]("the others"):
                            raise causeway.Stopped("told to stop")
                    return steps

                worker.next = wait
                return worker

            causeway.Worker = attach
            with Run(model, torch.optim.SGD(model.parameters(), lr=0.1), directory=directory) as run:
                thread = threading.Thread(target=train, args=(run,))
                thread.start()
                waits.wait()
            left.set()
            thread.join()
            self.assertEqual(len(list(pathlib.Path(directory).glob("checkpoints/trainer-1-*.pt"))), 1)
        self.assertEqual(len(raised), 1)


IN_A_THREAD = """
import array, sys, threading, torch
import causeway
from causeway.torch import Run

directory, wanted = sys.argv[1:]
waits = threading.Event()

def keep_waiting(what):
    if "no contribution yet" in what:
        waits.set()
    return True

def a_run():
    model = torch.nn.Linear(2, 2)
    with Run(model, torch.optim.SGD(model.parameters(), lr=0.1), directory=directory, keep_waiting=keep_waiting) as run:
        for step in run:
            pass

def a_worker():
    worker = causeway.Worker({"w": array.array("f", [1, 2])}, region=directory.rpartition("/")[2], directory=directory,
                             keep_waiting=keep_waiting)
    while (steps := worker.next()) is not None:
        worker.done(steps.count, 0.0)

threading.Thread(target=globals()[wanted], daemon=True).start()
waits.wait()
"""


class ProgramEnds(RegionRun):
    """Two regions, of which one never trains."""
    regions = 2
    run_text = "[sync]\nstart_wait_s = 0\n"

    def test_a_wait_ends_with_the_program_and_with_the_state_saved(self):
        """Python would abort the process where the thread takes the interpreter again."""
        done = subprocess.run([sys.executable, "-c", IN_A_THREAD, self.region(), "a_run"], timeout=300)
        self.assertEqual(done.returncode, 0)
        for kept in ("state.safetensors", "trainer-4-*.pt"):
            self.assertEqual(len(list((self.region() / "checkpoints").glob(kept))), 1, kept)

    def test_so_does_one_of_a_worker_that_is_used_alone(self):
        done = subprocess.run([sys.executable, "-c", IN_A_THREAD, self.region(), "a_worker"], timeout=300)
        self.assertEqual(done.returncode, 0)
        self.assertTrue((self.region() / "checkpoints" / "state.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
