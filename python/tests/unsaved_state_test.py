"""A trainer's state that cannot be saved: which faults end no training, and what stays on disk."""
import contextlib
import errno
import resource
import shutil
import unittest

import trainer_directory
from trainer_directory import Own


@contextlib.contextmanager
def room_for(size):
    """No file of this process can become longer, however much is written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


class FullDisk(trainer_directory.InADirectory):
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


if __name__ == "__main__":
    unittest.main()
