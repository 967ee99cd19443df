"""A budget for egress: what the run costs stays below it, and the ledger says why rounds got longer."""
import json
import signal
import unittest

from documented_outputs import assert_documented
from harness import DENSE, REGIONS, EndToEnd, wait_until

PER_GB = 1000


class Budget(EndToEnd):
    def priced(self, text=f"default_per_gb = {PER_GB}", steps=120, **settings):
        """A configuration with prices, and a budget that is not set yet."""
        prices = self.directory / "prices.toml"
        prices.write_text(text)
        config = self.config(steps=steps, **settings)
        config.write_text(f'{config.read_text()}\n[links]\nprices = "{prices}"\n')
        return config

    def budgeted(self, config, out, *settings, flags=()):
        self.out = self.directory / out
        return self.simulate(config, "--no-baseline", *flags, *(part for one in settings for part in ("--set", one)))

    def test_longer_rounds_keep_the_limit_of_a_run_whatever_the_overlap(self):
        config = self.priced(**DENSE)
        for variant in ("synchronous", "streaming", "eager"):
            with self.subTest(variant):
                settings = [f'sync.variant="{variant}"', "outer.momentum=0.3", 'ledger.keep="all"']
                if variant == "streaming":
                    settings += ["sync.fragments=5", "sync.overlap_steps=1"]
                free = self.budgeted(config, f"{variant}-free", *settings)
                limit = round(0.5 * free["egress_cost"], 4)
                kept = self.budgeted(config, variant, *settings, f"budget.total={limit}", 'budget.action="stretch-k"')
                self.assert_identical(kept)
                self.assertLessEqual(kept["egress_cost"], limit)
                self.assertGreater(kept["egress_cost"], 0.6 * limit)
                self.assertLess(kept["rounds"], free["rounds"])
                self.assertRegex(self.run_causeway("ledger", self.out), r"K 5 -> \d+: egress cost .* for the whole run")
                records = json.loads(self.run_causeway("ledger", self.out, "--json"))["entries"]
                costs = [record["egress_cost"] for record in records if "egress_cost" in record]
                self.assertEqual(sorted(costs[-1]), sorted(REGIONS))
                self.assertLessEqual(sum(costs[-1].values()), kept["egress_cost"])
                self.run_causeway("verify", self.out)
        self.assertIn("egress cost", (self.out / "report.html").read_text(errors="replace"))
        self.run_causeway("replay", self.directory / "synchronous")

    def test_a_stopped_run_goes_on_with_more_money_and_counts_nothing_twice(self):
        config = self.priced(steps=500)
        self.out = self.directory / "out"
        simulation = self.start("simulate", config, "--out", self.out, "--no-baseline", "--wan", "none",
                                "--set", "budget.per_month=1e6", "--set", 'budget.action="pause"')
        status = self.out / "regions" / REGIONS[0] / "status.json"
        wait_until(lambda: status.exists() and json.loads(status.read_text())["round"] > 5, "rounds", simulation)
        simulation.send_signal(signal.SIGINT)
        simulation.wait()
        before = json.loads(status.read_text())["egress"]
        self.assertEqual(before["limits"][0]["period"], "month")
        summary = self.budgeted(self.out / "config.toml", "out", "budget.per_month=2e6", "train.steps=500", flags=("--resume",))
        cost = summary["egress_cost"]
        self.assertAlmostEqual(cost, PER_GB * 1e-9 * summary["wan_bytes"], delta=0.02 * cost)
        after = json.loads(status.read_text())["egress"]
        self.assertGreater(after["cost"], before["cost"])
        self.assertEqual(after["limits"][0]["limit"], 2e6)
        # The last exchange is in nobody's contribution.
        self.assertLess(after["run_cost"], cost)
        self.assertGreater(after["run_cost"], 0.95 * cost)
        assert_documented(self, status)
        self.assertIn("so far", self.run_causeway("status", self.out))

    def test_what_cannot_be_kept_is_refused(self):
        partial = '[[price]]\nfrom = "us-east"\nto = "eu-west"\nper_gb = 1'
        for prices, setting, problem in ((partial, "budget.total=1", "no price from us-east to ap-northeast"),
                                         ("default_per_gb = 1", "budget.total=-1", "must be a number, 0 or more"),
                                         ("default_per_gb = 1", 'budget.action="stop"', "must be warn, stretch-k or pause")):
            with self.subTest(setting, prices=prices):
                config = self.priced(prices)
                self.assertIn(problem, self.run_causeway("simulate", config, "--out", self.out, "--set", setting, code=2))
        self.assertIn("because there is a [budget]", self.run_causeway("config", self.config(), "--set", "budget.per_day=1", code=2))


if __name__ == "__main__":
    unittest.main()
