"""Runs with a region on a GPU, with doubles of CUDA's libraries in place of one (tests/gpu_double): the worker, the device step and outer
rounds are as they are shipped. bench/gpu.sh has the same runs on a GPU (CAUSEWAY_ON_GPU)."""
import os
import signal
import unittest
import unittest.mock

import harness
from harness import DENSE, REGIONS, SPARSE, EndToEnd, read_json, wait_until
from run_by_hand import RunByHand

ON_GPU = os.environ.get("CAUSEWAY_ON_GPU")
PROGRAM = os.environ.get("CAUSEWAY_ON_DOUBLE", ON_GPU)
with_two_gpus = unittest.skipIf(ON_GPU, "two GPUs are only on the double")


def on_gpu(config, region=REGIONS[0], **more):
    """The region's part of the file gets device = "cuda"; `more` is for the top."""
    text = config.read_text().replace(f'[[regions]]\nname = "{region}"\n', f'[[regions]]\nname = "{region}"\ndevice = "cuda"\n')
    for line, addition in more.items():
        text = text.replace(f"[{line}]\n", f"[{line}]\n{addition}\n")
    config.write_text(text)
    return config


class WithDouble:
    """As the program to test, the one with doubles."""

    def setUp(self):
        super().setUp()
        self.addCleanup(setattr, harness, "CAUSEWAY", harness.CAUSEWAY)
        harness.CAUSEWAY = PROGRAM

    def log_of(self, region, rank=0):
        return (self.out / "regions" / region / f"worker-{rank}.log").read_text()


