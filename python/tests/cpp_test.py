"""A region of PyTorch and a region of a C++ program (examples/classifier/), which train the same model in one run."""
import os
import pathlib
import re
import subprocess
import unittest

from region_run import DEADLINE_S, ROOT, RegionRun

# Where ./check has built the C++ library.
BUILD = pathlib.Path(os.environ.get("CAUSEWAY_BUILD", ROOT / "build-check"))


@unittest.skipUnless((BUILD / "libcauseway.a").exists(), "needs the C++ library: run ./check, or set CAUSEWAY_BUILD")
class BesideCpp(RegionRun):
    regions = 2
    settings = dict(RegionRun.settings, steps=100, k=10, codec="topk:k=512,chunk=4096", optimizer="sgd", outer_lr=1.0)

    def call(self, *arguments):
        done = subprocess.run([*map(str, arguments)], cwd=self.directory, text=True, timeout=DEADLINE_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)

    def classifier(self):
        prefix, build = self.directory / "prefix", self.directory / "classifier"
        self.call("cmake", "--install", BUILD, "--prefix", prefix)
        self.call("cmake", "-S", ROOT / "examples" / "classifier", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
                  "-DCMAKE_BUILD_TYPE=Release")
        self.call("cmake", "--build", build)
        return build / "classifier"

    def test_both_end_with_the_same_bits(self):
        program = self.classifier()
        regions = [self.start_program(program, self.names[0], self.region(self.names[0])),
                   self.trainer("classifier.py", self.region(self.names[1]))]
        ends = [re.search(r"ends with loss ([\d.]+), parameters (\w+)", self.finish(one)) for one in regions]
        self.assertEqual(ends[0][2], ends[1][2])
        self.assertLess(float(ends[0][1]), 1.5)  # ln 8 = 2.08 untrained
        self.finish_coordinators()


if __name__ == "__main__":
    unittest.main()
