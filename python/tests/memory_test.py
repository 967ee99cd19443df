"""Where parameters lie: two over one memory, and memory that can only be read."""
import copy
import mmap
import multiprocessing
import pathlib
import tempfile
import unittest
import unittest.mock

import torch
from worker_double import a_run, steps

from causeway.torch import Run, memory
from causeway.torch.buffers import Buffers
from causeway.torch.memory import problem_of_ranks, problem_of_read_only, shared_places
from causeway.torch.ranks import Solo

BYTES = 1 << 12


def enter(model, **settings):
    with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(model, directory=directory, **settings) as run:
        for step in run:
            run.report(1.0)
    return worker


class Shared(unittest.TestCase):
    def model(self, dtype, size=4):
        return torch.nn.Sequential(torch.nn.Embedding(size, size), torch.nn.Linear(size, size, bias=False)).to(dtype)

    SHARES = (lambda p: p, lambda p: p[:], lambda p: p.t())

    def test_weights_tied_by_their_data_are_refused_where_the_run_would_set_them_to_two_values(self):
        for dtype, shares in ((torch.float32, self.SHARES[:2]), (torch.bfloat16, self.SHARES), (torch.float16, self.SHARES)):
            for share in shares:
                model = self.model(dtype)
                model[1].weight.data = share(model[0].weight.data)
                with self.assertRaisesRegex(ValueError, "the parameters 0.weight and 1.weight share memory.*tie them as one parameter.*new run"):
                    enter(model)

    def test_in_fp32_one_that_is_copied_to_the_worker_is_set_to_the_same(self):
        """As all are on a GPU."""
        model = self.model(torch.float32)
        model[1].weight.data = model[0].weight.data.t()
        with a_run(steps(0, 1, 0, 0)) as (worker, directory), Run(model, directory=directory) as run:
            for step in run:
                with torch.no_grad():
                    model[0].weight.copy_(torch.arange(16.0).view(4, 4))
        self.assertEqual(set(worker.tensors), {"0.weight", "1.weight"})
        self.assertTrue(torch.equal(worker.tensors["1.weight"], torch.arange(16.0).view(4, 4).t()))
        self.assertTrue(torch.equal(model[0].weight, torch.arange(16.0).view(4, 4)))

    def test_so_are_ones_that_overlap(self):
        model = self.model(torch.bfloat16)
        flat = torch.zeros(31, dtype=torch.bfloat16)
        model[0].weight.data, model[1].weight.data = flat[:16].view(4, 4), flat[15:].view(4, 4)
        with self.assertRaisesRegex(ValueError, "share memory"):
            enter(model)

    def test_one_parameter_in_two_modules_crosses_once_and_neighbours_in_one_memory_each(self):
        tied, beside, woven = (self.model(torch.bfloat16) for _ in range(3))
        tied[1].weight = tied[0].weight
        self.assertEqual(set(enter(tied).tensors), {"0.weight"})
        flat = torch.zeros(32, dtype=torch.bfloat16)
        beside[0].weight.data, beside[1].weight.data = flat[:16].view(4, 4), flat[16:].view(4, 4)
        columns = flat.view(4, 8)
        woven[0].weight.data, woven[1].weight.data = columns[:, :4], columns[:, 4:]
        for model in (beside, woven):
            self.assertEqual(set(enter(model).tensors), {"0.weight", "1.weight"})


@unittest.skipUnless(pathlib.Path("/proc/self/maps").exists(), "no /proc/self/maps")
class ReadOnly(unittest.TestCase):
    def mapped(self, access):
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        file.write(bytes(BYTES))
        file.flush()
        content = mmap.mmap(file.fileno(), 0, access=access)
        return torch.frombuffer(content, dtype=torch.float32).view(32, 32)

    def test_a_parameter_or_buffer_there_is_refused_by_name(self):
        for dtype in (torch.float32, torch.bfloat16):
            model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(32, 32))
            model[1].weight.data = self.mapped(mmap.ACCESS_READ).view(dtype)
            with self.assertRaisesRegex(ValueError, "the parameter 1.weight lies in memory that can only be read, .*without assign=True"):
                enter(model)
        model = torch.nn.Linear(2, 2)
        model.register_buffer("mean", self.mapped(mmap.ACCESS_READ))
        with self.assertRaisesRegex(ValueError, "the buffer mean lies in memory that can only be read.*module.mean = module.mean.clone()"):
            enter(model)
        enter(model, buffers="local")

    def test_the_advice_is_for_what_it_is(self):
        """A buffer that becomes a parameter is trained, and a mapped file that becomes a copy when it is written to is no fault."""
        place = [("0.mean", self.mapped(mmap.ACCESS_READ))]
        self.assertNotIn("Parameter(", problem_of_read_only(place, "buffer"))
        self.assertIn("torch.nn.Parameter(p.detach().clone())", problem_of_read_only(place, "parameter"))
        for kind in ("buffer", "parameter"):
            self.assertNotIn("mmap", problem_of_read_only(place, kind))

    def test_a_buffer_there_that_does_not_cross_is_not_refused(self):
        model = torch.nn.Linear(2, 2)
        mask = self.mapped(mmap.ACCESS_COPY).fill_(float("-inf"))
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(mask.view(torch.uint8).flatten().tolist()))
            file.flush()
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            model.register_buffer("mask", torch.frombuffer(content, dtype=torch.float32).view(32, 32))
        self.assertNotIn("average:mask", enter(model).tensors)

    def test_a_buffer_there_of_one_rank_is_told_to_all(self):
        class Other(Solo):
            """Rank 0, where rank 1 has such a buffer and this one has not."""
            told = "the buffer mean lies in memory that can only be read"

            def gather(self, value):
                return [value, self.told if value is None or isinstance(value, str) else value]

        model = torch.nn.Linear(2, 2)
        model.register_buffer("mean", torch.zeros(2))
        with self.assertRaisesRegex(ValueError, "the buffer mean lies in memory"):
            Buffers(model, Other(), "average", str)

    def test_names_of_mapped_files_may_hold_any_character(self):
        """Such as those that end a line of a text, but not one of the system's table."""
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(32, 32))
        for strange in ("a\x0cb", "a\x1cb 1 2 3 4 5", "a\u2028b"):
            with tempfile.NamedTemporaryFile(suffix=strange) as file:
                file.write(bytes(BYTES))
                file.flush()
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                model[1].weight.data = torch.frombuffer(content, dtype=torch.float32).view(32, 32)
                with self.assertRaisesRegex(ValueError, "the parameter 1.weight lies in memory that can only be read"):
                    enter(model)

    def test_what_is_frozen_there_is_not_and_what_becomes_a_copy_when_it_is_written_to(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(32, 32))
        model[1].weight.data = self.mapped(mmap.ACCESS_READ)
        model[1].requires_grad_(False)
        enter(model)
        model[1].requires_grad_(True)
        model[1].weight.data = self.mapped(mmap.ACCESS_COPY)
        enter(model)

    def test_weights_that_pytorch_maps_are_taken(self):
        """It maps them so that a write makes a copy: the file stays."""
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "weights.pt"
            model = torch.nn.Linear(300, 300)
            torch.save(model.state_dict(), path)
            before = path.read_bytes()
            other = torch.nn.Linear(300, 300)
            other.load_state_dict(torch.load(path, mmap=True), assign=True)
            with a_run(steps(0, 1, 0, 0)) as (worker, region), Run(other, directory=region) as run:
                for step in run:
                    worker.tensors["weight"].fill_(3.0)
            self.assertEqual(other.weight.unique().tolist(), [3.0])
            self.assertEqual(path.read_bytes(), before)


