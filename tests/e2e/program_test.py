"""`causeway simulate --worker`: any program as every region's worker, here a shell around examples/classifier."""
import json
import re
import signal
import sys
import unittest

from documented_outputs import assert_documented
from harness import REGIONS, free_port, read_json, wait_until
from own_trainer import OwnTrainer

CONFIG = """
[run]
name = "program"
seed = 7
[train]
steps = {steps}
k = 10
[outer]
optimizer = "sgd"
lr = 1.0
[codec]
matrix = "topk:k=512,chunk=4096"
[sync]
grace_min_s = 2
[ledger]
keep = "all"
[wan]
profile = "{wan}"
[certificates]
directory = "{certificates}"
"""


class Program(OwnTrainer):
    def program_config(self, steps=200, regions=REGIONS, addresses=None):
        """Without [model], [data] and [inner]: they are the program's business."""
        text = CONFIG.format(steps=steps, wan=self.directory / "wan.toml", certificates=self.directory / "certificates")
        for region in regions:
            text += f'[[regions]]\nname = "{region}"\n'
            if addresses:
                text += f'listen = "{addresses[region]}"\nadvertise = "{addresses[region]}"\n'
        path = self.directory / "program.toml"
        path.write_text(text)
        return path

    def region(self, name):
        return self.out / "regions" / name

    def try_it(self, config, command, *more, code=0, env=None):
        return self.finish(self.start("simulate", config, "--out", self.out, "--worker", command, *more, env=env), code)

    def check_losses(self, regions=REGIONS):
        ends = [re.search(r"ends with loss ([\d.]+), parameters (\w+)", (self.region(region) / "worker-0.log").read_text())
                for region in regions]
        self.assertTrue(all(ends), ends)
        self.assertEqual(len({end[2] for end in ends}), 1, ends)
        self.assertLess(float(ends[0][1]), 1.0)  # ln 8 = 2.08 untrained

    def check_audit(self):
        self.assertIn("verified: one history", self.run_causeway("verify", self.out))
        self.assertIn("every state is the one in the ledger", self.run_causeway("replay", self.out))
        status = self.run_causeway("status", self.region(REGIONS[0]))
        self.assertIn("finished", status)
        self.assertIn("worker, when it was last heard: done", status)

    def test_three_regions_train_a_program_one_of_which_is_killed_and_comes_back(self):
        trap = self.directory / "trap"
        trap.write_text("worker.apply-told\n")
        output = self.try_it(self.program_config(), self.classifier, env={"CAUSEWAY_DIE_AT": str(trap)})
        self.assertIn("no synchronous run to compare it with", output)
        self.assertIn(f"trained by {self.classifier}", output)
        self.check_losses()
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual((summary["rounds"], summary["restarts"], summary["parameters"]), (20, 1, 712))
        self.assertEqual({region["steps"] for region in summary["regions"]}, {200})
        self.check_audit()
        for path in ("summary.json", "simulation.json", f"regions/{REGIONS[0]}/result.json"):
            assert_documented(self, self.out / path, by_program=True)
            self.assertNotIn("null", (self.out / path).read_text())
        html = (self.out / "report.html").read_text()
        for absent in ("validation", "MFU", "nats"):
            self.assertNotIn(absent, html)
        self.assertFalse((self.out / "checkpoints").exists())

    def test_a_scenario_kills_and_pauses_a_program_with_all_that_it_started(self):
        # The shell stays: to kill it alone would leave a trainer that nobody knows of.
        self.add_events('at_s = 1; process = "kill"; region = "us-east"; role = "worker"; for_s = 1',
                        'at_s = 1.5; process = "pause"; region = "eu-west"; role = "worker"; for_s = 1')
        command = f"echo $$ >> $CAUSEWAY_DIRECTORY/shells; CAUSEWAY_TRIED=1 {self.classifier}; exit $?"
        self.try_it(self.program_config(steps=2000), command)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 1)
        self.assertEqual(len((self.region("us-east") / "shells").read_text().split()), 2)
        self.check_losses()

    def test_two_regions_that_were_interrupted_go_on_with_the_same_program(self):
        regions = REGIONS[:2]
        config = self.program_config(steps=2000, regions=regions)
        child = self.start("simulate", config, "--out", self.out, "--worker", self.classifier)
        wait_until(lambda: self.status(regions[0]).get("version", 0) >= 3, "three rounds", child)
        child.send_signal(signal.SIGINT)
        self.assertIn("--resume --worker '", self.finish(child, code=130))
        before = self.status(regions[0])["version"]
        self.run_causeway("simulate", self.out / "config.toml", "--out", self.out, "--resume")
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertLess(before, summary["rounds"])
        self.assertEqual((summary["rounds"], summary["worker"]), (200, str(self.classifier)))
        self.check_losses(regions)
        self.check_audit()

    def test_a_program_that_cannot_start_is_named_and_the_run_goes_on_with_another(self):
        config = self.program_config()
        output = self.try_it(config, "./nowhere --fast", code=2)
        self.assertIn("(`./nowhere --fast`) ended with exit code 127 before it took part in the run", output)
        self.assertIn("./nowhere: not found", output)
        output = self.try_it(config, "echo the data are missing; exit 3", "--resume", code=2)
        self.assertIn("exit code 3 before it took part", output)
        self.assertIn("  the data are missing", output)
        self.assertIn("exit code 0 before it took part", self.try_it(config, "true", "--resume", code=2))
        self.try_it(config, self.classifier, "--resume")
        self.assert_identical(read_json(self.out / "summary.json"))

    def test_a_program_is_told_its_place_by_its_environment(self):
        # It ends badly after the run, once: what it would do then is done again.
        command = (f"env > $CAUSEWAY_DIRECTORY/told; {self.classifier} || exit 1; cd $CAUSEWAY_DIRECTORY; "
                   "test -e ended || { touch ended; exit 1; }")
        config = self.config(steps=100, k=10)  # what [model] and [data] say is not asked
        self.try_it(config, command)
        told = dict(line.split("=", 1) for line in (self.region("eu-west") / "told").read_text().splitlines() if "=" in line)
        self.assertEqual([told[f"CAUSEWAY_{name}"] for name in ("REGION", "DIRECTORY", "REGIONS", "SEED")],
                         ["eu-west", str(self.region("eu-west")), "3", "7"])
        summary = read_json(self.out / "summary.json")
        self.assertEqual((summary["restarts"], summary["parameters"]), (3, 712))
        self.assertNotIn("[model]", (self.out / "config.toml").read_text())

    def test_what_needs_the_built_in_trainer_says_so(self):
        config = self.program_config()
        for command in (["simulate", config, "--out", self.out], ["worker", config, "--region", "us-east"],
                        ["tune", config]):
            self.assertIn("data.files is missing", self.run_causeway(*command, code=2))
        self.assertFalse(self.out.exists())
        config.write_text(config.read_text() + "workers = 2\n")
        self.assertIn("must be 1 where a program of your own trains", self.try_it(config, self.classifier, code=2))
        self.simulate(self.config(steps=10), "--no-baseline")
        self.assertIn("was not begun with a program", self.try_it(self.config(steps=10), self.classifier, "--resume", code=2))

    def test_tune_measures_a_program_and_plan_takes_its_run(self):
        config = self.program_config()
        tuned = self.directory / "tuned"
        cache = ("--cache", self.directory / "cache", "--k", "10,20", "--variant", "synchronous")
        self.run_causeway("tune", config, "--worker", self.classifier, "--out", tuned, *cache)
        tuning = read_json(tuned / "tune.json")
        self.assertIn(tuning["recommended_k"], (10, 20))
        self.assertEqual((tuning["probe"]["parameters"], tuning["probe"]["steps"]), (712, 20))
        self.assertGreater(tuning["probe"]["step_s"], 0)
        sparse = tuning["probe"]["codecs"][0]
        self.assertTrue(0 < sparse["relative_squared_error"] < 1, sparse)  # of what the steps really changed
        self.assertNotIn("--calibrate", " ".join(tuning["warnings"]))
        for flag in ("--calibrate", "--measure"):
            self.assertIn(f"{flag}: needs", self.run_causeway("tune", config, "--worker", self.classifier, flag, "5",
                                                              *cache, code=2))
        self.assertIn("(`false`) ended with exit code 1", self.run_causeway("tune", config, "--worker", "false", *cache, code=1))
        self.try_it(config, self.classifier)
        planned = self.run_causeway("plan", "--what-if", self.out, *cache)
        self.assertIn("712 parameters", planned)
        self.assertIn("recorded: 20 rounds of K = 10", planned)

    def test_coordinators_by_hand_need_no_model_and_no_data(self):
        regions = REGIONS[:2]
        addresses = {region: f"127.0.0.1:{free_port()}" for region in regions}
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *regions)
        config = self.program_config(regions=regions, addresses=addresses)
        coordinators = [self.start("coordinator", config, "--region", region, "--directory", self.region(region),
                                   "--found" if region == regions[0] else "--join") for region in regions]
        trainers = [self.start_program(self.classifier, env={"CAUSEWAY_REGION": region,
                                                             "CAUSEWAY_DIRECTORY": str(self.region(region))})
                    for region in regions]
        for child in trainers + coordinators:
            self.finish(child)
        results = [json.loads((self.region(region) / "result.json").read_text()) for region in regions]
        self.assertEqual(len({result["params_digest"] for result in results}), 1, results)
        self.assertIn("verified: one history", self.run_causeway(
            "verify", *map(self.region, regions), "--certificates", "certificates"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
