"""Regions that divide their steps over ranks in different ways."""
import random
import re
import signal
import unittest

from region_run import DEADLINE_S, REGIONS, RegionRun


def rounds(output):
    return re.findall(r"^(?:round \d+|end) \w+$", output, re.M)


class Mixed(RegionRun):
    regions = 3

    def start_region(self, how, name, **env):
        ranks = [0] if how == "one" else [0, 1]
        return [self.trainer("same_samples.py", how, self.region(name), self.directory / f"store-{name}", rank, env=env)
                for rank in ranks]

    def check_one_run(self, **env):
        processes = [self.start_region(how, name, **env) for how, name in zip(("one", "ddp", "fsdp"), REGIONS)]
        told = [[rounds(self.finish(one)) for one in ranks] for ranks in processes]
        self.assertEqual(len(told[0][0]), 4)  # three rounds and the end
        for ranks in told:
            for rank in ranks:
                self.assertEqual(rank, told[0][0])
        self.finish_coordinators()

    def test_one_process_ddp_and_fsdp2_take_the_same_steps_bit_for_bit(self):
        self.check_one_run()

    def test_so_they_do_in_bf16(self):
        self.check_one_run(CAUSEWAY_TEST_BF16="1")


class Killed(RegionRun):
    """Dropout, Adam and momentum: all of it must come back."""
    env = {"CAUSEWAY_TEST_DROPOUT": "1"}

    def start_region(self, how, out, **env):
        """Ranks that meet by a file, a new one for each life."""
        meeting = self.directory / f"meeting-{len(self.children)}"
        return [self.trainer("same_samples.py", how, self.region(out=out), meeting, rank, env={**self.env, **env})
                for rank in ((0,) if how == "one" else (0, 1))]

    def check(self, how, variable="CAUSEWAY_TEST_DIE_AT", die_at=("2", "4", "9")):
        """Of a life each: in the first round; before a round; within one."""
        undisturbed = rounds(self.finish(self.start_region(how, "run")[0]))
        self.finish_coordinators()
        self.coordinators = self.start_coordinators(out="killed")
        for step in die_at:
            dying = self.start_region(how, "killed", **{variable: step})
            codes = [one.wait(DEADLINE_S) for one in dying]  # one that loses the other first ends with an error
            self.assertIn(-signal.SIGKILL, codes)
        self.assertEqual(rounds(self.finish(self.start_region(how, "killed")[0]))[-1], undisturbed[-1])
        self.finish_coordinators()

    def test_a_killed_process_resumes_bit_for_bit(self):
        self.check("one")

    def test_killed_ranks_of_fsdp2_resume_bit_for_bit(self):
        self.check("fsdp")

    def check_killed_before_its_file_is_whole(self, how):
        """In the first round, and in the second. The other rank's file of that sample is whole, and its work is not contributed."""
        self.check(how, "CAUSEWAY_TEST_DIE_SAVING", ("2", "6"))

    def test_ranks_of_fsdp2_of_which_one_is_killed_before_its_file_is_whole_resume_bit_for_bit(self):
        self.check_killed_before_its_file_is_whole("fsdp")

    def test_so_do_ranks_of_ddp(self):
        self.check_killed_before_its_file_is_whole("ddp")

    def test_a_process_killed_at_ten_random_points_resumes_bit_for_bit(self):
        self.settings = dict(self.settings, steps=400)
        undisturbed = self.end_of_a_life("undisturbed", self.start_coordinators(out="undisturbed"))
        coordinators = self.start_coordinators(out="often-killed")
        chance = random.Random(22)
        for _ in range(10):
            life = self.start_region("one", "often-killed", CAUSEWAY_TEST_DIE_AFTER_S=str(chance.uniform(0.001, 0.1)))[0]
            self.finish(life, code=-signal.SIGALRM)
        self.assertEqual(self.end_of_a_life("often-killed", coordinators), undisturbed)

    def end_of_a_life(self, out, coordinators):
        end = rounds(self.finish(self.start_region("one", out)[0]))[-1]
        for coordinator in coordinators:
            self.finish(coordinator)
        return end


if __name__ == "__main__":
    unittest.main()
