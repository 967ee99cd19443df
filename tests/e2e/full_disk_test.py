"""Disks that are full: training goes on, a region or the run says what it waits for, and nothing is lost once there is room."""
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import sys
import unittest

from harness import CAUSEWAY, REGIONS, EndToEnd, kill, processes, read_json, wait_until


class Disk(EndToEnd):
    def test_a_coordinator_whose_disk_is_full_does_not_vote_but_its_worker_goes_on(self):
        child = self.start("simulate", self.config(steps=600), "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status("eu-west").get("version", 0) >= 3, "three rounds", child)
        log = self.out / "regions" / "eu-west" / "coordinator.log"
        (pid,) = processes("coordinator", str(self.out / "regions" / "eu-west"))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 8_000, resource.RLIM_INFINITY))
        wait_until(lambda: "no longer votes or contributes" in self.status("eu-west").get("waiting", ""),
                   "its coordinator to say so", child)
        self.assertIn("Make room in", self.status("eu-west")["waiting"])
        version = self.status("us-east")["version"]
        tokens = self.status("eu-west")["progress"]["tokens"]
        wait_until(lambda: self.status("us-east")["version"] >= version + 3, "the others to go on", child)
        wait_until(lambda: self.status("eu-west").get("progress", {}).get("tokens", 0) > tokens,
                   "its worker to go on", child)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 0)
        self.assertIn("its storage works again", log.read_text())


class DiskThatFills(EndToEnd):
    """The disk of one region is a small file system in a user namespace of its own."""

    def simulate_on_small_disk(self, *flags):
        self.disk = self.out / "regions" / "eu-west"
        self.disk.mkdir(parents=True)
        words = [CAUSEWAY, "simulate", self.config(steps=600), "--out", self.out, "--no-baseline", *flags]
        inside = f"mount -t tmpfs -o size=60m none {self.disk} && exec {shlex.join(map(str, words))}"
        child = self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, env={"OMP_NUM_THREADS": "1"})
        self.seen = pathlib.Path(f"/proc/{child.pid}/root{self.disk}")
        wait_until(lambda: child.poll() is not None or self.status_there().get("version", 0) >= 3, "three rounds")
        if re.search("unshare|mount:", child.log.read_text()):
            self.skipTest("no user namespaces with mounts here")
        return child

    def status_there(self):
        try:
            return read_json(self.seen / "status.json")
        except (OSError, ValueError):  # not there yet, or just being written
            return {}

    def fill(self, child):
        """To the last byte. What its status says then."""
        with open(self.seen / "filler", "wb", buffering=0) as filler:
            with self.assertRaisesRegex(OSError, "No space left"):
                while filler.write(bytes(4096)):
                    pass
        said = {}  # one reading: the next may find the file just being written

        def abstains():
            said.update(self.status_there())
            return "no longer votes or contributes" in said.get("waiting", "")

        wait_until(abstains, "its coordinator to say so", child)
        return said

    def tokens(self):
        return self.status_there().get("progress", {}).get("tokens", 0)

    def make_room(self, child):
        self.assertIn("no longer votes or contributes", wait_until(self.status_there, "its status", child)["waiting"])
        (self.seen / "filler").unlink()

    def assert_ends_well(self, child):
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 0)

    def test_a_region_without_a_byte_of_room_says_so_and_goes_on_once_there_is_some(self):
        child = self.simulate_on_small_disk()
        sent = wait_until(self.status_there, "its status", child)["wan_tx_bytes"]
        said = self.fill(child)
        self.assertIn("Make room in", said["waiting"])
        self.assertEqual((said["abstains"], said["leader"]), (True, ""), "it is out of the run")
        self.assertGreater(sent, 0)
        self.assertGreaterEqual(said["wan_tx_bytes"], sent, "what it sent is not forgotten")
        version, tokens = self.status("us-east")["version"], said.get("progress", {}).get("tokens", 0)
        wait_until(lambda: self.status("us-east")["version"] >= version + 3, "the others to go on", child)
        wait_until(lambda: self.tokens() > tokens, "its worker to go on", child)
        self.make_room(child)
        self.assert_ends_well(child)
        log = (self.out / "regions" / "us-east" / "coordinator.log").read_text()
        self.assertNotIn("is not a peer", log)

    def test_what_a_worker_does_while_its_disk_is_full_counts(self):
        child = self.simulate_on_small_disk("--set", "train.timed_step_ms=5")
        (third,) = processes("coordinator", str(self.out / "regions" / "ap-northeast"))
        os.kill(third, signal.SIGSTOP)  # without two regions no round is decided: what is done now is not too late
        tokens = self.fill(child).get("progress", {}).get("tokens", 0)
        wait_until(lambda: self.tokens() > tokens + 10_000, "its worker to go on", child)
        log = (self.seen / "worker-0.log").read_text()
        self.make_room(child)
        os.kill(third, signal.SIGCONT)
        wait_until(lambda: child.poll() is not None or self.status_there().get("version", 0) >= 30, "rounds", child)
        more = (self.seen / "worker-0.log").read_text()[len(log):]
        self.assert_ends_well(child)
        self.assertNotIn("dropped", more)


