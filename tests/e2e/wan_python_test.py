"""`causeway.wan.Wan`: the relay, or the packet engine, as a block of a Python test."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import CAUSEWAY, free_port, namespaces_allowed, processes, wait_until
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
            with self.assertRaises(OSError):  # a reset, which the shutdown before may meet as well
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


@unittest.skipUnless(namespaces_allowed(), "needs root or user namespaces")
class WanPythonPacket(WanCase):
    """Programs of two regions with a kernel's TCP each."""
    SERVE = """
import socket
with socket.create_server(("0.0.0.0", 7000)) as listener:
    print("listens", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(connection.recv(100))
"""
    ASK = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])) as connection:
    connection.sendall(b"hello")
    print(connection.recv(100).decode())
"""

    def setUp(self):
        super().setUp()
        self.module = load_module()

    def ask(self, wan, patience_s=60):
        return subprocess.run([*wan.inside("us"), sys.executable, "-c", self.ASK, wan.host("eu"), str(patience_s)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)

    def test_it_cuts_heals_changes_and_writes_packets(self):
        packets = self.directory / "packets"
        with self.module.Wan(SCENARIO, engine="packet", program=CAUSEWAY, pcap=packets) as wan, \
                subprocess.Popen([*wan.inside("eu"), sys.executable, "-c", self.SERVE], stdout=subprocess.PIPE, text=True) as server:
            try:
                self.assertEqual(server.stdout.readline(), "listens\n")
                self.assertEqual(self.ask(wan).stdout, "hello\n")
                self.assertGreater(wan.link("us", "eu")["datagrams"], 0)
                wan.cut("eu", "us")
                wan.capture(False)
                self.assertIn("TimeoutError", self.ask(wan, 0.2).stderr, "a cut cable says nothing")
                self.assertGreater(wan.link("us", "eu")["datagrams_lost"], 0)
                wan.heal("eu", "us")
                self.assertEqual(self.ask(wan).stdout, "hello\n")
                wan.change("eu", "us", loss=0.25)
                self.assertEqual(wan.link("eu", "us")["loss"], 0.25)
                self.assertIn("valid", wan.verdict())
            finally:
                server.kill()
        self.assertEqual(sorted(path.name for path in packets.iterdir()), ["eu_to_us.pcapng", "us_to_eu.pcapng"], "not those of the cut")

    def test_what_is_wrong_is_said(self):
        with self.assertRaisesRegex(self.module.WanError, "--map: works only with --engine relay"):
            self.module.Wan(SCENARIO, {("us", "eu"): "127.0.0.1:1"}, engine="packet", program=CAUSEWAY).__enter__()
        with self.module.Wan(SCENARIO, engine="packet", program=CAUSEWAY) as wan:
            with self.assertRaises(KeyError):
                wan.inside("mars")
            with self.assertRaisesRegex(self.module.WanError, "start wan-sim with --engine packet and --pcap"):
                wan.capture(True)
        with self.module.Wan(SCENARIO, {("us", "eu"): "127.0.0.1:1"}, program=CAUSEWAY) as wan:
            with self.assertRaisesRegex(self.module.WanError, "the relay has no networks of regions"):
                wan.inside("eu")


class WanExample(WanCase):
    EXAMPLE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "examples" / "redis"

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_a_redis_replica_comes_back_after_a_cut(self):
        package = self.directory / "packages" / "causeway"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        shutil.copy(SOURCE, package)
        said = self.finish(self.start_program(sys.executable, self.EXAMPLE / "replication.py", CAUSEWAY,
                                              env={"PYTHONPATH": str(package.parent)}))
        far, cut = (float(re.search(rf"{line} +([0-9.]+) s", said).group(1)) for line in ("with 500 ms", "with a cut of 3 s"))
        self.assertGreaterEqual(far, 0.5)
        self.assertGreaterEqual(cut, 2.9, "the cut was there")

    def try_command(self, file, instead):
        """The relay's command line of a container, with addresses of this host."""
        words = json.loads(re.search(r"(\[\"wan-sim.*\])", (self.EXAMPLE / file).read_text()).group(1))
        for there, here in instead.items():
            words = [word.replace(there, here) for word in words]
        child = self.start(words[0], self.EXAMPLE / "wan.toml", *words[2:])
        wait_until(lambda: "Ctrl-C ends it" in child.log.read_text(), "wan-sim to listen", child)
        port = int(re.search(r"dial 127\.0\.0\.1:(\d+)", child.log.read_text()).group(1))
        self.assertEqual(self.echoed("127.0.0.1", port), b"hello")

    def test_the_containers_commands_are_understood(self):
        with Echo() as server:
            here = {"primary:6379": f"127.0.0.1:{server.port}", "0.0.0.0:7070": "127.0.0.1:0"}
            self.try_command("compose.yaml", {**here, "0.0.0.0:6379": "127.0.0.1:0"})
            self.try_command("pod.yaml", {**here, "127.0.0.1:7001": "127.0.0.1:0"})

    def test_the_pod_has_the_same_scenario(self):
        lines = [line.strip() for line in (self.EXAMPLE / "pod.yaml").read_text().splitlines()]
        for line in (self.EXAMPLE / "wan.toml").read_text().splitlines()[1:]:  # below its comment
            self.assertIn(line, lines)


if __name__ == "__main__":
    unittest.main()
