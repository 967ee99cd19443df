"""What tests of trainers that are not ours have in common: they are built against the installed package."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import DEADLINE_S, REGIONS, EndToEnd, free_port

BUILD = os.environ["CAUSEWAY_BUILD"]
SOURCE = os.environ["CAUSEWAY_SOURCE"]
SANITIZE = os.environ.get("CAUSEWAY_SANITIZE", "")  # a library built so needs programs built so
INSTALLED = os.environ.get("CAUSEWAY_INSTALLED")  # where CTest has this file leave both before; a test by hand makes its own


class OwnTrainer(EndToEnd):
    def setUp(self):
        super().setUp()
        if INSTALLED:
            self.prefix = pathlib.Path(INSTALLED) / "prefix"
        else:
            self.install(self.directory)

    def install(self, where):
        self.prefix = where / "prefix"
        self.call("cmake", "--install", BUILD, "--prefix", self.prefix)

    def call(self, *arguments, env=None):
        """Returns what it prints."""
        done = subprocess.run([*map(str, arguments)], cwd=self.directory, text=True, timeout=DEADLINE_S,
                              env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def built(self, example, where=None):
        """The program of a directory of examples/."""
        build = (where or self.directory) / example
        self.call("cmake", "-S", f"{SOURCE}/examples/{example}", "-B", build,
                  f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
                  f"-DCMAKE_CXX_FLAGS={'-fsanitize=' + SANITIZE if SANITIZE else ''}")
        self.call("cmake", "--build", build)
        return build / example

    @functools.cached_property
    def classifier(self):
        return pathlib.Path(INSTALLED) / "classifier/classifier" if INSTALLED else self.built("classifier")


class OwnTrainerByHand(OwnTrainer):
    def setUp(self):
        super().setUp()
        self.addresses = {region: f"127.0.0.1:{free_port()}" for region in REGIONS}
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *REGIONS)

    def coordinators(self, config, *flags_of_the_first):
        return [self.start("coordinator", config, "--region", region, "--directory", self.region(region),
                           *(["--found", *flags_of_the_first] if region == REGIONS[0] else ["--join"]))
                for region in REGIONS]

    def region(self, name):
        return self.out / "regions" / name

    def check_ends(self, outputs, loss_below):
        ends = [re.search(r"ends with loss ([\d.]+), parameters (\w+)", output) for output in outputs]
        self.assertTrue(all(ends), outputs)
        self.assertEqual(len({end[2] for end in ends}), 1, outputs)
        self.assertLess(float(ends[0][1]), loss_below)


class ForAll(OwnTrainer):
    """No test: what CTest calls before those that need it."""

    def setUp(self):
        EndToEnd.setUp(self)

    def test_it_is_installed_and_the_classifier_built(self):
        where = pathlib.Path(INSTALLED)
        shutil.rmtree(where, ignore_errors=True)
        where.mkdir()
        self.install(where)
        self.built("classifier", where)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
