"""What a run begins with: whose values count where regions bring different ones, and who is waited for."""
import json
import unittest

import torch
from region_run import RegionRun, wait_until


class Beginning(RegionRun):
    regions = 3
    initial = "founder"

    def start_coordinators(self, out="run", **settings):
        self.run_text = '[sync]\nstart_wait_s = 120\n'
        return super().start_coordinators(out, **settings)

    def config(self, *arguments, **settings):
        path = super().config(*arguments, **settings)
        path.write_text(path.read_text().replace("[run]\n", f'[run]\ninitial = "{self.initial}"\n'))
        return path

    def start_region(self, name, seed, width=16):
        return self.trainer("other_model.py", self.region(name), self.directory / f"{name}.pt", seed, width)

    def check_one_end(self):
        ends = [torch.load(self.directory / f"{name}.pt") for name in self.names]
        for end in ends[1:]:
            for name, value in ends[0].items():
                self.assertTrue(torch.equal(value, end[name]), name)
        return ends[0]

    def coordinators_said(self):
        return [coordinator.log.read_text() for coordinator in self.coordinators]


class Founders(Beginning):
    def test_of_three_different_models_all_train_the_founders(self):
        regions = [self.start_region(name, seed) for seed, name in enumerate(self.names)]
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        end = self.check_one_end()
        torch.manual_seed(0)  # the founder's
        begin = torch.nn.Linear(8, 16).weight
        moved = (end["0.weight"] - begin).norm() / begin.norm()
        self.assertTrue(0 < moved < 0.2, moved)
        said = self.coordinators_said()
        for name, log in zip(self.names[1:], said[1:]):
            self.assertIn(f'the tensor "0.weight" has other initial values in {name} than in {self.names[0]}', log)
        self.assertIn("verified: one history", self.run_causeway("verify", *map(self.region, self.names),
                                                                 "--certificates", "certificates"))

    def test_one_with_another_seed_takes_the_founders_and_all_end_alike(self):
        regions = [self.start_region(name, seed) for seed, name in zip((0, 0, 5), self.names)]
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        self.check_one_end()
        self.assertNotIn("other initial values", self.coordinators_said()[1])

    def test_a_region_killed_in_the_first_round_takes_them_again(self):
        regions = [self.start_region(name, seed) for seed, name in enumerate(self.names[:2])]
        wait_until(lambda: "other initial values" in self.coordinators_said()[1], "the values to be compared")
        regions[1].kill()
        regions[1].wait(60)
        regions[1] = self.start_region(self.names[1], 9)
        regions.append(self.start_region(self.names[2], 2))
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        self.check_one_end()

    def test_another_shape_is_named_with_its_tensor(self):
        self.start_region(self.names[0], 0)
        other = self.start_region(self.names[1], 0, width=24)
        said = self.finish(other, code=1)
        sentence = f'the tensor "0.weight" has the shape (24, 8) here and (16, 8) in {self.names[0]}'
        self.assertIn(sentence, said)
        self.assertEqual(self.coordinators[1].wait(60), 2)


class Late(Beginning):
    settings = dict(Beginning.settings, steps=400)

    def config(self, *arguments, **settings):
        path = super().config(*arguments, **settings)
        path.write_text(path.read_text().replace("grace_min_s = 2", "grace_max_s = 0\ngrace_min_s = 0"))
        return path

    def check_a_late_one(self, rounds):
        """It brings other values once the others have made so many rounds."""
        self.coordinators[2].kill()  # not within reach, so not waited for
        self.coordinators[2].wait()
        regions = [self.start_region(name, 0) for name in self.names[:2]]
        wait_until(lambda: self.version(self.names[0]) >= 1, "a round")
        self.coordinators[2] = self.start("coordinator", self.directory / "run.toml", "--region", self.names[2], "--directory",
                                          self.region(self.names[2]), *self.flag_to_join())
        wait_until(lambda: self.version(self.names[0]) >= rounds, "the others")
        regions.append(self.start_region(self.names[2], 7))
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        self.check_one_end()
        self.assertIn("are not those that the run began with", self.coordinators_said()[2])

    def test_whoever_brings_other_values_to_a_run_under_way_takes_a_snapshot(self):
        self.check_a_late_one(rounds=1)

    def test_at_the_end_it_takes_the_result(self):
        self.check_a_late_one(rounds=100)

    def flag_to_join(self):
        """Killed before it knew of a run, it joins again."""
        return [] if (self.region(self.names[2]) / "ledger" / "run").exists() else ["--join"]

    def version(self, name):
        path = self.region(name) / "status.json"
        return json.loads(path.read_text())["version"] if path.exists() else 0


class Equal(Beginning):
    initial = "equal"

    def test_other_values_are_refused_by_the_name_of_the_tensor(self):
        self.start_region(self.names[0], 0)
        said = self.finish(self.start_region(self.names[1], 1), code=1)
        self.assertIn(f'the tensor "0.weight" has other initial values in {self.names[1]} than in {self.names[0]}', said)
        self.assertIn("set the same seed", said)

    def test_the_same_values_train(self):
        regions = [self.start_region(name, 0) for name in self.names]
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        self.check_one_end()


class SlowStart(Beginning):
    def listed(self):
        lines = (self.region() / "events.jsonl").read_text().splitlines()
        return [line["participants"] for line in map(json.loads, lines) if "participants" in line]

    def test_the_first_round_waits_for_a_worker_that_starts_late(self):
        regions = [self.start_region(name, 0) for name in self.names[:2]]
        wait_until(lambda: f"the workers of {self.names[2]} to start" in self.status(self.names[0])["waiting"],
                   "a word on whom it waits for")
        self.assertEqual(self.status(self.names[0])["round"], 0)
        regions.append(self.start_region(self.names[2], 0))
        for region in regions:
            self.finish(region)
        self.finish_coordinators()
        self.assertEqual([len(regions) for regions in self.listed()], [3, 3, 3])

    def status(self, name):
        path = self.region(name) / "status.json"
        return json.loads(path.read_text()) if path.exists() else {"waiting": ""}


if __name__ == "__main__":
    unittest.main()
