"""What each region was worth: a run of real processes, one region of which contributes noise, is computed again without each in turn."""
import json
import os
import re
import shutil
import unittest

from documented_outputs import assert_documented
from harness import REGIONS, EndToEnd, read_json
from run_by_hand import RunByHand

NOISE_WORKER = os.environ["CAUSEWAY_NOISE_WORKER"]
CALM = dict(codec="dense:int8,block=128", optimizer="sgd", outer_lr=1.0)  # momentum throws so short a run about


class Credit(EndToEnd):
    def kept_run(self, *more, steps=30, **settings):
        overrides = [word for setting in ("ledger.keep=all", *more) for word in ("--set", setting)]
        self.simulate(self.config(steps=steps, **{**CALM, **settings}), "--no-baseline", *overrides)

    def credit(self, *more, code=0):
        return self.run_causeway("replay", self.out, "--credit", *more, code=code)

    def test_regions_of_a_whole_run_are_worth_what_they_did(self):
        prices = self.directory / "prices.toml"
        prices.write_text('default_per_gb = 1000\n[[price]]\nfrom = "us-east"\nto = "eu-west"\nper_gb = 3000\n')
        self.kept_run(f"links.prices={prices}")
        told = self.credit()
        credit = read_json(self.out / "credit.json")
        assert_documented(self, self.out / "credit.json")
        self.assertEqual((credit["first_round"], credit["last_round"], credit["batches"]), (0, 5, 2))
        # The run's own validation, of the model that it ended with.
        self.assertAlmostEqual(credit["val_loss"], read_json(self.out / "summary.json")["val_loss"], places=5)
        self.assertIn(f"it is {credit['val_loss']:.6f} nats per token", told)
        by_name = {region["region"]: region for region in credit["regions"]}
        self.assertEqual(sorted(by_name), sorted(REGIONS))
        for region in by_name.values():
            self.assertEqual((region["rounds"], region["tokens"]), (6, 30 * 6 * 32))
            self.assertAlmostEqual(region["worth_per_cost"], region["worth"]["value"] / region["cost"])
            self.assertAlmostEqual(region["singly"]["value"], sum(each["worth"] for each in region["by_round"]))
            self.assertIsNotNone(region["singly"]["rounds_error"])
        self.assertAlmostEqual(by_name["us-east"]["cost"], 4000 * 1e-9 * by_name["us-east"]["sent_bytes"] / 2)
        self.assertAlmostEqual(by_name["eu-west"]["cost"], 1000 * 1e-9 * by_name["eu-west"]["sent_bytes"])
        # One round of the window is what --without says of it.
        worth = next(each["worth"] for each in by_name["eu-west"]["by_round"] if each["round"] == 5)
        losses = re.search(r"validation loss: ([\d.]+) as decided, ([\d.]+) as changed",
                           self.run_causeway("replay", self.out, "--without", "eu-west@5", "--loss"))
        self.assertAlmostEqual(worth, float(losses[2]) - float(losses[1]), delta=2e-6)
        self.assertIn("is a directory: name a file", self.run_causeway("report", self.out, "--out", self.directory, code=2))
        self.assertEqual([*self.directory.rglob("*.tmp")], [])
        self.run_causeway("report", self.out, "--out", self.directory / "report.html")
        self.assertIn("<h2>Credit</h2>", (self.directory / "report.html").read_text())

    def test_a_window_begins_with_the_state_before_it(self):
        self.kept_run()
        narrow = json.loads(self.credit("--rounds", "3-4", "--json"))
        self.assertEqual([each["round"] for each in narrow["regions"][0]["by_round"]], [3, 4])
        single = json.loads(self.credit("--rounds", "4", "--json"))
        for region in single["regions"]:  # alone in its round is alone in its window
            self.assertEqual(region["worth"]["value"], region["singly"]["value"])
            self.assertIsNone(region["singly"]["rounds_error"])
            self.assertIsNone(region["cost"])
        self.assertIn("the ledger has rounds 0 to 5", self.credit("--rounds", "3-6", code=2))
        self.assertIn("must be FIRST-LAST", self.credit("--rounds", "4-3", code=2))

    def test_what_was_not_kept_is_said(self):
        self.kept_run(steps=10)
        archive = [self.out / "regions" / region / "archive" for region in REGIONS]
        for folder in archive:
            for payload in folder.glob("*-[0-9]*[0-9]"):
                payload.unlink()
        for spool in self.out.glob("regions/*/spool"):
            shutil.rmtree(spool)
        self.assertRegex(self.credit(code=4), r"the payload of \S+ in round 0 \(\w+\) is in none of these regions'")
        self.assertFalse((self.out / "credit.json").exists())
        for folder in archive:
            shutil.rmtree(folder)
        self.assertIn('set ledger.keep = "all"', self.credit(code=4))

    def test_data_of_one_region_gives_no_credit(self):
        self.kept_run('data.mode="per-region"', steps=10)
        self.assertIn("would favour that region", self.credit(code=2))
        everyones = json.loads(self.credit("--json", "--set", f'data.validation_files=["{self.directory / "text"}"]'))
        self.assertEqual(everyones["data"], "data.validation_files")

    def test_a_run_of_one_region_has_nothing_to_compare_with(self):
        config = self.config(workers=(1,), steps=10, **CALM)
        self.simulate(config, "--no-baseline", "--wan", "none", "--set", "ledger.keep=all", "--set", "wan.profile=")
        self.assertIn("us-east alone contributed to rounds 0 to 1", self.credit(code=2))


class Noise(RunByHand):
    def test_a_region_that_contributes_noise_comes_last(self):
        config = self.config(addresses=self.addresses, steps=100, **CALM)
        # It needs a snapshot before most rounds are over: soon, and they are long.
        text = re.sub("checkpoint_rounds = .*", "checkpoint_rounds = 1", config.read_text())
        config.write_text(re.sub("(?m)^batch = .*", "batch = 64", text) + '[ledger]\nkeep = "all"\n')
        liar = REGIONS[0]  # its initial values are the run's, so it must not found it
        coordinators = [self.coordinator(config, region, "--found" if region == REGIONS[1] else "--join") for region in REGIONS]
        workers = [self.start_program(NOISE_WORKER, config, liar, self.region_directory(liar))]
        workers += [self.worker(config, region) for region in REGIONS[1:]]
        self.finish_all(workers)
        self.finish_all(coordinators)
        credit = json.loads(self.run_causeway("replay", self.out, "--credit", "--json"))
        self.assertEqual(credit["regions"][-1]["region"], liar, credit)
        rounds = {region["region"]: region["rounds"] for region in credit["regions"]}
        self.assertGreater(rounds.pop(liar), 3, credit)  # it waits for the others' initial values first
        self.assertEqual(set(rounds.values()), {20}, credit)
        for region in credit["regions"]:
            (self.assertLess if region["region"] == liar else self.assertGreater)(region["worth"]["value"], 0, credit)
            (self.assertLess if region["region"] == liar else self.assertGreater)(region["singly"]["value"], 0, credit)


if __name__ == "__main__":
    unittest.main()