@unittest.skipUnless(PROGRAM, "nvcc is not here, so there is no GPU path to try")
class GpuRegion(WithDouble, EndToEnd):
    def run_beside_cpus(self, config, *more):
        """The region trains as it would on CPUs: all of its steps, in one go, to the same loss. Rounds wait for it, as the double is slow on a
        busy machine."""
        config.write_text(config.read_text().replace("grace_min_s = 2", "grace_min_s = 60"))
        summary = self.simulate(config, "--no-baseline", *more)
        self.assert_identical(summary)
        region = next(region for region in summary["regions"] if region["name"] == REGIONS[0])
        self.assertEqual(region["steps"], summary["steps"])
        for rank in range(region["workers"]):
            self.assertRegex(self.log_of(REGIONS[0], rank), "GPU 0000:[0-9a-f]{2}:" if ON_GPU or rank else "GPU 0000:1a:00.0")
            self.assertNotIn("attaches again", self.log_of(REGIONS[0], rank))
        on_cpus = self.directory / "on-cpus.toml"
        on_cpus.write_text(config.read_text().replace('device = "cuda"\n', ""))
        self.run_causeway("simulate", on_cpus, "--out", self.directory / "on-cpus", "--no-baseline")
        same = next(region for region in read_json(self.directory / "on-cpus" / "summary.json")["regions"]
                    if region["name"] == REGIONS[0])
        self.assertAlmostEqual(region["loss"], same["loss"], delta=0.02 * same["loss"])

    def test_it_ends_with_the_bits_of_regions_on_cpus(self):
        self.run_beside_cpus(on_gpu(self.config(steps=30, **DENSE)))

    def test_it_does_so_in_bf16_with_a_sparse_codec_and_recomputation(self):
        self.run_beside_cpus(on_gpu(self.config(steps=30, **SPARSE), model='precision = "bf16"', train="recompute = 2"))

    def test_it_does_so_with_rounds_beside_its_steps_and_its_state_on_the_host(self):
        self.run_beside_cpus(on_gpu(self.config(steps=30, **DENSE), sync='variant = "eager"', train="offload_outer_state = true"))

    def test_it_does_so_as_a_llama_with_fragments_and_dropout(self):
        self.run_beside_cpus(on_gpu(self.config(steps=40, k=10, family="llama", **DENSE), sync='variant = "streaming"\nfragments = 2', model="dropout = 0.1"))

    def test_two_ranks_of_one_gpu_sum_by_way_of_the_host(self):
        self.run_beside_cpus(on_gpu(self.config(workers=(2, 1, 1), steps=30, **DENSE)))

    def test_it_does_so_with_muon_which_two_ranks_of_one_gpu_step_for_each_other(self):
        self.run_beside_cpus(on_gpu(self.config(workers=(2, 1, 1), steps=30, **DENSE), inner='optimizer = "muon"'))

    @with_two_gpus
    def test_two_ranks_of_two_gpus_sum_over_nccl(self):
        os.environ["CAUSEWAY_DOUBLE_GPUS"] = "2"
        self.addCleanup(os.environ.pop, "CAUSEWAY_DOUBLE_GPUS")
        self.run_beside_cpus(on_gpu(self.config(workers=(2, 1, 1), steps=30, **DENSE), inner='optimizer = "muon"'))
        self.assertIn("GPU 0000:1b:00.0", self.log_of(REGIONS[0], 1))
        self.assertNotIn("summed by way of the host", self.log_of(REGIONS[0]))

    @with_two_gpus
    def test_two_ranks_of_two_gpus_exchange_gradients_in_bf16_over_nccl(self):
        os.environ["CAUSEWAY_DOUBLE_GPUS"] = "2"
        self.addCleanup(os.environ.pop, "CAUSEWAY_DOUBLE_GPUS")
        self.run_beside_cpus(on_gpu(self.config(workers=(2, 2, 1), steps=30, **DENSE), train='bucket_precision = "bf16"'))
        self.assertNotIn("summed by way of the host", self.log_of(REGIONS[0]))

    def test_two_ranks_of_one_gpu_exchange_gradients_in_bf16_by_way_of_the_host(self):
        self.run_beside_cpus(on_gpu(self.config(workers=(2, 1, 1), steps=30, **DENSE), train='bucket_precision = "bf16"\nshard_optimizer = true'))

    def test_products_that_two_ranks_timed_give_the_same_bits_in_a_later_run(self):
        cache = self.directory / "cache"
        caches = unittest.mock.patch.dict(os.environ, XDG_CACHE_HOME=str(cache))
        caches.start()
        self.addCleanup(caches.stop)
        config = on_gpu(self.config(workers=(2, 1, 1), steps=30, **DENSE), train="time_products = true")
        self.run_beside_cpus(config)
        kept = (cache / "causeway" / "products").read_text()
        self.run_causeway("simulate", config, "--out", self.directory / "again", "--no-baseline")
        self.assertEqual((cache / "causeway" / "products").read_text(), kept)
        digests = {region["params_digest"] for out in (self.out, self.directory / "again") for region in read_json(out / "summary.json")["regions"]}
        self.assertEqual(len(digests), 1, digests)

    def test_it_is_interrupted_and_goes_on_with_the_same_bits(self):
        config = on_gpu(self.config(steps=150, **DENSE), train="checkpoint_rounds = 1")
        config.write_text(config.read_text().replace("checkpoint_rounds = 2\n", ""))
        run = self.start("simulate", config, "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status(REGIONS[0]).get("version", 0) > 3, "rounds", run)
        run.send_signal(signal.SIGINT)
        self.finish(run, code=130)
        self.run_beside_cpus(config, "--resume")


@with_two_gpus
@unittest.skipUnless(PROGRAM, "nvcc is not here, so there is no GPU path to try")
class GpuRegionByHand(WithDouble, RunByHand):
    def test_it_is_killed_and_loses_a_rank_and_ends_with_the_bits_of_the_others(self):
        """With a GPU for each rank."""
        os.environ["CAUSEWAY_DOUBLE_GPUS"] = "2"
        self.addCleanup(os.environ.pop, "CAUSEWAY_DOUBLE_GPUS")
        config = on_gpu(self.config(workers=(2, 1, 1), addresses=self.addresses, steps=700, **DENSE))
        coordinators, workers = self.start_coordinators(config), self.start_workers(config, (2, 1, 1))
        wait_until(lambda: self.version(REGIONS[0]) > 3, "rounds", coordinators[0])
        workers[1].kill()  # rank 1 of the region on the GPU
        workers[1].wait()
        status = self.region_directory(REGIONS[0]) / "status.json"
        wait_until(lambda: read_json(status).get("missing_ranks") == [1], "the rank to be missed", coordinators[0])
        workers[1] = self.worker(config, REGIONS[0], 1)
        wait_until(lambda: read_json(status).get("missing_ranks") == [], "the rank to be back", coordinators[0])
        for rank in range(2):
            workers[rank].kill()
            workers[rank].wait()
            workers[rank] = self.worker(config, REGIONS[0], rank)
        self.finish_all([*coordinators, *workers])
        self.assert_same_weights()
        self.assertNotIn("summed by way of the host", (self.region_directory(REGIONS[0]) / "worker-0.log").read_text())


if __name__ == "__main__":
    unittest.main()