class DiskOfTheRun(EndToEnd):
    """The disk of a whole run is a small file system in a user namespace of its own. What it holds at the end is copied out of that."""

    def tearDown(self):
        kill(processes("simulate", str(self.out)))  # a child of the shell that the test started
        super().tearDown()

    def simulate_on_small_disk(self, config, *flags, again=()):
        """With `again`: once it has ended, room is made, and it is started again with these flags."""
        self.out.mkdir()
        self.kept = self.directory / "kept"
        words = [CAUSEWAY, "simulate", config, "--out", self.out, "--no-baseline", *flags]
        first = shlex.join(map(str, words))
        second = shlex.join(map(str, [*words, *again]))
        then = f'echo "THE FIRST ENDED WITH $?"; rm {self.out}/filler; {second};' if again else ""
        inside = f"mount -t tmpfs -o size=120m none {self.out} || exit; {first}; {then} code=$?; cp -r {self.out} {self.kept}; exit $code"
        child = self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside, env={"OMP_NUM_THREADS": "1"})
        self.seen = pathlib.Path(f"/proc/{child.pid}/root{self.out}")
        wait_until(lambda: child.poll() is not None or self.region("us-east").get("version", 0) >= 3, "three rounds")
        if re.search("unshare|mount:", child.log.read_text()):
            self.skipTest("no user namespaces with mounts here")
        return child

    def region(self, name):
        try:
            return read_json(self.seen / "regions" / name / "status.json")
        except OSError:  # the namespace is not there yet, or no more
            return {}

    def supervisor(self):
        (pid,) = processes("simulate", str(self.out))
        return pid

    def fill(self):
        with open(self.seen / "filler", "ab", buffering=0) as filler:
            with self.assertRaisesRegex(OSError, "No space left"):
                while filler.write(bytes(4096)):
                    pass

    def fill_until(self, text, child):
        """What coordinators release makes room again, enough for report.html and too little for a round: it is filled, too."""
        def said():
            self.fill()
            return text in child.log.read_text()
        wait_until(said, f"'{text}'", child)

    def wait_for_line(self, text, child):
        wait_until(lambda: text in child.log.read_text(), f"'{text}'", child)

    def test_training_goes_on_and_what_was_refused_is_written_once_there_is_room(self):
        child = self.simulate_on_small_disk(self.config(steps=3000, k=25))
        self.fill_until("Training goes on, and the files of the run are tried again", child)
        kill(processes("worker", str(self.out / "regions" / "eu-west")))
        self.wait_for_line("eu-west worker 0: killed by signal 9", child)
        (self.seen / "filler").unlink()
        self.wait_for_line("all files of the run are written again", child)
        output = self.finish(child)
        # Said once, not at each try. What a coordinator releases may make room for a moment: then it is said again.
        said = re.findall("was not written|are written again", output)
        self.assertEqual(said, ["was not written", "are written again"] * (len(said) // 2), output)
        summary = read_json(self.kept / "summary.json")
        self.assert_identical(summary)
        restarts = (self.kept / "restarts.jsonl").read_text().splitlines()
        self.assertEqual(len(restarts), summary["restarts"])
        self.assertIn("killed by signal 9", json.loads(restarts[0])["cause"])
        samples = [json.loads(line) for line in (self.kept / "progress.jsonl").read_text().splitlines()]
        self.assertEqual(max(sample["version"] for sample in samples), 120)
        self.assertIn("</html>", (self.kept / "report.html").read_text())

    def test_ctrl_c_on_a_full_disk_ends_the_run_which_goes_on_once_there_is_room(self):
        child = self.simulate_on_small_disk(self.config(steps=3000, k=25), again=["--resume"])
        self.fill_until("was not written", child)
        os.kill(self.supervisor(), signal.SIGINT)
        output = self.finish(child)
        self.assertIn("THE FIRST ENDED WITH 130", output)
        self.assertIn("the steps since an earlier state on disk will be taken again", output)
        self.assert_identical(read_json(self.kept / "summary.json"))

    def test_what_has_no_room_at_the_end_is_named_and_written_when_the_run_is_resumed(self):
        child = self.simulate_on_small_disk(self.config(steps=100), "--wan", "none", "--sample-tokens", "0", again=["--resume"])
        supervisor = self.supervisor()
        os.kill(supervisor, signal.SIGSTOP)
        wait_until(lambda: not any(processes(str(self.out / "regions" / region)) for region in REGIONS), "the regions to end")
        self.fill()
        os.kill(supervisor, signal.SIGCONT)
        first, second = self.finish(child).split("THE FIRST ENDED WITH 5\n")
        self.assertIn("All regions hold the same bits", first)
        for name in ("summary.json", "report.html", "events.jsonl"):
            self.assertRegex(first, name + r" is missing or not whole: cannot \S+ \S+/run/" + name)
        self.assertIn("0 bytes are free", first)
        self.assertIn("--resume", first)
        self.assertNotIn("missing", second)
        self.assert_identical(read_json(self.kept / "summary.json"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
