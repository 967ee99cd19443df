"""A region's directory with the state of a trainer in it, for tests of what is kept there."""
import hashlib
import pathlib
import shutil
import tempfile
import unittest

import torch

from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState


class Own:
    """An object of the user's with a state."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip_a_bit(path):
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)


class InADirectory(unittest.TestCase):
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

    def file(self, position, rank=0):
        (file,) = self.checkpoints.glob(f"trainer-{position}-rank-{rank}-of-*.pt")
        return file

    def positions(self, rank=0):
        return sorted(int(path.name.split("-")[1]) for path in self.checkpoints.glob(f"trainer-*-rank-{rank}-of-*.pt"))

    def saved(self, *positions):
        state = self.state()
        for position in positions:
            self.train()
            state.save(position)
        return state
