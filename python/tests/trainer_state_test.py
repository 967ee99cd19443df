"""What is read of a trainer's state on disk: numbers, texts and tensors with the hash that they were written with, and no code."""
import contextlib
import errno
import hashlib
import os
import pathlib
import queue
import random
import resource
import shutil
import tempfile
import threading
import typing
import unittest
import unittest.mock

import torch

from causeway.torch import random_numbers, rank_parts
from causeway.torch.rank_parts import LOCAL, divided_again, own_parts
from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState


class Runs:
    """Code in a file, if anything ran it."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


class Pair(typing.NamedTuple):
    low: int
    high: torch.Tensor


class Divided:
    """In place of a DTensor."""
    device_mesh = placements = None

    def __init__(self, local):
        self.local = local

    def to_local(self):
        return self.local

    def shape(self):
        return None

    stride = shape

    @classmethod
    def from_local(cls, local, *mesh, **shape):
        return cls(local)


class Own:
    """An object of the user's with a state."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Rank(Solo):
    """One of two in threads of this process."""

    def __init__(self, rank, mails):
        self.rank, self.world, self.leads = rank, 2, rank == 0
        self.own, self.other = mails[rank], mails[1 - rank]

    def gather(self, value):
        self.other.put(value)
        told = self.own.get()
        if told is GONE:
            raise ConnectionError("the other rank is gone")
        return [value, told] if self.leads else [told, value]


GONE = object()


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def flip_a_bit(path):
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)


