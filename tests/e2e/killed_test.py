"""kill -9 at every named state of the protocol, of coordinators and of workers. The list comes from the program itself."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from harness import CAUSEWAY, DENSE, REGIONS, EndToEnd, processes, read_json, wait_until


def protocol_states():
    """{occurs: [name]}, in the program's order."""
    output = subprocess.run([CAUSEWAY, "protocol-states"], text=True, stdout=subprocess.PIPE, check=True).stdout
    states = {}
    for line in output.splitlines():
        name, occurs, _ = line.split("\t")
        states.setdefault(occurs, []).append(name)
    return states


class KilledAtEveryState(EndToEnd):
    def setUp(self):
        super().setUp()
        self.trap = self.directory / "trap"
        self.states = protocol_states()
        self.runs = 0

    def launch(self, steps, *flags, resume=False, workers=(1, 2, 1)):
        if not resume:
            self.runs += 1
            self.out = self.directory / f"run-{self.runs}"
        return self.start("simulate", self.config(workers=workers, steps=steps, **DENSE), "--out", self.out,
                          "--no-baseline", *(["--resume"] if resume else []), *flags,
                          env={"CAUSEWAY_DIE_AT": str(self.trap)})

    def arm(self, state):
        temporary = self.trap.with_suffix(".new")
        temporary.write_text(state + "\n")
        temporary.rename(self.trap)

    def die_at(self, state, child):
        """Somebody dies there."""
        self.arm(state)
        wait_until(lambda: not self.trap.exists(), "a process to reach " + state, child)

    def version(self):
        return min(self.status(region).get("version", 0) for region in REGIONS)

    def end(self, child):
        self.finish(child)
        self.assert_identical(read_json(self.out / "summary.json"))
        self.run_causeway("verify", self.out, "--certificates", self.out / "certificates")

    def walk(self, states, *flags):
        """One state after the other, in as few runs as it takes: mostly in one, as a state takes two to four rounds."""
        spare = 25
        rounds = spare + 5 * len(states)
        remaining = list(states)
        while remaining:
            child = self.launch(5 * rounds, *flags)
            reached = 2
            while remaining and reached < rounds - spare:
                wait_until(lambda: self.version() >= reached, f"version {reached} everywhere", child)
                self.die_at(remaining.pop(0), child)
                reached = max(self.status(region).get("version", 0) for region in REGIONS) + 2
            self.end(child)

    def of(self, process, occurs):
        return [state for state in self.states[occurs] if state.startswith(process + ".")]

    def test_no_state_is_forgotten(self):
        self.assertEqual(set(self.states), {"once", "round", "cut-off", "restore", "end"})
        page = (pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "docs" / "faults.md").read_text()
        for names in self.states.values():
            for name in names:
                self.assertIn(f"`{name}`", page)

    def test_coordinators_in_a_round(self):
        self.walk(self.of("coordinator", "round"))

    def test_workers_in_a_round(self):
        self.walk(self.of("worker", "round"))

    def test_workers_in_a_round_of_a_fragment(self):
        self.walk(self.of("worker", "round"), "--set", "sync.variant=streaming", "--set", "train.k=10",
                  "--set", "sync.fragments=2", "--set", "sync.overlap_steps=2")

    def test_workers_in_an_eager_round(self):
        self.walk(self.of("worker", "round"), "--set", "sync.variant=eager")

    def test_while_a_run_begins(self):
        for state in self.states["once"]:
            with self.subTest(state):
                self.arm(state)
                child = self.launch(steps=20)
                wait_until(lambda: not self.trap.exists(), "a process to reach " + state, child)
                self.end(child)

    def test_while_a_run_ends(self):
        for state in self.states["end"]:
            with self.subTest(state):
                child = self.launch(20, "--set", "sync.grace_max_s=5")
                self.die_at(state, child)
                self.end(child)

    def cut_off(self, child):
        """Stops the others' coordinators. Their pids."""
        start = self.version()
        wait_until(lambda: self.version() >= start + 2, "two rounds", child)
        stopped = [pid for region in REGIONS[:2]
                   for pid in processes("coordinator", str(self.out / "regions" / region))]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: "training goes on" in self.status(REGIONS[2]).get("waiting", ""), "being cut off", child)
        return stopped

    def test_while_a_region_is_cut_off(self):
        # A region that is cut off takes no more steps than the run has left, which must last until the test has seen them: some 2,000.
        child = self.launch(4000, "--set", "train.k=50", "--set", "sync.staleness_max=8", "--set", "sync.election_timeout_s=0.5",
                            workers=(1, 1, 1))  # a second one of a region that is stopped only costs time
        for state in self.states["cut-off"]:
            on_the_way_back = state.endswith(("collect-ordered", "collected"))
            stopped = self.cut_off(child)
            if not on_the_way_back:
                self.die_at(state, child)
            wait_until(lambda: "training goes on" in self.status(REGIONS[2]).get("waiting", ""), "training alone",
                       child)
            tokens = self.status(REGIONS[2])["progress"]["tokens"]
            wait_until(lambda: self.status(REGIONS[2])["progress"]["tokens"] > tokens, "more steps", child)
            if on_the_way_back:
                self.arm(state)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            wait_until(lambda: not self.trap.exists(), "a process to reach " + state, child)
        self.end(child)

    def test_while_a_region_takes_a_snapshot(self):
        child = self.launch(steps=250)
        for state in self.states["restore"]:
            start = self.version()
            wait_until(lambda: self.version() >= start + 6, "six rounds", child)
            child.send_signal(signal.SIGINT)
            self.finish(child, code=130)
            shutil.rmtree(self.out / "regions" / "eu-west" / "checkpoints")
            self.arm(state)  # before the start: once a coordinator has ordered the snapshot, its worker is quick
            child = self.launch(steps=250, resume=True)
            wait_until(lambda: not self.trap.exists(), "a process to reach " + state, child)
        self.end(child)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
