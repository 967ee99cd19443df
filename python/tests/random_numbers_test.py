"""Random numbers of devices, as they are kept for a restart."""
import contextlib
import unittest
import unittest.mock

import torch

from causeway.torch import random_numbers


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


if __name__ == "__main__":
    unittest.main()
