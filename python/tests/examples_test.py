"""Every Python example in three regions of a simulated WAN, and the loops of other libraries, with the real ones."""
import importlib.util
import re
import sys
import unittest

from run_test import REGIONS, SOURCE, InARun

PYTHON = sys.executable
TORCHRUN = f"{PYTHON} -m torch.distributed.run --standalone --nproc-per-node 2"


def needs(*libraries):
    missing = [name for name in libraries if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Examples(InARun):
    def run_example(self, command, loss_below, steps=60):
        self.simulate(self.program_config(steps=steps), command)
        self.check_end(loss_below)
        self.assertIn("verified: one history", self.run_causeway("verify", self.out))
        self.check_that_a_late_start_takes_no_step(command)

    def check_that_a_late_start_takes_no_step(self, command):
        """In a run that is over: the script ends well, with the run's bits."""
        region = self.region(REGIONS[1])
        again = self.start_program("/bin/sh", "-c", command, env={"CAUSEWAY_REGION": REGIONS[1], "OMP_NUM_THREADS": "1",
                                                                  "CAUSEWAY_DIRECTORY": str(region)})
        self.finish(again)
        self.assertEqual(self.end_of(again.log)[1], self.end_of(region / "worker-0.log")[1])

    @needs("numpy")
    def test_numpy(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/numpy/regression.py", loss_below=0.5)  # 0.69 untrained

    @needs("jax")
    def test_jax(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/jax/train.py", loss_below=0.3)

    def test_two_optimizers(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/pytorch/two_optimizers.py", loss_below=1.2)

    def test_epochs_in_a_loop_of_the_programs_own(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/pytorch/epochs.py", loss_below=1.2)

    def test_batch_norm_evaluates_alike_in_every_region(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/pytorch/batch_norm.py", loss_below=1.5)
        logs = [(self.region(name) / "worker-0.log").read_text() for name in REGIONS]
        self.assertEqual(len({re.search(r"accuracy ([\d.]+)", log)[1] for log in logs}), 1)

    def test_lora_sends_adapters_alone(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/pytorch/lora.py", loss_below=1.2)

    def test_fsdp2(self):
        self.run_example(f"{TORCHRUN} {SOURCE}/examples/pytorch/fsdp.py", loss_below=1.2, steps=30)

    @needs("transformers", "accelerate")
    def test_hugging_face_trainer(self):
        self.run_example(f"{PYTHON} {SOURCE}/examples/pytorch/hugging_face.py", loss_below=2.3, steps=40)

    @needs("accelerate")
    def test_accelerate_needs_nothing_of_its_own(self):
        self.run_example(f"{PYTHON} {SOURCE}/python/tests/trainers/with_accelerate.py", loss_below=1.2, steps=40)

    @needs("lightning")
    def test_lightning(self):
        self.run_example(f"{PYTHON} {SOURCE}/python/tests/trainers/with_lightning.py", loss_below=1.2, steps=40)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
