"""One region's disk gives back other bytes than it took, while the run goes on.

CAUSEWAY_FLIPS says how many bits are flipped, one at a time, and CAUSEWAY_FLIPS_SEED where. Half of them are flipped while the region
is stopped, half while it runs; it is started again either way. Each must come out as one of these:

- named: a log of the region names the file, or one of another region names the payload that it was sent from that file;
- unread: no process of the region opened the file afterwards, or it was replaced before anybody did;
- shown: the file is only shown to people, and nothing is decided by it.
"""
import collections
import ctypes
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import sys
import unittest

from harness import REGIONS, read_json, wait_until
from run_by_hand import RunByHand

FLIPS = int(os.environ.get("CAUSEWAY_FLIPS", 6))
SEED = int(os.environ.get("CAUSEWAY_FLIPS_SEED", 1))
VICTIM = "ap-northeast"
SHOWN = {"status.json", "status.json.reserve", "events.jsonl", "compression.jsonl", "listening_port", "config.toml"}
IN_OPEN, IN_MOVE_SELF = 0x20, 0x800
EVENT = struct.Struct("iIII")


class Opens:
    """Whether anybody opens a file, or puts another one in its place: Linux's inotify."""

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.path, self.inode = path, path.stat().st_ino
        self.queue = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.queue < 0 or self.libc.inotify_add_watch(self.queue, bytes(path), IN_OPEN | IN_MOVE_SELF) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(path))

    def happened(self):
        """As what it was at first: once it was replaced, what is opened is another one. A spool writes new bytes over a file that it
        needs no more, which it moves first, and a state becomes an older one."""
        try:
            events = [mask for _, mask, _, _ in EVENT.iter_unpack(os.read(self.queue, 1 << 16))]
        except BlockingIOError:
            return False
        if IN_MOVE_SELF in events:
            events = events[:events.index(IN_MOVE_SELF)]
        return any(mask & IN_OPEN for mask in events)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.queue)


