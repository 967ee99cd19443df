"""A project outside the tree builds against what `cmake --install` leaves, with GCC and with clang."""
import os
import shutil
import subprocess
import unittest

from own_trainer import SOURCE, OwnTrainer

CLANG = shutil.which("clang++-14") or shutil.which("clang++")


@unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "GCC's sanitizers are not clang's")
class Installed(OwnTrainer):
    def configured(self, cxx, *more):
        project = self.directory / "project"
        if not project.exists():
            shutil.copytree(f"{SOURCE}/tests/e2e/installed", project)
        build = self.directory / "build"
        return build, subprocess.run(
            ["cmake", "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}", f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_C_COMPILER={cxx.replace('clang++', 'clang').replace('g++', 'gcc')}",
             f"-DEXAMPLES={SOURCE}/examples", *more], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def builds_and_runs(self, cxx):
        build, done = self.configured(cxx)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.call("cmake", "--build", build)
        self.assertIn("arrived: x", self.call(build / "sessions", self.directory / "wan.toml"))
        self.assertIn("0.1.", self.call(build / "wrong_call"))
        # The C functions come from the static library.
        self.assertNotIn("libcauseway", self.call("ldd", build / "wrong_call"))

    def test_gcc_builds_a_project_outside_the_tree(self):
        self.builds_and_runs(shutil.which("g++"))

    @unittest.skipUnless(CLANG, "clang is not here")
    def test_clang_builds_a_project_outside_the_tree(self):
        self.builds_and_runs(CLANG)

    def test_a_test_with_googletest_has_a_wan(self):
        self.assertIn("[  PASSED  ] 3 tests", self.call(self.built("wan-gtest")))

    def test_a_project_that_wants_another_minor_version_is_refused(self):
        project = self.directory / "project"
        shutil.copytree(f"{SOURCE}/tests/e2e/installed", project)
        lists = project / "CMakeLists.txt"
        lists.write_text(lists.read_text().replace("causeway 0.1 ", "causeway 0.2 "))
        _, done = self.configured(shutil.which("g++"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("0.1.0", done.stdout)


if __name__ == "__main__":
    unittest.main()
