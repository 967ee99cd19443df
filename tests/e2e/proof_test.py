"""Proof that regions trained: their steps are taken again, and what they did otherwise is named by region, round and leaf."""
import json
import os
import re
import shutil
import sys
import unittest

from harness import DENSE, REGIONS, SPARSE, EndToEnd, read_json
from run_by_hand import RunByHand

LYING_WORKER = os.environ["CAUSEWAY_LYING_WORKER"]
PROVES = ("ledger.keep=all", "ledger.prove_steps=2")


class Proof(EndToEnd):
    def proven_run(self, *more, steps=30, **settings):
        overrides = [word for setting in (*PROVES, *more) for word in ("--set", setting)]
        self.simulate(self.config(steps=steps, **{**DENSE, **settings}), "--no-baseline", *overrides)

    def check(self, *more, code=0):
        return self.run_causeway("replay", self.out, "--inner", *more, code=code)

    def assert_all_same(self, told, contributions):
        self.assertIn(f"of {contributions} contributions with a proof {contributions} were drawn: {contributions} trained "
                      "again with the same bits, 0 different, 0 not checked", told)

    def test_honest_regions_trained_each_step(self):
        self.proven_run()
        told = self.check("--sample", "1")
        self.assert_all_same(told, 18)
        self.assertIn("eu-west, round 5: 3 leaves after the first, and the payload, are the same\n", told)
        self.assertNotIn("restart", told)

    def test_a_sparse_codec_and_muon_leave_no_doubt_either(self):
        self.proven_run("inner.optimizer=muon", "model.dropout=0.1", "train.micro_batches=2", "ledger.prove_steps=5", **SPARSE)
        self.assert_all_same(self.check("--sample", "1"), 18)

    def test_sharded_rounds_leave_no_doubt_either(self):
        self.proven_run(exchange="sharded")
        self.assert_all_same(self.check("--sample", "1"), 18)

    def test_who_is_drawn_follows_from_the_auditors_seed_and_each_region_is(self):
        self.proven_run(steps=60)
        told = self.check("--sample", "0.3")
        seed = re.search(r"^drawn with --seed ([0-9a-f]{16}):", told)[1]
        self.assertEqual(told, self.check("--sample", "0.3", "--seed", seed))
        self.assertNotEqual(seed, re.search(r"--seed ([0-9a-f]{16}):", self.check("--sample", "0.3"))[1])
        drawn = {seed: self.drawn(self.check("--sample", "0.3", "--seed", seed)) for seed in "ab"}
        self.assertNotEqual(drawn["a"], drawn["b"])
        self.assertTrue(all(3 <= len(one) < 36 for one in drawn.values()), drawn)
        fewest = self.drawn(self.check("--sample", "1e-9"))
        self.assertEqual(sorted(region for region, round in fewest), sorted(REGIONS))

    @staticmethod
    def drawn(told):
        return re.findall(r"^(\S+), round (\d+): ", told, re.M)

    def test_old_rounds_are_not_kept(self):
        self.proven_run("ledger.proofs_kept=2")
        kept = sorted(path.name for path in (self.out / "regions" / "eu-west" / "proofs").iterdir())
        self.assertEqual(kept, ["round-4.leaves", "round-4.state", "round-5.leaves", "round-5.state"])
        told = self.check("--sample", "1")
        self.assertIn("6 trained again with the same bits, 0 different, 12 not checked", told)
        self.assertIn("not checked: eu-west, round 0: ", told)
        self.assertIn("ledger.proofs_kept", told)

    def test_damaged_files_accuse_nobody(self):
        self.proven_run(steps=10)
        proofs = self.out / "regions" / "eu-west" / "proofs"
        state = proofs / "round-0.state"
        content = bytearray(state.read_bytes())
        content[5] ^= 1
        state.write_bytes(content)
        leaves = proofs / "round-1.leaves"
        *head, last = leaves.read_text().splitlines()
        leaves.write_text("\n".join([*head, last[:-1] + ("0" if last[-1] != "0" else "1")]) + "\n")
        told = self.check("--sample", "1", code=3)
        self.assertNotIn("DIFFERS", told)
        self.assertIn("not checked: eu-west, round 0: the state that it kept is not the one of its first leaf (the parameters", told)
        self.assertIn("not checked: eu-west, round 1: the leaves that it kept are not those of its record", told)
        self.assertIn("eu-west: 2 listed, 2 with a proof, 2 drawn: 0 trained again with the same bits, 0 different, 2 not checked\n"
                      "NOT CHECKED: eu-west ", told)
        for content, problem in (("\n".join(head) + "\nnonsense\x1b[2J\n", "has a line that is no leaf: nonsense?[2J"),
                                 ("\n".join(head) + "\n" + "x" * 100_000, "can have"),
                                 (None, "is not a file")):
            with self.subTest(problem):
                leaves.unlink()
                leaves.mkdir() if content is None else leaves.write_text(content)
                self.assertIn(problem, self.check("--sample", "1", code=3))

    def test_trouble_with_one_region_does_not_end_the_check_of_others(self):
        self.proven_run(steps=10)
        config = self.out / "regions" / "eu-west" / "archive" / "config.toml"
        whole = config.read_text()
        given = self.out / "given.toml"
        given.write_text(whole)
        for content, problem in (("nonsense\x1b[2J", "its configuration cannot be used: "),
                                 (re.sub(r"(?m)^(files|data_files) = .*$", r'\1 = ["/nowhere/*"]', whole), "/nowhere/")):
            with self.subTest(problem):
                config.write_text(content)
                told = self.check("--sample", "1", "--config", given, code=3)
                self.assertRegex(told, "not checked: eu-west, round 0: .*" + problem)
                self.assertNotIn("\x1b", told)
                self.assertIn("ap-northeast: 2 listed, 2 with a proof, 2 drawn: 2 trained", told)
                self.assertIn("us-east: 2 listed, 2 with a proof, 2 drawn: 2 trained", told)

    def test_what_a_region_kept_is_not_what_it_is_checked_by(self):
        self.proven_run(steps=10)
        config = self.out / "regions" / "eu-west" / "archive" / "config.toml"
        given = self.out / "given.toml"
        whole = config.read_text()
        given.write_text(whole)
        for key, value in (("prove_steps", "0"), ("width", "64")):
            with self.subTest(key):
                config.write_text(re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", whole))
                told = self.check("--sample", "1", code=2)
                self.assertIn(f".{key} = ", told)
                self.assertIn("--config FILE", told)
                told = self.check("--sample", "1", "--config", given, code=4)
                self.assertRegex(told, rf"DIFFERS: eu-west kept other settings than those of the run: .*\.{key} = {value} in its archive")
                self.assert_all_same(told, 6)
        config.write_text(whole)
        alone = self.out / "regions" / "eu-west"
        self.assertIn("by the configuration that it kept itself", self.run_causeway("replay", alone, "--inner", code=2))
        self.assertIn("2 trained again", self.run_causeway("replay", alone, "--inner", "--sample", "1", "--config", given, code=3))

    def test_without_the_setting_nothing_is_kept_or_recorded(self):
        self.proven_run("ledger.prove_steps=0", steps=10)
        self.assertFalse(list(self.out.glob("regions/*/proofs")))
        self.assertNotIn("proof", self.run_causeway("ledger", self.out, "--json"))
        self.assertIn("set ledger.prove_steps", self.check(code=2))

    def test_proofs_change_no_bit_of_the_run(self):
        digests = []
        for setting in ("ledger.prove_steps=0", "ledger.prove_steps=1"):
            self.proven_run(setting, steps=10)
            digests.append({region["params_digest"] for region in read_json(self.out / "summary.json")["regions"]})
            shutil.rmtree(self.out)
        self.assertEqual(*digests)

    def test_what_cannot_be_proven_is_refused(self):
        for settings, problem in ((["ledger.keep=needed"], 'needs ledger.keep = "all"'),
                                  (["sync.variant=eager"], 'needs sync.variant = "synchronous"'),
                                  (["regions.eu-west.workers=2"], "region eu-west is not"),
                                  (["train.timed_step_ms=5"], "steps that compute something")):
            with self.subTest(problem):
                overrides = [word for setting in (*PROVES, *settings) for word in ("--set", setting)]
                self.assertIn(problem, self.run_causeway("config", self.config(), *overrides, code=2))
        of_a_program = self.config()
        of_a_program.write_text(re.sub(r"(?m)^files = .*$", "", of_a_program.read_text()))
        self.run_causeway("config", of_a_program)
        self.assertIn("only the built-in trainer proves its steps",
                      self.run_causeway("config", of_a_program, "--set", PROVES[0], "--set", PROVES[1], code=2))


class Threads(RunByHand):
    def test_the_bits_are_those_of_as_many_threads_as_the_region_had(self):
        config = self.config(addresses=self.addresses, steps=10, **DENSE)
        config.write_text(config.read_text().replace("width = 32", "width = 64").replace("context = 32", "context = 64") +
                          '[ledger]\nkeep = "all"\nprove_steps = 5\n')
        coordinators = self.start_coordinators(config)
        here = len(os.sched_getaffinity(0))
        several = min(2, here)
        workers = [self.start("worker", config, "--region", region, "--rank", 0, "--directory", self.region_directory(region),
                              env={"OMP_NUM_THREADS": str(threads)}) for region, threads in zip(REGIONS, (1, several, here + 1))]
        self.finish_all(workers)
        self.finish_all(coordinators)
        leaves = self.region_directory("eu-west") / "proofs" / "round-0.leaves"
        self.assertIn(f"\nthreads {several}\n", leaves.read_text())
        told = self.run_causeway("replay", self.out, "--inner", "--sample", "1", code=3)
        self.assertIn("eu-west, round 0: 1 leaf after the first, and the payload, are the same", told)
        self.assertIn(f"not checked: ap-northeast, round 0: its steps used {here + 1} threads, and this machine has {here}", told)
        self.assertNotIn("DIFFERS", told)
        leaves.write_text(leaves.read_text().replace(f"threads {several}", "threads 77"))  # the record says otherwise
        told = self.run_causeway("replay", self.out, "--inner", "--sample", "1", code=3)
        self.assertIn("not checked: eu-west, round 0: the leaves that it kept are not those of its record", told)


class Lies(RunByHand):
    def lying_run(self, lies, steps):
        config = self.config(addresses=self.addresses, steps=steps, **DENSE)
        config.write_text(config.read_text() + '[ledger]\nkeep = "all"\nprove_steps = 2\n')
        coordinators = self.start_coordinators(config)
        workers = [self.start_program(LYING_WORKER, config, region, self.region_directory(region), *lies.get(region, []),
                                      env={"OMP_NUM_THREADS": "1"}) for region in REGIONS]
        self.finish_all(workers)
        self.finish_all(coordinators)
        return config

    def found(self, *more):
        told = self.run_causeway("replay", self.out, "--inner", "--sample", "1", *more, code=4)
        return told, dict(re.findall(r"^DIFFERS: (\S+, round \d+): (.*)$", told, re.M))

    def test_each_lie_is_named_by_region_round_and_leaf(self):
        lies = {REGIONS[0]: ["rate@2", "made-up@5"], REGIONS[1]: ["batch@3"], REGIONS[2]: ["copied@4"]}
        self.lying_run(lies, steps=40)
        told, found = self.found()
        leaf = "the first leaf that differs is number 1 of 3, after step 2: the parameters"
        payload = "its steps are right, but its payload is not what they lead to: it is "
        self.assertEqual(sorted(found), sorted(f"{region}, round {lie.split('@')[1]}" for region in lies for lie in lies[region]), told)
        self.assertEqual(found["us-east, round 2"], f"{leaf}, the optimizer's moments")
        self.assertEqual(found["eu-west, round 3"], f"{leaf}, the optimizer's moments")
        self.assertRegex(found["ap-northeast, round 4"], rf"^{payload}that of \S+ in round 3$")
        self.assertEqual(found["us-east, round 5"], payload + "made up")
        self.assertIn("of 24 contributions with a proof 24 were drawn: 20 trained again with the same bits, 4 different, 0 not checked", told)

    def test_who_writes_its_own_rules_is_named(self):
        config = self.lying_run({"eu-west": ["settings@1"]}, steps=20)
        told = self.run_causeway("replay", self.out, "--inner", "--sample", "1", code=2)
        self.assertRegex(told, r"regions kept different configurations.*inner\.lr = .* in ap-northeast, .* in eu-west")
        told, found = self.found("--config", config)
        self.assertRegex(told, r"DIFFERS: eu-west kept other settings than those of the run: inner\.lr = ")
        self.assertEqual(found, {"eu-west, round 1": "the first leaf that differs is number 1 of 3, after step 2: the parameters, "
                                                     "the optimizer's moments"}, told)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