@unittest.skipUnless(pathlib.Path("/proc/self/maps").exists(), "no /proc/self/maps")
class OfSeveralRanks(unittest.TestCase):
    def test_one_memory_is_refused_and_copies_are_not(self):
        def told(model):
            return shared_places(model.named_parameters())

        def in_another_process(model):
            given = multiprocessing.get_context("fork").SimpleQueue()
            child = multiprocessing.get_context("fork").Process(target=lambda: given.put((told(model), told(copy.deepcopy(model)))))
            child.start()
            child.join()
            return given.get()

        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        self.assertEqual(told(model), {})
        model[1].share_memory()
        same, copied = in_another_process(model)
        self.assertEqual(set(same), {"1.weight", "1.bias"})
        self.assertIsNone(problem_of_ranks([told(model)]))
        self.assertIsNone(problem_of_ranks([told(model), copied]))
        self.assertRegex(problem_of_ranks([told(model), copied, same]), r"ranks 0 and 2 of this region hold the parameter 1\.(weight|bias) in the "
                                                                        "same memory.*copy.deepcopy")


LINES = """\
{begin:x}-{end:x} rw-s 00000000 00:05 {inode} {file}

a line of another kernel
"""


class Table(unittest.TestCase):
    """What is read of the system's table, and of its name for the host."""

    def told(self, file, inode=7, **patched):
        tensor = torch.ones(4)
        with tempfile.TemporaryDirectory() as directory:
            maps, boot = (pathlib.Path(directory) / name for name in ("maps", "boot"))
            maps.write_text(LINES.format(begin=tensor.data_ptr(), end=tensor.data_ptr() + 64, file=file, inode=inode))
            boot.write_text("this host")
            with unittest.mock.patch.multiple(memory, MAPS=maps, BOOT=patched.get("boot", boot)):
                return shared_places([("weight", patched.get("tensor", tensor))])

    def test_a_line_that_is_no_mapping_is_skipped(self):
        self.assertEqual(self.told("/dev/shm/torch_1"), {"weight": "this host 00:05 7 0"})
        self.assertEqual(self.told("/dev/zero (deleted)"), {"weight": "this host 00:05 7 0"})

    def test_a_device_has_one_number_for_all_memory_of_all_processes(self):
        for file in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128"):
            self.assertEqual(self.told(file), {})

    def test_a_host_without_a_name_has_no_memory_that_could_be_compared(self):
        self.assertEqual(self.told("/dev/shm/torch_1", boot=pathlib.Path("/there/is/none")), {})

    def test_its_name_is_read_once(self):
        class Boot:
            read = 0

            def read_text(self, **how):
                self.read += 1
                return "this host"

        flat, boot = torch.ones(4), Boot()
        self.assertEqual(len(self.shared([("a", flat[:2]), ("b", flat[2:])], boot)), 2)
        self.assertEqual(boot.read, 1)
        self.assertEqual(shared_places([("a", flat)]), {})
        self.assertEqual(boot.read, 1)

    def shared(self, named, boot):
        begin = named[0][1].data_ptr()
        area = memory.Area(begin, begin + 16, "rw-s", "00:05 7", "/dev/shm/torch_1", 0)
        with unittest.mock.patch.object(memory, "BOOT", boot), unittest.mock.patch.object(memory, "mapped", lambda: [area]):
            return shared_places(named)

    def test_memory_that_cuda_pins_is_of_this_process(self):
        class Pinned(torch.Tensor):
            def is_pinned(self, *_):
                return True

            def detach(self):
                return self

        self.assertEqual(self.shared([("weight", torch.ones(4).as_subclass(Pinned))], memory.BOOT), {})


if __name__ == "__main__":
    unittest.main()