class Damage(RunByHand):
    place = "nothing"

    def start_run(self):
        self.unread = []  # files with a flipped bit that nobody has come upon yet
        self.config_file = self.config(addresses=self.addresses, steps=10_000_000)
        text = self.config_file.read_text().replace("grace_min_s = 2", "grace_min_s = 0.05\ngrace_max_s = 0.5")
        self.config_file.write_text(text)
        *self.others, self.coordinator_process = self.start_coordinators(self.config_file)
        *others, self.worker_process = self.start_workers(self.config_file, (1, 1, 1))
        self.others += others
        self.wait_for_rounds(3)

    def version(self, region):
        return self.status(region).get("version", 0)

    def wait_for_rounds(self, rounds):
        """The victim applies so many rounds more than any process of it or of the others said before, or one of its processes ends; true
        if it applies."""
        wanted = max(self.version("us-east"), self.version(VICTIM)) + rounds

        def moved():
            self.assertEqual([child.poll() for child in self.others], [None] * 4, "the others go on" + self.logs())
            return self.version(VICTIM) >= wanted or self.ended() is not None

        try:
            wait_until(moved, f"{VICTIM} to apply round {wanted} after a flip in {self.place}")
        except AssertionError as failure:
            raise AssertionError(f"{failure}{self.logs()}") from None
        return self.ended() is None

    def victims(self):
        return (self.coordinator_process, self.worker_process)

    def ended(self):
        """The exit code of the first of the victim's processes that ended."""
        return next((code for code in (child.poll() for child in self.victims()) if code is not None), None)

    def stop_victim(self):
        for child in self.victims():
            if child.poll() is None:
                child.kill()
            child.wait()

    def start_victim(self, *flags):
        self.coordinator_process = self.coordinator(self.config_file, VICTIM, *flags)
        self.worker_process = self.worker(self.config_file, VICTIM)

    def choose(self, chance):
        """A file of the victim's that has bytes. Others come and go meanwhile."""
        def has_bytes(path):
            try:
                return path.is_file() and path.stat().st_size > 0
            except FileNotFoundError:
                return False
        return chance.choice(sorted(filter(has_bytes, self.region_directory(VICTIM).rglob("*"))))

    @staticmethod
    def flip(path, chance):
        """One bit, in its place: the file keeps its inode, as on a disk that forgets."""
        with open(path, "r+b", buffering=0) as file:
            bit = chance.randrange(8 * os.fstat(file.fileno()).st_size)
            byte = os.pread(file.fileno(), 1, bit // 8)
            os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << bit % 8]), bit // 8)

    def now(self):
        return len(self.children), [(child.log, child.log.stat().st_size) for child in (*self.victims(), *self.others)]

    def said_since(self, moment):
        """What was logged since: by the victim's processes, those that ran then and those that began afterwards; and by the others."""
        began, sizes = moment
        logs = [*sizes, *((child.log, 0) for child in self.children[began:])]
        texts = [log.read_bytes()[size:].decode(errors="replace") for log, size in logs]
        return "".join(texts[:2] + texts[len(sizes):]), "".join(texts[2:len(sizes)])

    def one_flip(self, chance):
        """Returns the kind of the file and what came of it."""
        stopped = chance.random() < 0.5
        if stopped:
            self.stop_victim()
        path = self.choose(chance)
        place = self.place = str(path.relative_to(self.region_directory(VICTIM)))
        try:
            self.flip(path, chance)
            watch = Opens(path)
        except OSError:  # the region threw it away meanwhile
            return place, "gone before the flip"
        moment = self.now()
        with watch:
            if not stopped:
                self.wait_for_rounds(2)
                self.stop_victim()
                # A worker that runs reads its newest state's header, to see whether the next one takes its place.
                if path.name.startswith("state"):
                    watch.happened()
            self.start_victim()
            went_on = self.wait_for_rounds(2)
            opened = watch.happened()
        said, others_said = self.said_since(moment)
        sent = place.startswith("spool/") and f"{path.name[:8]} (" in others_said  # the hash, as logs shorten it
        named = path.name in said or place in said or sent
        if not went_on:
            self.assertEqual(self.ended(), 4, f"{place}: a region that cannot go on ends with 4{self.logs()}")
            # What was unread until now may be read at last. States are renamed as they age.
            earlier = next((one for one in reversed(self.unread) if re.sub(r"\.[0-9]+\.", ".", pathlib.Path(one).name)
                            in re.sub(r"state\.[0-9]+\.", "state.", said)), None)
            if not named and earlier:
                self.begin_anew()
                return earlier, "named later, ends alone with exit code 4"
            self.assertTrue(named, f"{place}: the region ended, and did not name it{self.logs()}")
            self.begin_anew()
            return place, "named, ends alone with exit code 4"
        if named:
            return place, "named, goes on"
        if pathlib.Path(place).name in SHOWN or place.endswith(".log"):
            return place, "shown only"
        if path.suffix == ".tmp":  # never finished: it is opened to see that nobody writes it any more
            wait_until(lambda: not path.exists(), f"the worker to remove {place}")
            return re.sub(r"\.[0-9a-f]+\.tmp$", ".tmp", place), "removed unread"
        # What is still written, or torn by a crash: it is a blob only once it has the blob's hash.
        if path.suffix in (".hashes", ".part") or path.name.startswith("draft-"):
            return "spool/, not complete", "checked by its hash"
        # Likely a payload that flipped after the coordinator had checked it and before the worker read it.
        if place.startswith("spool/") and opened and "is not the one that the other regions agreed on" in said:
            return "spool/", "noticed by the state's digest, takes a snapshot"
        self.unread.append(place)
        if re.fullmatch(r"state\.[0-9]+\.safetensors", path.name):
            return place, "unread"  # but for its header: the newest was sound
        self.assertFalse(opened, f"{place}: a process opened it, and nobody noticed the flip: {said}{others_said}")
        return place, "unread"

    def begin_anew(self):
        self.unread.clear()
        self.stop_victim()
        shutil.rmtree(self.region_directory(VICTIM))
        self.start_victim("--join")
        self.assertTrue(self.wait_for_rounds(2), "it begins anew" + self.logs())

    def test_a_flipped_bit_anywhere_in_a_region_stops_nobody_else(self):
        self.start_run()
        chance = random.Random(SEED)
        outcomes = collections.Counter()
        try:
            for _ in range(FLIPS):
                place, outcome = self.one_flip(chance)
                outcomes[place if not place.startswith("spool/") or "," in place else "spool/", outcome] += 1
                if self.ended() is not None:
                    self.stop_victim()
                    self.start_victim()
        finally:
            for (kind, outcome), count in sorted(outcomes.items()):
                print(f"{count:5}  {kind}: {outcome}")
        for child in [*self.others, *self.victims()]:
            child.send_signal(signal.SIGINT)
        for child in [*self.others, *self.victims()]:
            self.finish(child, code=130)
        self.assertGreater(read_json(self.region_directory("us-east") / "status.json")["version"], 3)
        others = [self.region_directory(region) for region in REGIONS if region != VICTIM]
        told = self.run_causeway("verify", *others, "--certificates", "certificates", code=4)  # one directory is left out
        self.assertEqual([line for line in told.splitlines() if line.startswith("MISSING")],
                         [f"MISSING: the directory of {VICTIM}, a member: nothing of it was read"])
        self.assertNotIn("NOT the same history", told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
