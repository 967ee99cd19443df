"""A trainer that is not ours, built against the installed package, takes part in a run."""
import signal
import sys
import unittest

from harness import REGIONS, free_port
from own_trainer import OwnTrainer, OwnTrainerByHand


class WorkerApi(OwnTrainerByHand):
    def trainer(self, region, env=None):
        return self.start_program(self.classifier, region, self.region(region), env=env)

    def test_three_trainers_learn_together_and_end_with_the_same_bits(self):
        config = self.config(addresses=self.addresses, steps=200, k=10, codec="topk:k=512,chunk=4096",
                             optimizer="sgd", outer_lr=1.0)
        coordinators = self.coordinators(config)
        trainers = [self.trainer(region) for region in REGIONS]
        self.check_ends([self.finish(trainer) for trainer in trainers], loss_below=1.0)  # ln 8 = 2.08 untrained
        for coordinator in coordinators:
            self.finish(coordinator)

    def test_a_trainer_on_another_host_takes_part_over_tls(self):
        config = self.config(addresses=self.addresses, steps=100, k=10, codec="topk:k=512,chunk=4096",
                             optimizer="sgd", outer_lr=1.0)
        door = f"127.0.0.1:{free_port()}"
        coordinators = self.coordinators(config, "--worker-listen", door)
        trainers = [self.trainer(region) for region in REGIONS[1:]]
        elsewhere = self.directory / "another-host"
        trainers.append(self.start_program(self.classifier, REGIONS[0], elsewhere, door,
                                           self.directory / "certificates"))
        self.check_ends([self.finish(trainer) for trainer in trainers], loss_below=1.0)  # ln 8 = 2.08 untrained
        for coordinator in coordinators:
            self.finish(coordinator)

    def test_a_killed_trainer_comes_back_and_catches_up(self):
        config = self.config(addresses=self.addresses, steps=200, k=10, codec="topk:k=512,chunk=4096",
                             optimizer="sgd", outer_lr=1.0)
        coordinators = self.coordinators(config)
        trainers = {region: self.trainer(region) for region in REGIONS[:2]}
        # By itself: a run of tiny rounds may be over before anybody outside it has looked.
        trap = self.directory / "trap"
        trap.write_text("worker.apply-told\n")
        doomed = self.trainer(REGIONS[2], env={"CAUSEWAY_DIE_AT": str(trap)})
        self.finish(doomed, code=-signal.SIGKILL)
        trainers[REGIONS[2]] = self.trainer(REGIONS[2])
        self.check_ends([self.finish(trainer) for trainer in trainers.values()], loss_below=1.0)  # ln 8 = 2.08 untrained
        for coordinator in coordinators:
            self.finish(coordinator)



class InstalledWanSim(OwnTrainer):
    def test_a_program_links_the_simulated_wan(self):
        times = dict(line.split()[:2] for line in self.call(self.built("virtual-wan"), self.directory / "wan.toml").splitlines())
        self.assertEqual(len(times), 6)
        for seconds in map(float, times.values()):
            self.assertGreater(seconds, 32e6 * 8 / 200e6)  # the link's rate
            self.assertLess(seconds, 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
