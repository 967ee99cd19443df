"""What is read of a trainer's state on disk: numbers, texts and tensors with the hash that they were written with, and no code."""
import os
import random
import typing
import unittest
import unittest.mock

import torch
import trainer_directory
from trainer_directory import Own, sha256_of

from causeway.torch import rank_parts
from causeway.torch.rank_parts import LOCAL, divided_again, own_parts


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


class State(trainer_directory.InADirectory):
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


if __name__ == "__main__":
    unittest.main()
