"""What is read of a trainer's state on disk: numbers, texts and tensors with the hash that they were written with, and no code."""
import os
import pathlib
import random
import shutil
import tempfile
import unittest

import torch

from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState, sha256_of


class Runs:
    """Code in a file, if anything ran it."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Own:
    """An object of the user's with a state."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class State(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.checkpoints = self.directory / "checkpoints"
        self.model = torch.nn.Linear(3, 2)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.1, total_steps=50)
        self.own = Own({"count": 7, "names": ["a", "b"], "pair": (1, 2.5), "none": None})

    def state(self, **also):
        return TrainerState(self.directory, Solo(), [self.optimizer], {"scheduler": self.scheduler, "own": self.own, **also})

    def train(self, steps=1):
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(torch.randn(4, 3)).sum().backward()
            self.optimizer.step()
            self.scheduler.step()

    def files(self):
        return sorted(path.name for path in self.checkpoints.iterdir())

    def one_file(self):
        (file,) = self.checkpoints.iterdir()
        return file

    def test_optimizer_schedule_random_numbers_and_own_objects_come_back_bit_for_bit(self):
        self.train(3)
        self.state().save(24)
        weights = [p.detach().clone() for p in self.model.parameters()]
        self.train(2)
        wanted = [p.detach().clone() for p in self.model.parameters()]
        self.train(5)
        self.own.state = {"count": 0}
        with torch.no_grad():
            for p, before in zip(self.model.parameters(), weights):
                p.copy_(before)
        self.assertEqual(self.state().resume(30), 24)
        self.assertEqual(self.own.state, {"count": 7, "names": ["a", "b"], "pair": (1, 2.5), "none": None})
        self.train(2)
        for p, value in zip(self.model.parameters(), wanted):
            self.assertTrue(torch.equal(p, value))

    def test_the_newest_two_positions_are_kept_and_what_was_lost_is_removed(self):
        state = self.state()
        for sample in (8, 16, 24, 24):
            self.train()
            state.save(sample)
        self.assertEqual([name.split("-rank")[0] for name in self.files()], ["trainer-16", "trainer-24"])
        self.assertEqual(state.resume(20), 16)
        self.assertEqual([name.split("-rank")[0] for name in self.files()], ["trainer-16"])

    def test_a_hostile_file_runs_nothing(self):
        state = self.state()
        state.save(8)
        marker = self.directory / "ran"
        unnamed = self.checkpoints / "unnamed"
        torch.save({"optimizer": Runs(marker)}, unnamed)
        self.one_file_but(unnamed).unlink()
        unnamed.rename(self.checkpoints / f"trainer-8-rank-0-of-1-{sha256_of(unnamed)}.pt")
        with self.assertRaisesRegex(ValueError, "holds more than numbers, texts and tensors"):
            state.resume(8)
        self.assertFalse(marker.exists())

    def one_file_but(self, other):
        (file,) = set(self.checkpoints.iterdir()) - {other}
        return file

    def test_a_flipped_bit_anywhere_is_found(self):
        self.train()
        self.state().save(8)
        file = self.one_file()
        whole, chance = file.read_bytes(), random.Random(11)
        for at in [0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(100))]:
            damaged = bytearray(whole)
            damaged[at] ^= 1 << chance.randrange(8)
            file.write_bytes(damaged)
            with self.assertRaisesRegex(ValueError, f"{file.name} is damaged"):
                self.state().resume(8)
        for damaged in (b"", whole[:-1], whole + b"0"):
            file.write_bytes(damaged)
            with self.assertRaisesRegex(ValueError, "is damaged"):
                self.state().resume(8)

    def test_a_file_without_a_hash_in_its_name_is_not_read(self):
        self.state().save(8)
        self.one_file().rename(self.checkpoints / "trainer-8-rank-0-of-1.pt")
        with self.assertRaisesRegex(ValueError, "earlier version"):
            self.state().resume(8)

    def test_state_that_could_not_be_read_again_is_refused_before_the_first_step(self):
        with self.assertRaisesRegex(ValueError, "the state of more holds .*Own.*weights_only"):
            self.state(more=Own({"inner": [Own(1)]}))

    def test_numbers_of_numpy_come_back_as_plain_ones(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("NumPy is not here")
        self.optimizer.param_groups[0]["lr"] = numpy.float64(0.25)
        self.own.state = {"step": numpy.int64(3)}
        self.state().save(8)
        self.assertEqual(self.state().resume(8), 8)
        self.assertEqual((self.optimizer.param_groups[0]["lr"], self.own.state), (0.25, {"step": 3}))


if __name__ == "__main__":
    unittest.main()
