"""A trainer's state that is older than the region's, or cannot be read: with one rank, and with two that must agree."""
import queue
import threading
import unittest

import torch
import trainer_directory
from trainer_directory import flip_a_bit, sha256_of

from causeway.torch.ranks import Solo
from causeway.torch.trainer_state import TrainerState


class Behind(trainer_directory.InADirectory):
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


GONE = object()


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


class Ranks(trainer_directory.InADirectory):
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
