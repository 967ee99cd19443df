"""A library asks for the run's steps before its region's coordinator has written them down."""
import contextlib
import json
import os
import pathlib
import tempfile
import unittest
import unittest.mock

import causeway
from causeway.torch import awaited
from causeway.torch.awaited import steps_awaited
from causeway.torch.ranks import Kind, Solo


class Ranks(Solo):
    """Of two; keeps what rank 0 tells, or hears it."""

    def __init__(self, rank):
        self.rank, self.leads, self.told = rank, rank == 0, []

    def tell(self, kind, numbers=()):
        self.told.append((kind, *numbers))

    def tell_error(self, error):
        self.told.append(Kind.ERROR)

    def hear(self):
        return Kind.GO_ON, [24, 0]


class Awaited(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "eu"
        self.enterContext(unittest.mock.patch.dict(os.environ, CAUSEWAY_DIRECTORY=str(self.directory)))
        os.environ.pop("CAUSEWAY_STEPS", None)
        self.naps = 0

    def nap(self, seconds):
        self.naps += 1
        if self.naps == 3:
            self.directory.mkdir()
            (self.directory / "status.json").write_text(json.dumps({"steps": 24}))

    @contextlib.contextmanager
    def with_ranks(self, ranks):
        with unittest.mock.patch.object(awaited.time, "sleep", self.nap), \
                unittest.mock.patch.object(awaited, "ranks_of", lambda group: ranks):
            yield ranks

    def test_until_the_coordinator_has_written_them_down(self):
        with self.with_ranks(Ranks(0)) as ranks, self.assertLogs("causeway", "WARNING") as said:
            self.assertEqual(steps_awaited({}), 24)
        self.assertEqual((self.naps, len(said.output)), (3, 1))
        self.assertIn(f"has not written {self.directory / 'status.json'} yet. Start it, or set CAUSEWAY_STEPS", said.output[0])
        self.assertEqual(ranks.told, [(Kind.WAITING,)] * 3 + [(Kind.GO_ON, 24)])

    def test_the_other_ranks_hear_them_from_rank_0(self):
        with self.with_ranks(Ranks(1)):
            self.assertEqual(steps_awaited({}), 24)
        self.assertEqual(self.naps, 0)

    def test_not_where_no_coordinator_is_to_write_them(self):
        with self.with_ranks(Ranks(0)):
            self.assertIsNone(steps_awaited({"coordinator": "elsewhere:1"}))
            self.assertIsNone(steps_awaited({"directory": self.directory / "not" / "there"}))  # Run refuses it
            os.environ["CAUSEWAY_STEPS"] = "12"
            self.assertEqual(steps_awaited({}), 12)
        self.assertEqual(self.naps, 0)

    def test_keep_waiting_ends_it(self):
        heard = []
        with self.with_ranks(Ranks(0)) as ranks, self.assertLogs("causeway"), self.assertRaisesRegex(causeway.Stopped, "told to stop"):
            steps_awaited({"keep_waiting": heard.append})
        self.assertEqual((len(heard), self.naps, ranks.told[-1]), (1, 0, Kind.ERROR))


if __name__ == "__main__":
    unittest.main()
