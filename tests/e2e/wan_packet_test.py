"""The packet engine as a running WAN: what passes it, what it is told, and the packets that it writes down."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

from harness import CAUSEWAY, namespaces_allowed, wait_until
from wan_http_case import HttpCase

DELAY_NS = 20_000_000
SCENARIO = 'regions = ["eu", "us"]\nseed = 3\n[defaults]\nrtt_ms = 40\nrate_mbit_s = 100\n'
PORT = 7000  # nobody else is in these networks
HEADER_BYTES = 28  # of IPv4 and UDP

# Numbered datagrams as fast as they go; prints when each was sent.
SEND = """
import json, socket, sys, time
host, port, count, size = sys.argv[1], *map(int, sys.argv[2:])
sent = []
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    for number in range(count):
        sent.append(time.monotonic_ns())
        out.sendto(number.to_bytes(4, "big") + bytes(size - 4), (host, port))
print(json.dumps(sent))
"""
# Those that come, until they are as many as a line of standard input says; prints [number, when it came].
RECEIVE = """
import contextlib, json, selectors, socket, sys, time
SO_RCVBUFFORCE = 33
inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
with contextlib.suppress(PermissionError):  # root of a user namespace alone is not enough
    inbox.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
inbox.bind(("0.0.0.0", int(sys.argv[1])))
print("ready", flush=True)
ready = selectors.DefaultSelector()
ready.register(inbox, selectors.EVENT_READ)
ready.register(sys.stdin, selectors.EVENT_READ)
got, wanted = [], None
while wanted is None or len(got) < wanted:
    for key, _ in ready.select():
        if key.fileobj is inbox:
            data = inbox.recv(65536)
            got.append([int.from_bytes(data[:4], "big"), time.monotonic_ns()])
        else:
            wanted = int(sys.stdin.readline())
            ready.unregister(sys.stdin)
