"""What shows that a tensor was written to: counts of writes, and a sample of its values, which `.data` does not get around."""
import unittest

import torch

from torch.utils._python_dispatch import TorchDispatchMode

from causeway.torch.marks import SAMPLED, HandedOut, sample_of, writes_to


class Operations(TorchDispatchMode):
    """Counts them."""
    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        self.count += 1
        return function(*arguments, **(settings or {}))


class Samples(unittest.TestCase):
    def test_of_every_type_are_others_after_a_write_to_data(self):
        types = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int64, torch.bool, torch.complex64,
                 torch.complex128, torch.float8_e4m3fn)
        for dtype in types:
            for shape in ((), (3,), (2, 3), (3, 2 * SAMPLED)):
                tensor = torch.zeros(shape, dtype=dtype)
                before, writes = sample_of(tensor), writes_to(tensor)
                tensor.data.fill_(1)
                self.assertNotEqual(sample_of(tensor), before, (dtype, shape))
                self.assertEqual(writes_to(tensor), writes)

    def test_one_element_of_a_small_one_counts_and_a_copy_elsewhere_does_not(self):
        tensor = torch.randn(100, 100).t()
        before = sample_of(tensor)
        self.assertEqual(sample_of(tensor.contiguous()), sample_of(tensor.clone()))
        tensor.data[3, 5] += 1
        self.assertNotEqual(sample_of(tensor), before)
        tensor.data[3, 5] -= 1
        tensor.data.neg_()
        self.assertNotEqual(sample_of(tensor), before)

    def test_what_has_no_values_has_none(self):
        self.assertEqual(sample_of(torch.zeros(0, 3)), [])
        self.assertEqual(sample_of(torch.zeros(3, device="meta")), [])


class EveryStep(unittest.TestCase):
    def test_costs_no_operations_for_each_parameter(self):
        counts = []
        for size in (1, 100):
            parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(size)]
            with Operations() as operations:
                self.assertFalse(HandedOut(parameters).is_trained())
            counts.append(operations.count)
        self.assertEqual(counts[0], counts[1])

    def test_shows_writes_and_moves_of_any_parameter(self):
        def write(p):
            with torch.no_grad():
                p.add_(1)

        for change in (write, lambda p: setattr(p, "data", p.data.clone())):
            for at in range(3):
                parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(3)]
                handed_out = HandedOut(parameters)
                change(parameters[at])
                self.assertTrue(handed_out.is_trained())


if __name__ == "__main__":
    unittest.main()
