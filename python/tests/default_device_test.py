"""torch.set_default_device("cuda"), usual in scripts: what Causeway has on the host stays there. Here it is "meta", which no test lacks."""
import unittest

import torch
from worker_double import a_run, steps

from causeway.torch import Run
from causeway.torch.data import Samples
from causeway.torch.ranks import Solo
from causeway.torch.rounding import stochastic
from causeway.torch.stages import Stages


class OnTheHost(unittest.TestCase):
    def setUp(self):
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2, dtype=torch.bfloat16))
        self.values = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.addCleanup(torch.set_default_device, None)
        torch.set_default_device("meta")

    def test_a_run_takes_and_gives_the_values(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        with a_run(steps(0, 1, 0, 0), steps(1, 1, 1, 1)) as (worker, directory):
            with Run(self.model, optimizer, directory=directory, save_rounds=1) as run:
                self.assertEqual({host.device.type for host in worker.tensors.values()}, {"cpu"})
                for step in run:
                    run.report(1.0)
        for name, value in self.model.state_dict().items():
            self.assertTrue(torch.equal(value, self.values[name]), name)

    def test_so_do_what_rounds_what_is_sent_and_what_orders_the_data(self):
        self.assertEqual(stochastic(torch.ones(3, device="cpu"), torch.bfloat16, 1).tolist(), [1, 1, 1])
        sent = Stages(Solo(), [[], [("w", (2,), "float32")]], ["w"]).received["w"]
        self.assertEqual(sent.device.type, "cpu")
        at = type("At", (), {"step": steps(0, 1, 0, 0)})
        at.step.sample = 0
        self.assertEqual(sorted(Samples(at, 8, 2)), list(range(8)))


if __name__ == "__main__":
    unittest.main()
