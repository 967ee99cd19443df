"""What shows a run that was started by hand: its log, TensorBoard's files, and `causeway status`."""
import json
import re
import unittest

from harness import REGIONS, read_json, wait_until
from run_by_hand import RunByHand


class Watch(RunByHand):
    def test_a_run_can_be_seen_while_it_goes_on_and_when_it_stopped(self):
        config = self.config(addresses=self.addresses, steps=4000)
        prices = self.directory / "prices.toml"
        prices.write_text("default_per_gb = 1000")
        config.write_text(config.read_text().replace("[train]", f'[links]\nprices = "{prices}"\n[train]\nvalidate_rounds = 2'))
        self.run_causeway("certs", "--directory", "certificates", "add-observer", "watch")
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        east = self.region_directory("us-east")
        wait_until(lambda: self.status("us-east").get("progress", {}).get("val_loss"), "a validation loss", workers[0])
        ask = ("status", "--config", config, "--as", "watch")
        table = self.run_causeway(*ask)
        for region in REGIONS:
            self.assertRegex(table, rf"{region} +\d+ +[\d,]+/4,000 +\d\.\d+ ")
        self.assertRegex(table, r"all: \d+ rounds, .* tokens/s, .* sent, about .* left")
        self.assertRegex(table, r"us-east > eu-west +up ")
        cost = re.search(r"egress: ([\d.]+) so far, about ([\d.]+) at the end", table)
        self.assertGreater(float(cost[2]), float(cost[1]))
        self.assertGreater(float(cost[1]), 0)
        workers[1].kill()
        coordinators[1].kill()
        coordinators[1].wait()
        table = self.run_causeway(*ask, code=3)
        self.assertRegex(table, rf"{REGIONS[1]} .*NOT SEEN")
        left = self.directory / "runs" / "e2e" / REGIONS[1]  # what cannot be read there hides nobody
        left.mkdir(parents=True)
        (left / "status.json").touch()
        table = self.run_causeway(*ask, code=3)
        self.assertRegex(table, rf"{REGIONS[1]} .*NOT SEEN")
        self.assertRegex(table, rf"{REGIONS[2]} +\d+ ")
        regions = json.loads(self.run_causeway(*ask, "--json", code=3))["regions"]
        self.assertEqual(sorted(each["region"] for each in regions), sorted(REGIONS))
        self.assertIn("STOPPED", self.run_causeway("status", *map(self.region_directory, REGIONS), code=3))
        self.assertIn("STOPPED", self.run_causeway("status", self.region_directory("us-east").parent, code=3))
        for child in (coordinators[0], coordinators[2], workers[0], workers[2]):
            child.terminate()
            child.wait()
        self.assertRegex((east / "coordinator.log").read_text(),
                         r"us-east: round 2 of \d+: step \d+ of 4,000, loss .*, validation loss .* regions, took .* left")
        self.assertRegex((east / "worker-0.log").read_text(), r"round 2 applied: step \d+ of 4000, loss")
        rounds = [json.loads(line) for line in (east / "events.jsonl").read_text().splitlines() if "participants" in line]
        self.assertIsNone(rounds[0]["val_loss"])
        self.assertGreater(rounds[1]["val_loss"], 1)
        self.assertTrue(list((east / "tensorboard" / "us-east").iterdir()))

    def test_a_run_started_by_hand_has_a_report_and_its_validation_loss_when_it_is_over(self):
        config = self.config(addresses=self.addresses, steps=20)
        prices = self.directory / "prices.toml"
        prices.write_text("default_per_gb = 0.00001")
        config.write_text(config.read_text().replace("[train]", f'[links]\nprices = "{prices}"\n[train]\nvalidate_rounds = 2'))
        coordinators = self.start_coordinators(config)
        self.finish_all(coordinators + self.start_workers(config, (1, 1, 1)))
        directories = [self.region_directory(region) for region in REGIONS]
        loss = read_json(directories[0] / "result.json")["val_loss"]
        self.assertEqual({self.status(region)["progress"]["val_loss"] for region in REGIONS}, {loss})
        self.assertRegex(self.run_causeway("status", directories[0].parent), rf"us-east .* {loss:.4f} .* finished")
        own = (directories[0] / "report.html").read_text()
        self.assertIn("This page shows one region only", own)
        page = self.directory / "page.html"
        self.assertIn(str(page), self.run_causeway("report", *directories, "--out", page))
        html = page.read_text()
        for shown in ("The run is over: 4 rounds", "hold the same bits", 'aria-label="Training loss"', 'aria-label="Validation loss"',
                      f"{loss:.4f}", *REGIONS):
            self.assertIn(shown, html)
        self.assertRegex(html, r"Egress cost of these regions: 0\.0000\d*[1-9]\d*\.<")
        self.run_causeway("report", directories[0].parent)
        self.assertEqual((directories[0].parent / "report.html").read_text(), html)
        self.assertIn("named twice", self.run_causeway("report", directories[0], directories[0], code=2))
        self.assertIn("holds no region", self.run_causeway("report", self.directory, code=2))

    def test_the_log_is_json_or_quiet_when_asked_for(self):
        config = self.config(addresses=self.addresses)
        coordinator = self.start("coordinator", config, "--region", "us-east", "--found", "--log-format", "json",
                                 "--directory", self.region_directory("us-east"))
        log = self.region_directory("us-east") / "coordinator.log"
        wait_until(lambda: log.exists() and "listening on port" in log.read_text(), "the first lines", coordinator)
        coordinator.terminate()
        lines = [json.loads(line) for line in self.finish(coordinator, code=130).splitlines()]
        self.assertEqual([line["text"] for line in lines], [json.loads(line)["text"] for line in log.read_text().splitlines()])
        self.assertIn("json", self.run_causeway("--log-format", "xml", "status", "nowhere", code=2))


if __name__ == "__main__":
    unittest.main()
