"""A worker that is not there: steps as a test plans them, for what Run does with them. No coordinator, no other region."""
import contextlib
import tempfile
import types
import unittest.mock

import causeway


def steps(round, count, first_sample, schedule_step, part=0, parts=1, pass_number=0, pass_begin=0, run_steps=1000):
    return types.SimpleNamespace(**locals(), validation_samples=0)


class WorkerDouble:
    """In place of causeway.Worker. `planned`: what next() gives, one after the other."""

    def __init__(self, planned):
        self.planned = iter(planned)
        self.tensors, self.losses = {}, []

    def attach(self, tensors, **settings):
        self.tensors = tensors
        return self

    def next(self):
        return next(self.planned, None)

    def called_back(self):
        return False

    def done(self, count, loss):
        self.losses.append(loss)


@contextlib.contextmanager
def a_run(*planned):
    """The double, and the directory of a region."""
    double = WorkerDouble(planned)
    with tempfile.TemporaryDirectory() as directory, unittest.mock.patch.object(causeway, "Worker", double.attach):
        yield double, directory
