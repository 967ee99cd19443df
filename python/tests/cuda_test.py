"""What a model on a GPU exchanges: the copies between the device and the host, and who waits for them. On a double of the device
(cuda_double.py), because tests have none."""
import unittest

import torch
from causeway.torch.parameters import Parameters
from causeway.torch.ranks import Solo
from cuda_double import CudaDouble


class Cuda(unittest.TestCase):
    dtype = torch.float32

    def setUp(self):
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.BatchNorm1d(7), torch.nn.Linear(7, 3)).to(self.dtype)
        self.values = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        self.double = CudaDouble()
        for tensor in self.model.state_dict().values():
            self.double.place(tensor)
        self.enterContext(self.double)
        self.parameters = Parameters(self.model, [], Solo(), 1, "average")

    def streams(self):
        return [staging.stream for staging in self.parameters.stagings]

    def test_the_parameters_are_on_the_device_and_their_copies_are_the_workers(self):
        for p in self.model.parameters():
            self.assertEqual(p.device.type, "cuda")
        self.assertEqual(len(self.streams()), 1)
        for name, value in self.values.items():
            host = self.parameters.hosts()[name]
            self.assertEqual(host.device.type, "cpu")
            self.assertTrue(torch.equal(host, value.float()), name)

    def test_what_was_trained_has_arrived_when_it_is_taken(self):
        with torch.no_grad():
            for p in self.model.parameters():
                p.add_(1)
        self.parameters.take()
        for name, p in self.model.named_parameters():
            self.assertTrue(torch.equal(self.parameters.hosts()[name].to(self.dtype), p.detach()), name)

    def test_what_is_given_has_arrived_and_the_worker_may_write_the_next_at_once(self):
        for number in (1, 2):
            wanted = {name: torch.full_like(value, float(number)) for name, value in self.values.items()}
            for name, value in wanted.items():
                self.parameters.hosts()[name].copy_(value)
            self.parameters.give(number)
            self.assertEqual([stream.waiting for stream in self.streams()], [[]], "copies from memory that the worker writes")
            for host in self.parameters.own_hosts().values():
                host.fill_(float("nan"))
            for name, p in self.model.named_parameters():
                self.assertTrue(torch.equal(p.detach(), wanted[name]), name)


class CudaBfloat16(Cuda):
    dtype = torch.bfloat16


if __name__ == "__main__":
    unittest.main()
