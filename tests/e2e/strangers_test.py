"""Certificates that end, and what a stranger meets at the door of a run started by hand."""
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest

import lying_member
from harness import REGIONS, wait_until
from run_by_hand import RunByHand

sys.path.append(os.path.join(os.environ["CAUSEWAY_SOURCE"], "bench"))
import hellos  # noqa: E402


class Certificates(RunByHand):
    """They are renewed and revoked while a run goes on, and nobody restarts."""

    def participants(self):
        return [sorted(one["participants"]) for one in self.rounds_of("us-east")]

    def two_more_rounds_of(self, regions, coordinator):
        before = len(self.participants())
        wait_until(lambda: self.participants()[before:].count(sorted(regions)) >= 2,
                   f"two more rounds of {', '.join(regions)}", coordinator)

    def test_a_renewed_region_stays_and_a_revoked_one_is_dropped_and_refused(self):
        config = self.config(addresses=self.addresses, steps=5 * 4000)
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        founder, west = coordinators[:2]
        self.two_more_rounds_of(REGIONS, founder)

        self.run_causeway("certs", "--directory", "certificates", "renew", "eu-west")
        wait_until(lambda: "credentials were replaced" in west.log.read_text(), "the new certificate", west)
        self.two_more_rounds_of(REGIONS, founder)
        self.assertNotIn("eu-west is down", founder.log.read_text())

        self.run_causeway("certs", "--directory", "certificates", "revoke", "ap-northeast")
        wait_until(lambda: "(CN = ap-northeast) was refused: certificate revoked" in founder.log.read_text(),
                   "the revoked region to be refused", founder)
        self.assertIn("ap-northeast is down: the peer's certificate was revoked", founder.log.read_text())
        self.two_more_rounds_of(["eu-west", "us-east"], founder)
        self.assertNotIn("eu-west is down", founder.log.read_text())
        # It is told so by the others, and does not train on for ever.
        for child in (coordinators.pop(), workers.pop()):
            self.assertIn("certificate revoked (`causeway certs renew`", self.finish(child, code=3))
        members = ("members", "remove", "--directory", self.region_directory("us-east"), "ap-northeast")
        self.assertNotIn("ap-northeast", self.run_causeway(*members))
        self.two_more_rounds_of(["eu-west", "us-east"], founder)
        for child in coordinators + workers:
            child.send_signal(signal.SIGINT)
        for child in coordinators + workers:
            self.finish(child, code=130)


class Announced(RunByHand):
    """An address that nobody can dial is not announced."""

    def test_every_address_of_a_host_is_refused_with_what_to_set(self):
        config = self.config(addresses={**self.addresses, "us-east": "0.0.0.0:0"})
        output = self.run_causeway("coordinator", config, "--region", "us-east", "--found", code=2)
        self.assertIn("us-east would be announced at 0.0.0.0:0", output)
        self.assertIn("set its advertise", output)