print(json.dumps(got))
"""


HAS_READERS = shutil.which("tshark") and shutil.which("tcpdump")


@unittest.skipUnless(namespaces_allowed(), "needs root or user namespaces")
class PacketCase(HttpCase):
    CAPTURES = True

    def setUp(self):
        super().setUp()
        self.scenario(SCENARIO)
        self.packets = self.directory / "packets"

    def scenario(self, text):
        (self.directory / "wan.toml").write_text(text)

    def start_packet(self, *flags):
        return self.start_http("--engine", "packet", "--unnamed", *flags)

    def inside(self, region):
        regions = {one["region"]: one for one in self.ask("/regions")["regions"]}
        return shlex.split(regions[region]["enter"])

    def host(self, region):
        return next(one["address"] for one in self.ask("/regions")["regions"] if one["region"] == region)

    def decided(self, link):
        return sum(link[f"datagrams{what}"] for what in ("", "_lost", "_dropped", "_missed"))

    @contextlib.contextmanager
    def receiver(self):
        with subprocess.Popen([*self.inside("us"), sys.executable, "-c", RECEIVE, str(PORT)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as receiver:
            self.assertEqual(receiver.stdout.readline(), "ready\n")
            try:
                yield receiver
            finally:
                receiver.kill()

    def send(self, count, size=100):
        """From eu to us: when each was sent, the number and time of each that came, and the link's figures of them."""
        before = self.link("eu", "us")
        with self.receiver() as receiver:
            sent = json.loads(subprocess.run([*self.inside("eu"), sys.executable, "-c", SEND, self.host("us"), str(PORT), str(count),
                                              str(size)], stdout=subprocess.PIPE, check=True).stdout)

            def now():
                link = self.link("eu", "us")
                return {key: value - before[key] for key, value in link.items() if key.startswith("datagrams")}

            wait_until(lambda: self.decided(now()) >= count, "the engine to decide", self.child)
            link = now()
            self.assertEqual(self.decided(link), count, link)
            got = json.loads(receiver.communicate(f"{link['datagrams']}\n")[0])
        self.assertEqual(len(got), link["datagrams"])
        return sent, got, link

    def read(self, name, *fields):
        """A file of packets as tshark sees it: the fields of each."""
        if not HAS_READERS:
            self.skipTest("tcpdump and tshark are not here: ./check installs them")
        words = [word for field in fields for word in ("-e", field)]
        told = subprocess.run(["tshark", "-r", self.packets / name, "-d", f"udp.port=={PORT},data", "-T", "fields", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        return [line.split("\t") for line in told.splitlines()]

    def stop(self):
        """Ctrl-C, and what it printed at its end."""
        self.child.terminate()
        return self.finish(self.child, 130)


def number_in(payload):
    return int(payload[:8], 16)


class PacketHttp(PacketCase):
    def test_each_path_answers_as_the_document_says(self):
        self.start_packet("--pcap", self.packets)
        self.check_document()

    def test_what_cannot_be_done_is_answered_with_the_reason(self):
        self.start_packet()
        self.check_refusals(({"fault": "reset"}, "the packet engine cannot honour reset; engines that can: relay"),
                            ({"fault": "slow-close", "close_ms": 3}, "cannot honour slow-close"))
        self.assertIn("start wan-sim with --engine packet and --pcap", self.open("/capture", b'{"on": true}')[2])

    def test_the_command_line_drives_it(self):
        self.start_packet("--control", self.directory / "control")
        self.check_command_line()
        tell = ("wan-sim", "--tell", self.directory / "control", "--command")
        self.assertEqual(self.run_causeway(*tell, 'link = ["eu", "us"], loss = 0.25'), "ok\n")
        self.assertEqual(self.link("eu", "us")["loss"], 0.25)
        self.assertEqual(set(json.loads(self.run_causeway(*tell, "stats"))), {"eu:us", "us:eu"})

    def test_a_cut_link_carries_nothing_until_it_is_healed(self):
        self.start_packet()
        self.ask("/cut", {"pair": ["eu", "us"]})
        self.assertTrue(self.link("eu", "us")["black_hole"])
        self.assertTrue(self.link("us", "eu")["black_hole"])
        self.assertEqual(self.send(10)[2]["datagrams_lost"], 10)
        self.ask("/heal", {})
        self.assertEqual(self.send(10)[2]["datagrams"], 10)

    def test_a_pause_delays_what_is_sent(self):
        self.start_packet()
        begin = time.monotonic_ns()
        self.ask("/pause", {"link": ["eu", "us"], "for_s": 1.5})
        for _, came in self.send(3)[1]:
            self.assertGreaterEqual(came - begin, 1_500_000_000 + DELAY_NS)

    def test_the_timeline_and_its_end_are_shown(self):
        self.scenario(SCENARIO + '[[event]]\nat_s = 0.1\nfor_s = 0.4\nlink = ["eu", "us"]\nrate_mbit_s = 7\n')
        self.start_packet("--record", self.directory / "events.jsonl")
        wait_until(lambda: '"acted","text":"end of: ' in (self.directory / "events.jsonl").read_text(), "the event to end", self.child)
        self.assertEqual(self.link("eu", "us")["rate_mbit_s"], 100)
        self.ask("/command", {"link": ["us", "eu"], "reorder": 0.5})
        self.stop()
        events = [json.loads(line) for line in (self.directory / "events.jsonl").read_text().splitlines()[1:]]
        self.assertEqual([event["event"] for event in events if event["event"] != "figures"],
                         ["acted", "acted", "commanded", "acted", "verdict"])
        said = self.run_causeway("wan-sim", "--replay", self.directory / "events.jsonl", "--map", "eu:us=127.0.0.1:1", code=2)
        self.assertIn("events.jsonl:4: the relay engine cannot honour reorder", said)

    def test_figures_for_prometheus(self):
        self.start_packet()
        self.send(5)
        text = self.open("/metrics")[2]
        self.assertIn('causeway_wan_datagrams_total{from="eu",to="us"} 5', text)
        self.assertIn('causeway_wan_rate_bytes_per_second{from="eu",to="us"} 12500000', text)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "becomes another user")
    def test_without_root_too(self):
        """In a user namespace the process has a network of its own; its port is in the one where the user is."""
        nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
        for path in (self.directory, *pathlib.Path(CAUSEWAY).parents):
            if path.stat().st_mode & 0o005 != 0o005 and path != self.directory:
                self.skipTest(f"{path} is not for everybody")
        self.directory.chmod(0o777)
        self.child = self.start_program(*nobody, CAUSEWAY, "wan-sim", self.directory / "wan.toml", "--engine", "packet",
                                        "--http", "0", "--pcap", self.packets)
        wait_until(lambda: "Ctrl-C ends it" in self.child.log.read_text(), "wan-sim to listen", self.child)
        self.url = re.search(r"^(http://127\.0\.0\.1:\d+)", self.child.log.read_text(), flags=re.M).group(1)
        self.assertEqual(self.send(20)[2]["datagrams"], 20)
        self.ask("/command", {"pair": ["eu", "us"], "delay_ms": 1})
        self.assertEqual(self.link("us", "eu")["delay_ms"], 1)
        self.stop()
        self.assertEqual(len(self.read("eu_to_us.pcapng", "frame.number")), 20)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give names")
    def test_two_without_names_run_side_by_side(self):
        self.start_packet()
        first = self.url
        self.start_packet()
        self.assertEqual(self.send(3)[2]["datagrams"], 3)
        self.url = first
        self.assertEqual(self.send(4)[2]["datagrams"], 4)


class PacketUdp(PacketCase):
    def test_each_datagram_is_delayed_and_some_are_lost_the_same_each_time(self):
        self.scenario(SCENARIO + "loss = 0.1\n")
        lost_before = None
        for _ in range(2):
            self.start_packet()
            sent, got, link = self.send(2000)
            for number, came in got:
                self.assertGreaterEqual(came - sent[number], DELAY_NS)
            numbers = [number for number, _ in got]
            self.assertEqual(numbers, sorted(set(numbers)), "in order, and each once")
            lost = set(range(2000)) - set(numbers)
            self.assertEqual(len(lost), link["datagrams_lost"])
            self.assertTrue(133 <= len(lost) <= 267, "200, and five times its standard deviation")
            self.assertIn(lost_before, (None, lost), "chance is the seed's")
            lost_before = lost
            self.stop()

    def test_the_rate_is_the_links(self):
        """By the times at which the engine says that they left the link, to the nanosecond."""
        self.scenario(SCENARIO + '[[link]]\na = "eu"\nb = "us"\nrate_mbit_s = 1\n')
        self.start_packet("--pcap", self.packets)
        _, got, _ = self.send(40, 1000)
        self.stop()
        self.assertEqual(len(got), 40)
        if not HAS_READERS:
            self.skipTest("tcpdump and tshark are not here: ./check installs them")
        takes = (1000 + HEADER_BYTES) * 1448 / 1500 * 8 / 1e6 * 1e9
        told = subprocess.run(["tcpdump", "-tt", "--time-stamp-precision=nano", "-nr", self.packets / "eu_to_us.pcapng"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        times = [int(line.split(" ")[0].replace(".", "")) for line in told.splitlines()]
        self.assertEqual(len(times), 40)
        gaps = [later - earlier for earlier, later in zip(times, times[1:])]
        self.assertGreater(min(gaps), takes - 2, "never faster")
        # All 40 are sent at once. On a busy host the engine may take some of them late, when the link has nothing to do.
        exact = sum(gap < takes + 2 for gap in gaps)
        self.assertGreater(exact, 20, f"nor slower: {gaps}")

    def test_a_full_queue_drops(self):
        self.scenario(SCENARIO + '[[link]]\na = "eu"\nb = "us"\nrate_mbit_s = 2\nqueue_kib = 64\n')
        self.start_packet("--pcap", self.packets)
        _, got, link = self.send(500, 1000)
        self.stop()
        self.assertGreater(link["datagrams_dropped"], 0)
        self.assertEqual((link["datagrams_lost"], link["datagrams_dropped"]), (0, 500 - len(got)))
        self.assertEqual({tuple(row) for row in self.read("eu_to_us.lost.pcapng", "frame.comment")}, {("dropped: the queue was full",)})


class PacketFiles(PacketCase):
    def test_the_files_hold_what_arrived_and_what_did_not(self):
        self.scenario(SCENARIO + "loss = 0.1\n")
        self.start_packet("--pcap", self.packets)
        _, got, link = self.send(1000)
        self.assertEqual({key: self.ask("/capture")[key] for key in ("on", "arrived", "lost", "left_out", "problem")},
                         {"on": True, "arrived": len(got), "lost": link["datagrams_lost"], "left_out": 0, "problem": ""})
        said = self.stop()
        self.assertIn(f"{self.packets}  {len(got)} packets that arrived, {link['datagrams_lost']} lost ones, ", said)
        arrived = self.read("eu_to_us.pcapng", "udp.payload", "frame.comment", "frame.interface_name", "ip.dst", "frame.time_epoch")
        self.assertEqual([number_in(row[0]) for row in arrived], [number for number, _ in got])
        self.assertEqual({tuple(row[1:4]) for row in arrived}, {("", "eu:us", "198.18.0.2")})
        times = [row[4] for row in arrived]
        self.assertEqual(times, sorted(times))
        lost = self.read("eu_to_us.lost.pcapng", "udp.payload", "frame.comment")
        self.assertEqual({number_in(row[0]) for row in lost}, set(range(1000)) - {number for number, _ in got})
        self.assertEqual({row[1] for row in lost}, {"lost by chance"})
        self.assertEqual(sorted(path.name for path in self.packets.iterdir()), ["eu_to_us.lost.pcapng", "eu_to_us.pcapng"],
                         "a link that carried nothing has no file")

    def test_they_are_bounded_and_the_wan_goes_on(self):
        self.scenario(SCENARIO + "queue_kib = 65536\n")
        self.start_packet("--pcap", self.packets, "--pcap-mb", "1", "--pcap-snap", "500")
        self.assertEqual(self.send(3000, 1000)[2]["datagrams"], 3000)
        capture = self.ask("/capture")
        self.assertIn("has its 1 MB of packets; give a larger --pcap-mb", capture["problem"])
        self.assertEqual(capture["arrived"] + capture["left_out"], 3000)
        self.assertIn("No more packets are written; the WAN goes on", self.child.log.read_text())
        self.stop()
        size = (self.packets / "eu_to_us.pcapng").stat().st_size
        self.assertEqual(size, capture["bytes"])
        self.assertTrue(990_000 < size <= 1_000_000, size)
        rows = self.read("eu_to_us.pcapng", "frame.cap_len", "frame.len")
        self.assertEqual({tuple(row) for row in rows}, {("500", "1028")})
        self.assertEqual(len(rows), capture["arrived"])

    def test_a_full_disk_ends_the_files_and_not_the_wan(self):
        self.start_packet("--pcap", self.packets)
        (self.packets / "eu_to_us.pcapng").symlink_to("/dev/full")
        self.assertEqual(self.send(100)[2]["datagrams"], 100)
        wait_until(lambda: self.ask("/capture")["problem"], "the disk to be full", self.child)
        self.assertIn("eu_to_us.pcapng: No space left on device", self.ask("/capture")["problem"])
        self.assertEqual(self.send(100)[2]["datagrams"], 100)
        capture = self.ask("/capture")
        self.assertEqual((capture["arrived"], capture["left_out"], capture["bytes"]), (0, 200, 0))
        self.assertEqual(self.child.log.read_text().count("No space left on device"), 1)

    def test_they_begin_and_stop_when_told(self):
        self.start_packet("--pcap", self.packets, "--pcap-off")
        self.send(10)
        self.assertFalse(self.ask("/capture")["on"])
        self.ask("/capture", {"on": True})
        self.send(20)
        self.ask("/capture", {"on": False})
        self.send(30)
        self.stop()
        self.assertEqual(len(self.read("eu_to_us.pcapng", "frame.number")), 20)

    def test_a_directory_that_cannot_be_and_an_engine_without_packets_are_refused(self):
        said = self.run_causeway("wan-sim", self.directory / "wan.toml", "--engine", "packet", "--pcap", "/proc/none", code=2)
        self.assertIn("/proc/none", said)
        said = self.run_causeway("wan-sim", self.directory / "wan.toml", "--map", "eu:us=127.0.0.1:1", "--pcap", self.packets, code=2)
        self.assertIn("--pcap: works only with --engine packet, not with --engine relay", said)


if __name__ == "__main__":
    unittest.main()