@contextlib.contextmanager
def room_for(size):
    """No file of this process can become longer, however much is written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


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


class State(InADirectory):
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
        with self.assertLogs("causeway", "WARNING"):
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
        with self.assertLogs("causeway", "WARNING"):
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

    def test_named_tuples_come_back_where_their_type_is_allowed_and_are_refused_at_once_elsewhere(self):
        self.own.state = {"pair": Pair(1, torch.ones(2))}
        with self.assertRaisesRegex(ValueError, "the state of own holds .*Pair.*add_safe_globals"):
            self.state()
        with torch.serialization.safe_globals([Pair]):
            self.state().save(8)
            self.own.state = {}
            self.state().resume(8)
        self.assertEqual((type(self.own.state["pair"]), self.own.state["pair"].low, self.own.state["pair"].high.tolist()), (Pair, 1, [1, 1]))

    def test_divided_tensors_within_lists_are_divided_again(self):
        with unittest.mock.patch.object(rank_parts, "DTensor", Divided):
            kept = own_parts({"history": [Divided(1), (Divided(2), 3)]})
            self.assertEqual(kept, {"history": [{LOCAL: 1}, ({LOCAL: 2}, 3)]})
            again = divided_again({"history": [{LOCAL: torch.ones(1)}, ({LOCAL: torch.ones(1)}, 3)]}, Divided(torch.ones(1)))
        self.assertEqual((type(again["history"][0]), type(again["history"][1][0]), again["history"][1][1]), (Divided, Divided, 3))

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


class Devices:
    """Generators of devices that are not there; the current one is device 0."""

    def __init__(self, *states):
        self.states = list(states)

    def __enter__(self):
        self.patches = contextlib.ExitStack()
        for name, double in (("is_available", lambda: True), ("device_count", lambda: len(self.states)), ("get_rng_state", self.get),
                             ("get_rng_state_all", lambda: [torch.tensor(one) for one in self.states]), ("set_rng_state", self.set)):
            self.patches.enter_context(unittest.mock.patch.object(torch.cuda, name, double))
        return self

    def __exit__(self, *error):
        self.patches.close()

    def get(self):
        return torch.tensor(self.states[0])

    def set(self, state, device=0):
        self.states[device] = state.item()


class RandomNumbers(unittest.TestCase):
    def test_of_all_devices_come_back(self):
        with Devices(1, 2, 3):
            kept = random_numbers.random_numbers()
        with Devices(0, 0, 0) as devices:
            random_numbers.set_random_numbers(kept)
        self.assertEqual(devices.states, [1, 2, 3])
        with Devices(0, 0) as devices:  # fewer than before
            random_numbers.set_random_numbers(kept)
        self.assertEqual(devices.states, [1, 2])

    def test_of_an_earlier_version_are_the_current_devices(self):
        with Devices(1, 2):
            kept = random_numbers.random_numbers()
        del kept["random of all devices"]
        with Devices(0, 0) as devices:
            random_numbers.set_random_numbers(kept)
        self.assertEqual(devices.states, [1, 0])


class FullDisk(InADirectory):
    def test_training_goes_on_and_saves_when_there_is_room(self):
        state = self.saved(8)
        size = self.one_file().stat().st_size
        with self.assertLogs("causeway") as said:
            for position, room in ((16, 0), (24, 100), (32, size // 2), (40, size - 1)):
                self.train()
                with room_for(room):
                    state.save(position)
                self.assertEqual(self.files(), [self.file(8).name])
        self.assertEqual([line.split("(")[1].split(")")[0] for line in said.output],
                         [f"{times} times in a row" for times in (1, 2, 4)])
        for line in said.output:
            self.assertRegex(line, r"ERROR:causeway:the trainer's state was not saved: \[Errno 27\] File too large: "
                                   r"'.*trainer-\d+-rank-0-of-1.unfinished'.* Training goes on; what was saved before stays"
                                   r".* After a restart the optimizer goes on from its state at sample 8$")
        with self.assertLogs("causeway") as said:
            state.save(48)
            self.train()
            state.save(56)
        self.assertEqual(said.output, ["WARNING:causeway:the trainer's state is saved again, after 4 failures"])
        self.assertEqual(self.positions(), [48, 56])

    def test_before_the_first_state_a_restart_would_begin_anew(self):
        state = self.state()
        with room_for(100), self.assertLogs("causeway") as said:
            state.save(8)
        self.assertIn("After a restart the optimizer begins anew", said.output[0])
        self.assertEqual(self.files(), [])

    def test_a_state_that_must_be_saved_is_an_error_and_leaves_nothing_unfinished(self):
        state = self.saved(8)
        with room_for(100), self.assertRaises(OSError) as raised:
            state.save_alone(16)
        self.assertEqual(raised.exception.errno, errno.EFBIG)
        self.assertEqual(raised.exception.__notes__, ["The trainer's state was not saved. After a restart the optimizer goes on from its "
                                                      "state at sample 8"])
        self.assertEqual(self.positions(), [8])
        self.assertEqual(len(self.files()), 1)

    def test_what_is_no_fault_of_the_disk_is_raised(self):
        self.saved(8)
        state = self.state()
        self.own.state = {"inner": Own(1)}
        with self.assertRaisesRegex(ValueError, "the trainer's state holds .*Own"):
            state.save(16)
        self.assertEqual(len(self.files()), 1)
        shutil.rmtree(self.checkpoints)
        self.checkpoints.write_text("no directory")
        self.own.state = {}
        with self.assertRaises(FileExistsError):
            state.save(16)

    def test_what_a_killed_process_left_is_removed_at_the_next_start(self):
        self.saved(8)
        (self.checkpoints / "trainer-16-rank-0-of-1.unfinished").write_bytes(b"half")
        self.assertEqual(self.state().resume(8), 8)
        self.assertEqual(self.files(), [self.file(8).name])


class Behind(InADirectory):
    """The region is at another sample than the state that is taken up."""

    def momentum(self):
        return self.optimizer.state[self.model.bias]["exp_avg"].clone()

    def test_a_damaged_file_is_named_and_the_one_before_it_used(self):
        state = self.saved(8)
        older = self.momentum()
        self.train()
        state.save(16)
        flip_a_bit(self.file(16))
        state = self.state()
        with self.assertLogs("causeway") as said:
            self.assertEqual(state.resume(16), 8)
        self.assertTrue(torch.equal(older, self.momentum()))
        self.assertRegex(said.output[0], f"ERROR:causeway:.*{self.file(16).name} is damaged.*; trying the state before it")
        self.assertIn("goes on from its state at sample 8; the region is at sample 16. What `also` has (own, scheduler) goes on from "
                      "there too: a loader among it reads again what was read since", said.output[1])
        self.train()
        state.save(24)  # takes the place of the damaged one, not of the one that can be read
        self.assertEqual(self.positions(), [8, 24])

    def test_all_files_damaged_are_an_error(self):
        self.saved(8, 16)
        for position in (8, 16):
            flip_a_bit(self.file(position))
        with self.assertLogs("causeway"), self.assertRaisesRegex(ValueError, "is damaged.*delete every trainer-"):
            self.state().resume(16)
        self.assertEqual(self.positions(), [8, 16])

    def test_an_older_state_is_not_saved_as_that_of_the_sample_at_which_it_was_taken_up(self):
        self.saved(8)
        state = self.state()
        with self.assertLogs("causeway"):
            state.resume(16)
        state.save_alone(16)
        self.assertEqual(self.positions(), [8])
        self.train()
        state.save_alone(24)
        self.assertEqual(self.positions(), [8, 24])

    def test_an_optimizer_that_begins_anew_says_so_if_the_region_has_trained(self):
        with self.assertLogs("causeway") as said:
            self.assertIsNone(self.state().resume(16))
        self.assertIn("begins anew; the region is at sample 16", said.output[0])
        with self.assertNoLogs("causeway"):
            self.assertIsNone(self.state().resume(0))
        self.train()  # as in a notebook, whose run is entered again
        with self.assertLogs("causeway") as said:
            self.assertIsNone(self.state().resume(16))
        self.assertIn("it goes on as the program has it; the region is at sample 16", said.output[0])


class Ranks(InADirectory):
    """Two, in threads, of which each has its optimizer."""

    def on_both(self, work):
        """What `work` gives, or raises, on each."""
        mails, given = [queue.Queue(), queue.Queue()], [None, None]

        def live(rank):
            optimizer = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
            try:
                given[rank] = work(TrainerState(self.directory, Rank(rank, mails), [optimizer], {}))
            except Exception as error:
                given[rank] = error
            mails[1 - rank].put(GONE)

        lives = [threading.Thread(target=live, args=(rank,)) for rank in (0, 1)]
        for one in lives:
            one.start()
        for one in lives:
            one.join()
        return given

    def save(self, *positions):
        self.assertEqual(self.on_both(lambda state: [state.save(one) for one in positions] and None), [None, None])

    def resumed(self, sample):
        with self.assertLogs("causeway") as said:
            given = self.on_both(lambda state: state.resume(sample))
        return given, said.output

    def test_both_go_on_from_the_newest_position_that_both_have(self):
        self.save(8, 16)
        self.file(16, rank=1).unlink()
        given, said = self.resumed(16)
        self.assertEqual(given, [8, 8])
        self.assertEqual(len(said), 1)
        self.assertIn("from its state at sample 8; the region is at sample 16", said[0])

    def test_both_go_on_from_the_newest_position_that_both_can_read(self):
        self.save(8, 16)
        flip_a_bit(self.file(16, rank=1))
        given, said = self.resumed(16)
        self.assertEqual(given, [8, 8])
        self.assertEqual(len(said), 2)
        self.assertRegex(said[0], "trainer-16-rank-1-of-2.* is damaged")

    def test_both_begin_anew_if_one_has_nothing(self):
        self.save(8)
        self.file(8, rank=1).unlink()
        given, said = self.resumed(16)
        self.assertEqual(given, [None, None])
        self.assertIn("begins anew; the region is at sample 16", said[0])
        self.assertEqual(self.positions(rank=0), [8])  # the other's may only be out of reach now

    def test_what_one_cannot_use_is_told_to_all(self):
        self.save(8)
        torch.save({"random": torch.get_rng_state()}, unnamed := self.checkpoints / "unnamed")
        self.file(8, rank=1).unlink()
        unnamed.rename(self.checkpoints / f"trainer-8-rank-1-of-2-{sha256_of(unnamed)}.pt")
        given = self.on_both(lambda state: state.resume(8))
        self.assertRegex(str(given[0]), "rank 1 of this region stopped: .*has no state of optimizer")
        self.assertIsInstance(given[1], ValueError)

    def test_all_have_a_new_file_or_none_and_the_older_ones_stay(self):
        def work(state):
            for position in (8, 16, 24, 32, 40):
                full = self.checkpoints / f"trainer-{position}-rank-1-of-2.unfinished"
                if state.ranks.rank == 1 and position in (24, 32):
                    full.symlink_to("/dev/full")
                state.save(position)
                kept[position].append(self.positions(state.ranks.rank))
            return None

        kept = {position: [] for position in (8, 16, 24, 32, 40)}
        with self.assertLogs("causeway") as said:
            self.assertEqual(self.on_both(work), [None, None])
        self.assertEqual(kept, {8: [[8]] * 2, 16: [[8, 16]] * 2, 24: [[8, 16]] * 2, 32: [[8, 16]] * 2, 40: [[16, 40]] * 2})
        self.assertEqual(len(said.output), 3)  # rank 0 tells of it: twice refused, saved again
        self.assertRegex(said.output[0], "No space left on device: '.*trainer-24-rank-1-of-2.unfinished'.*state at sample 16")


if __name__ == "__main__":
    unittest.main()
