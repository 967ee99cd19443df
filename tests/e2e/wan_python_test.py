"""`causeway.wan.Wan`: the relay as a block of a Python test."""
import importlib.util
import os
import pathlib
import unittest

from harness import CAUSEWAY, free_port, processes
from wan_test import SCENARIO, Echo, WanCase

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "python" / "causeway" / "wan.py"


def load_module():
    """The file alone: it needs nothing of the package."""
    spec = importlib.util.spec_from_file_location("wan", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class WanPython(WanCase):
    def setUp(self):
        super().setUp()
        self.module = load_module()
        self.server = self.enterContext(Echo())
        self.maps = {("us", "eu"): f"127.0.0.1:{self.server.port}"}

    def wan(self, scenario=SCENARIO, **more):
        return self.module.Wan(scenario, **{"maps": self.maps, "program": CAUSEWAY, **more})

    def test_a_block_has_a_wan_and_leaves_nothing(self):
        with self.wan() as wan:
            pid = processes("wan-sim", "--map", f"us:eu=127.0.0.1:{self.server.port}")
            self.assertEqual(self.echoed(*wan.address("us", "eu")), b"hello")
            self.assertEqual(wan.link("us", "eu")["connections"], 1)
            self.assertIn("valid", wan.verdict())
        self.assertEqual(len(pid), 1)
        self.assertEqual(processes("wan-sim", "--map", f"us:eu=127.0.0.1:{self.server.port}"), [])

    def test_it_cuts_heals_pauses_and_changes(self):
        with self.wan() as wan:
            address = wan.address("us", "eu")
            wan.cut("eu", "us")
            with self.assertRaises(ConnectionResetError):
                self.echoed(*address)
            wan.heal("eu", "us")
            self.assertEqual(self.echoed(*address), b"hello")
            wan.change("eu", "us", rate_mbit_s=3)
            self.assertEqual(wan.link("eu", "us")["rate_mbit_s"], 3)
            wan.command('link = ["us", "eu"], delay_ms = 9')
            wan.command({"link": ["eu", "us"], "delay_ms": 8})
            self.assertEqual([wan.link(*pair)["delay_ms"] for pair in (("us", "eu"), ("eu", "us"))], [9, 8])
            wan.pause("eu", "us", 0.01)
            self.assertEqual(self.echoed(*address), b"hello")

    def test_a_file_a_port_of_ones_own_and_a_recording(self):
        port = free_port()
        record = self.directory / "events.jsonl"
        maps = {("us", "eu"): f"127.0.0.1:{self.server.port},listen=127.0.0.1:{port}"}
        with self.wan(self.directory / "wan.toml", maps=maps, record=record) as wan:
            self.assertEqual(wan.address("us", "eu"), ("127.0.0.1", port))
            wan.cut("eu", "us", for_s=0.01)
        self.assertIn("refuse", record.read_text())

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(self.module.WanError, "unknown key"):
            self.wan(SCENARIO + "spede = 3\n").__enter__()
        with self.assertRaisesRegex(self.module.WanError, "no link from"):
            self.wan(maps={("us", "mars"): "127.0.0.1:1"}).__enter__()
        with self.wan() as wan:
            with self.assertRaisesRegex(self.module.WanError, "mars"):
                wan.cut("eu", "mars")
            with self.assertRaises(KeyError):
                wan.address("eu", "us")

    def test_a_proxy_of_the_environment_is_not_asked(self):
        os.environ["http_proxy"] = "http://127.0.0.1:1"
        self.addCleanup(os.environ.pop, "http_proxy")
        with self.wan() as wan:
            self.assertEqual(len(wan.links()), 2)


if __name__ == "__main__":
    unittest.main()
