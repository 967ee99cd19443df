"""`causeway tune` and `causeway plan` with the real runs that they make and read."""
import json
import shutil
import sys
import unittest

from documented_outputs import assert_documented
from harness import DENSE, EndToEnd

TIMED = ("--set", "train.timed_step_ms=20")


class Tune(EndToEnd):
    def report(self, command, *arguments):
        """tune.json, which holds what the table shows."""
        out = self.directory / command
        self.run_causeway(command, *arguments, "--cache", self.directory / "cache", "--out", out)
        assert_documented(self, out / "tune.json")
        return json.loads((out / "tune.json").read_text())

    def measured(self, tuning):
        return [row for row in tuning["rows"] if row["measured_round_s"] is not None]

    def assert_measured_as_recommended(self, tuning):
        """Every row that ran is of the recommended codec and overlap, the recommended one among them."""
        rows = self.measured(tuning)
        self.assertIn(tuning["recommended_k"], [row["k"] for row in rows])
        kind = ("codec", "variant", "fragments", "overlap_steps")
        self.assertEqual({tuple(row[key] for key in kind) for row in rows},
                         {tuple(tuning["recommended"][key] for key in kind)})
        for row in rows:
            self.assertGreaterEqual(row["measured_round_s"], 0.02 * row["k"])

    def test_what_is_recommended_is_what_is_measured(self):
        tuning = self.report("tune", self.config(**DENSE), *TIMED, "--k", "10,20", "--codec", DENSE["codec"],
                             "--variant", "streaming", "--fragments", 2, "--overlap-steps", 4, "--measure", 120)
        self.assert_measured_as_recommended(tuning)
        self.assertEqual(tuning["recommended"]["variant"], "streaming")

    def test_what_was_found_is_shown_also_where_its_files_cannot_be_written(self):
        out = self.directory / "out"
        (out / "tune.json").mkdir(parents=True)
        said = self.run_causeway("tune", self.config(**DENSE), *TIMED, "--k", 10, "--codec", DENSE["codec"], "--variant",
                                 "synchronous", "--cache", self.directory / "cache", "--out", out, code=1)
        self.assertIn("Recommended: K = 10", said)
        self.assertIn("tune.json", said)

    def test_a_run_s_own_links_serve_another_tuning_and_its_real_runs(self):
        # So large that its payloads say something about a link's rate.
        run = self.simulate(self.config(**DENSE), *TIMED, "--set", "model.width=256", "--no-baseline", "--sample-tokens", 0)
        self.assert_identical(run)
        without_profile = self.directory / "no-wan.toml"
        without_profile.write_text("\n".join(line for line in self.config(**DENSE).read_text().splitlines()
                                             if not line.startswith(("[wan]", "profile ="))))
        tuning = self.report("tune", without_profile, *TIMED, "--links-run", self.out, "--k", "10",
                             "--codec", DENSE["codec"], "--variant", "synchronous", "--measure", 120)
        self.assert_measured_as_recommended(tuning)
        self.assertEqual(len(tuning["link_probes"]), 6)
        for link in tuning["link_probes"]:
            self.assertGreaterEqual(link["alpha_s"], 0.004, link)  # half of the round trip of the harness's WAN
            self.assertGreater(link["beta_s_per_byte"], 0, link)
            self.assertLessEqual(link["p50_s"], link["p95_s"], link)

    def test_the_price_of_k_and_of_lockstep_is_measured(self):
        # The run's own 80 steps are the most that a calibration takes; the budget is not reached.
        tuning = self.report("tune", self.config(steps=80, **DENSE), "--k", "5,10", "--codec", DENSE["codec"],
                             "--probe", "0.5", "--variant", "synchronous", "--calibrate", 600)
        self.assertEqual(tuning["calibration_seeds"], 3)
        self.assertIsNotNone(tuning["lockstep_steps_factor"])
        self.assertIsNotNone(tuning["lockstep_standard_error"])
        self.assertFalse([text for text in tuning["warnings"] if "needs as many steps" in text])

    def test_trials_end_where_real_runs_do(self):
        """What a calibration trains in one process has the very losses of `causeway simulate`."""
        for overlap in ((), ("--set", "sync.variant=streaming", "--set", "sync.fragments=2", "--set", "sync.overlap_steps=2"),
                        ("--set", "sync.variant=eager")):
            config = self.config(steps=64, k=4, **DENSE)
            name = "-".join(overlap) or "synchronous"
            cache = self.directory / "cache" / name.replace("/", "")
            self.run_causeway("tune", config, *overlap, "--k", "4", "--codec", DENSE["codec"], "--variant", "synchronous",
                              "--probe", "0.5", "--calibrate", 900, "--cache", cache)
            losses = {}
            for file in cache.glob("*.jsonl"):
                for line in map(json.loads, file.read_text().splitlines()):
                    losses.setdefault((line["k"], line["steps"], line["seed"]), set()).add(line["val_loss"])
            shutil.rmtree(self.out, ignore_errors=True)
            run = self.simulate(config, *overlap, "--wan", "none", "--sample-tokens", 0)
            self.assert_identical(run)
            seed = min(seed for _, _, seed in losses)  # the configuration's
            self.assertIn(run["val_loss"], losses[4, 64, seed], name)
            self.assertIn(run["baseline_val_loss"], losses[0, 64, seed], name)

    def test_what_learns_in_fewer_steps_is_recommended_with_all_that_it_needs(self):
        tuning = self.report("tune", self.config(steps=160, k=10, **DENSE), "--k", "10,20", "--codec", DENSE["codec"],
                             "--codec", "dense:2bit", "--probe", "0.5", "--variant", "synchronous", "--calibrate", 900)
        recipes = {(one["inner_optimizer"], one["codec"]): one for one in tuning["recipes"]}
        self.assertEqual(set(recipes), {(inner, codec) for inner in ("adamw", "muon") for codec in (DENSE["codec"], "dense:2bit")})
        self.assertEqual(recipes["adamw", DENSE["codec"]]["steps_factor"], 1)
        best = tuning["recommended"]
        self.assertIn((best["inner_optimizer"], best["codec"]), recipes)
        if best["inner_optimizer"] == "muon":
            self.assertIn('inner.optimizer = "muon"', tuning["settings"])
        options = [word for line in tuning["settings"] for word in ("--set", line.replace(" = ", "="))]
        self.run_causeway("config", self.config(steps=160, k=10, **DENSE), *options)

    def test_an_overlapped_run_is_planned_from_as_it_ran(self):
        config = self.config(steps=200, k=10, **DENSE)
        overlap = ("--set", "sync.variant=streaming", "--set", "sync.fragments=2", "--set", "sync.overlap_steps=2")
        self.simulate(config, *TIMED, *overlap, "--no-baseline", "--sample-tokens", 0)
        plan = self.report("plan", "--what-if", self.out, "--k", "20")
        recorded, = self.measured(plan)
        self.assertEqual((recorded["k"], recorded["variant"], recorded["fragments"], recorded["overlap_steps"]),
                         (10, "streaming", 2, 2))
        self.assertGreaterEqual(recorded["measured_round_s"], 10 * 0.02)
        self.assertGreaterEqual(plan["probe"]["step_s"], 0.02)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