class Strangers(RunByHand):
    """A run of three goes on and ends whatever knocks at a coordinator's port meanwhile."""

    def setUp(self):
        super().setUp()
        self.settings = dict(addresses=self.addresses, steps=20)

    def log_of(self, region):
        return self.logs_by_region.get(region, "")

    def run_with(self, knock):
        config = self.config(**self.settings)
        coordinators = self.start_coordinators(config)
        host, port = self.addresses["us-east"].split(":")

        def listening():
            with socket.socket() as probe:
                return probe.connect_ex((host, int(port))) == 0

        wait_until(listening, "the listening port", coordinators[0])
        knock(host, int(port), config)
        workers = self.start_workers(config, (1, 1, 1))
        output = self.finish(coordinators[0])
        self.finish_all(coordinators[1:] + workers)
        return output

    def test_plaintext_is_refused_with_a_clear_line(self):
        def knock(host, port, _):
            with socket.create_connection((host, port)) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                stranger.settimeout(60)
                while stranger.recv(4096):
                    pass

        self.assertRegex(self.run_with(knock), r"refused 127\.0\.0\.1:\d+.*TLS")

    def test_a_client_without_certificate_is_refused(self):
        def knock(host, port, _):
            subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3"], timeout=60,
                           input=b"hello\n", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        self.assertRegex(self.run_with(knock), r"refused 127\.0\.0\.1:\d+.*certificate")

    def test_a_region_with_certificates_of_another_authority_is_refused(self):
        def knock(host, port, _config):
            self.run_causeway("certs", "--directory", "foreign", "init")
            self.run_causeway("certs", "--directory", "foreign", "add-region", "ap-northeast")
            foreign = self.directory / "foreign" / "ap-northeast"
            subprocess.run(["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_3", "-cert",
                            f"{foreign}.crt", "-key", f"{foreign}.key"], timeout=60, input=b"hello\n",
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        self.assertRegex(self.run_with(knock), r"refused 127\.0\.0\.1:\d+.*certificate")

    def test_a_region_refuses_a_run_of_another_authority(self):
        def knock(_host, _port, config):
            self.run_causeway("certs", "--directory", "foreign", "init")
            self.run_causeway("certs", "--directory", "foreign", "add-region", "ap-northeast")
            stranger = self.start("coordinator", config, "--region", "ap-northeast", "--join", "--directory",
                                  self.directory / "stranger", "--certificates", "foreign", "--listen",
                                  "127.0.0.1:0", "--peer", f"us-east={self.addresses['us-east']}")
            wait_until(lambda: "certificate" in stranger.log.read_text(), "it to be told why", stranger)
            stranger.kill()

        self.run_with(knock)


class Hellos(RunByHand):
    """Hellos of strangers who never finish, at every coordinator's port, while three regions train."""

    def test_a_run_goes_on_and_its_log_stays_short(self):
        config = self.config(addresses=self.addresses, steps=20)
        coordinators = self.start_coordinators(config)
        ports = {region: int(address.rsplit(":", 1)[1]) for region, address in self.addresses.items()}
        for region, child in zip(REGIONS, coordinators):
            wait_until(lambda: (self.region_directory(region) / "listening_port").exists(), "its port", child)
        knockers = [hellos.Knocker("127.0.0.1", port, group, rate=100)
                    for port in ports.values() for group in ("x25519", "ffdhe8192")]
        threads = [threading.Thread(target=knocker.run, args=(600,)) for knocker in knockers]
        for thread in threads:
            thread.start()
        try:
            workers = self.start_workers(config, (1, 1, 1))
            outputs = [self.finish(child) for child in coordinators]
            self.finish_all(workers)
        finally:
            for knocker in knockers:
                knocker.ended.set()
            for thread in threads:
                thread.join()
        for knocker in knockers:
            answer = "server hello" if knocker.group == "x25519" else "alert"
            self.assertGreater(knocker.answers[answer], 0, knocker.answers)
            other = "alert" if knocker.group == "x25519" else "server hello"
            self.assertEqual(knocker.answers[other], 0, "finite fields are refused, X25519 is not")
        for output in outputs:
            self.assertLess(output.count(": refused "), 100)


class LyingMember(RunByHand):
    """One of three regions has a valid key and lies about everything; the other two finish the run."""

    def test_the_others_finish_and_name_it(self):
        config = self.config(addresses=self.addresses, steps=5 * 300)
        # How long the end waits for a member that nobody can reach, such as one that the liar added.
        config.write_text(config.read_text().replace("grace_min_s", "grace_max_s = 10\ngrace_min_s"))
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        events = self.region_directory("us-east") / "events.jsonl"
        wait_until(lambda: events.exists() and events.read_text().count('"ap-northeast"') >= 2,
                   "its vote and its first contributions", coordinators[0])
        liar = REGIONS.index("ap-northeast")
        for child in (coordinators.pop(liar), workers.pop(liar)):
            child.kill()
            child.wait()
        honest = [region for region in REGIONS if region != "ap-northeast"]
        liars = [lying_member.Liar("ap-northeast", honest, self.region_directory("ap-northeast"),
                                   self.directory / "certificates", self.addresses[region]) for region in honest]
        for one in liars:
            one.start()
        outputs = [self.finish(child) for child in coordinators]
        self.finish_all(workers)
        for one in liars:
            one.stopped.set()
            one.join()
        for one, output in zip(liars, outputs):
            self.assertGreater(one.sessions, 1, "it was heard again and again")
            self.assertEqual(len(one.said), 15)
            self.assertGreater(min(one.said.values()), 50, one.said)
            self.assertIn("ap-northeast is not listened to until it connects again", output)
        output = self.run_causeway("verify", *(self.region_directory(region) for region in honest),
                                   "--certificates", "certificates", code=4)
        self.assertEqual([line for line in output.splitlines() if line.startswith("MISSING")],
                         ["MISSING: the directory of ap-northeast, a member: nothing of it was read"])
        self.assertIn("NOT verified: nothing contradicts", output)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
