"""Regions of one run whose ranks divide the model in different ways: FSDP2 over meshes of different sizes, and pipelines."""
import json
import re
import signal
import unittest

from region_run import DEADLINE_S, REGIONS, RegionRun


def digests(outputs):
    """Of "round N" and "end": the digest of every parameter that a rank of the region holds. Ranks that hold the same one agree."""
    found = {}
    for output in outputs:
        for when, name, digest in re.findall(r"^(round \d+|end): (\S+) (\w+)$", output, re.M):
            known = found.setdefault(when, {}).setdefault(name, digest)
            if known != digest:
                raise AssertionError(f"{when}: the ranks of a region have different values of {name}")
    return found


def held_out_losses(output):
    return [float(loss) for loss in re.findall(r"^held-out loss at \w+ (\S+)$", output, re.M)]


class TwoRegions(RegionRun):
    regions = 2

    def start_region(self, name, how, ranks, samples, out="run", **env):
        """Its ranks meet by a file, a new one for each life."""
        meeting = self.directory / f"meeting-{len(self.children)}"
        return [self.trainer("parallel.py", how, samples, self.region(name, out), meeting, rank, ranks, env=env)
                for rank in range(ranks)]

    def end_of_run(self, *regions, parameters=8, **env):
        """Regions as (how, ranks) train on samples of their own, to the end. All have the same bits, from the work of all, and a lower
        loss than before. Gives each region's digests and this loss."""
        out = "run" if self.coordinators else f"run-{len(self.children)}"
        coordinators, self.coordinators = self.coordinators or self.start_coordinators(out=out), []
        started = [self.start_region(name, how, ranks, number, out, **env)
                   for number, (name, (how, ranks)) in enumerate(zip(REGIONS, regions))]
        printed = [[self.finish(rank) for rank in ranks] for ranks in started]
        for coordinator in coordinators:
            self.finish(coordinator)
        told = [digests(ranks) for ranks in printed]
        for one in told:
            self.assertEqual(one["end"], told[0]["end"])
            self.assertEqual(sorted(one), ["end", "round 0", "round 1", "round 2"])
        self.assertEqual(len(told[0]["end"]), parameters)
        losses = [held_out_losses(ranks[0]) for ranks in printed]
        for before, after in losses:
            self.assertLess(after, 0.9 * before)
        events = map(json.loads, (self.region(out=out) / "events.jsonl").read_text().splitlines())
        shared = [event["participants"] for event in events if "participants" in event]
        self.assertTrue(shared and all(len(one) == len(regions) for one in shared), shared)
        return told, losses[0][1]

    def check_as_undivided(self, *regions, **env):
        """The run of these regions ends where one ends whose regions do not divide the model. Sums over ranks are in another order."""
        _, loss = self.end_of_run(*regions, **env)
        _, undivided = self.end_of_run(("one", 1), ("one", 1), **env)
        self.assertAlmostEqual(loss, undivided, delta=1e-4 * undivided)


class MeshSizes(TwoRegions):
    def test_fsdp2_over_two_ranks_and_over_three(self):
        self.check_as_undivided(("fsdp", 2), ("fsdp", 3))  # three do not divide 16 rows evenly

    def test_fsdp2_over_two_ranks_and_over_one(self):
        self.check_as_undivided(("fsdp", 2), ("fsdp", 1))


class Pipelines(TwoRegions):
    """Beside a region of one process."""

    def check_bit_for_bit(self, **env):
        stages, _ = self.end_of_run(("one", 1), ("pipeline", 2), **env)
        undivided, _ = self.end_of_run(("one", 1), ("one", 1), **env)
        self.assertEqual(stages, undivided)

    def test_two_stages_take_the_steps_of_one_process_bit_for_bit(self):
        self.check_bit_for_bit()

    def test_so_they_do_in_bf16(self):
        self.check_bit_for_bit(CAUSEWAY_TEST_BF16="1")

    def test_two_pipelines_whose_stages_are_divided_by_fsdp2(self):
        self.check_as_undivided(("pipeline", 4), ("one", 1))

    def test_batch_norm_whose_statistics_stay_in_their_regions(self):
        """Its parameters are the last of the whole model, and the first stage holds them: they cross in the whole model's order."""
        told, _ = self.end_of_run(("pipeline", 2), ("one", 1), parameters=10, CAUSEWAY_TEST_BATCH_NORM="local")
        self.assertEqual(list(told[1]["end"])[-2:], ["norm.weight", "norm.bias"])


class KilledStages(TwoRegions):
    regions = 1

    def test_a_pipeline_that_is_killed_resumes_bit_for_bit(self):
        undisturbed = digests(map(self.finish, self.start_region(REGIONS[0], "pipeline", 2, samples=1)))
        self.finish_coordinators()
        self.coordinators = self.start_coordinators(out="killed")
        for die_at in ("2", "9"):  # in the first round; within the last
            dying = self.start_region(REGIONS[0], "pipeline", 2, 1, "killed", CAUSEWAY_TEST_DIE_AT=die_at)
            codes = [one.wait(DEADLINE_S) for one in dying]  # one that loses the other first ends with an error
            self.assertIn(-signal.SIGKILL, codes)
        resumed = digests(map(self.finish, self.start_region(REGIONS[0], "pipeline", 2, 1, "killed")))
        self.assertEqual(resumed["end"], undisturbed["end"])
        self.finish_coordinators()


class Refused(TwoRegions):
    """Each on all ranks, with what to do; nobody waits for the others."""
    regions = 1

    def refused(self, sentence, **env):
        for rank in self.start_region(REGIONS[0], "pipeline", 2, samples=1, **env):
            self.assertRegex(self.finish(rank, code=1), f"refused: .*{sentence}")

    def test_a_rank_that_was_not_told_of_the_whole_model(self):
        self.refused("were given different models stage_of", CAUSEWAY_TEST_NO_WHOLE="1")

    def test_stages_that_run_was_not_told_of(self):
        self.refused("rank 0 has .*layers.0.weight.* rank 1 has .*layers.2.weight.*stage_of=whole_model", CAUSEWAY_TEST_NO_WHOLE="01")

    def test_stages_whose_parameters_have_the_same_names(self):
        self.refused("the model stage_of has none of that name: .*names that they have in the whole model", CAUSEWAY_TEST_SHORT_NAMES="1")

    def test_buffers_of_a_stage_that_are_to_cross(self):
        self.refused("give buffers=\"local\" in all regions", CAUSEWAY_TEST_BATCH_NORM="average")


if __name__ == "__main__":
    unittest.main()
