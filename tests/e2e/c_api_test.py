"""A trainer in plain C, built against the installed shared library, takes part in a run."""
import json
import signal
import sys
import unittest

from harness import REGIONS, free_port
from own_trainer import SANITIZE, SOURCE, OwnTrainerByHand

C11 = ("-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror")


class CApi(OwnTrainerByHand):
    def setUp(self):
        super().setUp()
        found = sorted(self.prefix.rglob("causeway.pc"))
        flags = self.call("pkg-config", "--cflags", "--libs", "causeway",
                          env={"PKG_CONFIG_PATH": str(found[0].parent)}).split()
        self.wave = self.directory / "wave"
        self.call("cc", *C11, *([f"-fsanitize={SANITIZE}"] if SANITIZE else []), f"{SOURCE}/examples/c/wave.c",
                  *flags, "-lm", f"-Wl,-rpath,{found[0].parent.parent}", "-o", self.wave)

    def trainer(self, region, *elsewhere, env=None):
        return self.start_program(self.wave, region, *(elsewhere or [self.region(region)]), env=env)

    def test_three_learn_together_one_over_tls_and_k_follows_their_held_out_loss(self):
        config = self.config(addresses=self.addresses, steps=600, k=5, codec="dense:int8,block=128", optimizer="sgd",
                             outer_lr=1.0)
        config.write_text(config.read_text().replace(
            "[sync]\n", '[sync]\nk = "auto"\nk_refit_rounds = 5\nk_max = 40\nheld_out_sequences = 200\n'))
        door = f"127.0.0.1:{free_port()}"
        coordinators = self.coordinators(config, "--worker-listen", door)
        trainers = [self.trainer(region) for region in REGIONS[1:]]
        trainers.append(self.trainer(REGIONS[0], self.directory / "another-host", door,
                                     self.directory / "certificates"))
        self.check_ends([self.finish(trainer) for trainer in trainers], loss_below=0.1)  # 0.98 untrained
        for coordinator in coordinators:
            self.finish(coordinator)
        lines = [json.loads(line) for line in (self.region(REGIONS[0]) / "events.jsonl").read_text().splitlines()]
        losses = [line["held_out_loss"] for line in lines if "participants" in line]
        self.assertIsNone(losses[0])
        self.assertNotIn(None, losses[1:])
        self.assertLess(losses[-1], losses[1])
        # Steps take next to no time beside an exchange: K grows, and what it did to the loss is judged.
        judged = [line["text"] for line in lines if line.get("event") in ("k_confirmed", "k_reverted")]
        self.assertTrue(any("held-out loss" in text and "->" in text for text in judged), judged)

    def test_a_killed_one_comes_back_and_catches_up(self):
        config = self.config(addresses=self.addresses, steps=200, k=10, codec="dense:int8,block=128", optimizer="sgd",
                             outer_lr=1.0)
        coordinators = self.coordinators(config)
        trainers = {region: self.trainer(region) for region in REGIONS[:2]}
        trap = self.directory / "trap"
        trap.write_text("worker.apply-told\n")
        self.finish(self.trainer(REGIONS[2], env={"CAUSEWAY_DIE_AT": str(trap)}), code=-signal.SIGKILL)
        trainers[REGIONS[2]] = self.trainer(REGIONS[2])
        self.check_ends([self.finish(trainer) for trainer in trainers.values()], loss_below=0.1)
        for coordinator in coordinators:
            self.finish(coordinator)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
