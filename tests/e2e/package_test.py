"""The Debian package: what is in it runs, describes itself to shells and man, and pleases lintian."""
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import unittest

import harness
from harness import DENSE, EndToEnd

BUILD = pathlib.Path(os.environ["CAUSEWAY_BUILD"])
SPDX = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "build-tools/launchers/bin/pyspdxtools"


@unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "a package is not made of what is built for sanitizers")
@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "this is no Debian")
class Package(EndToEnd):
    def setUp(self):
        super().setUp()
        subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", self.directory / "deb"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.package = next((self.directory / "deb").glob("*.deb"))
        self.root = self.directory / "root"
        subprocess.run(["dpkg-deb", "--extract", self.package, self.root], check=True)
        self.program = self.root / "usr/bin/causeway"

    def completed(self, *words):
        """What bash offers for the last word."""
        script = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _causeway; echo "${COMPREPLY[@]}"'
        return subprocess.run(["bash", "-c", script, self.root / "usr/share/bash-completion/completions/causeway", *words],
                              capture_output=True, text=True, check=True).stdout.split()

    def test_what_is_in_it_trains_and_is_complete(self):
        self.addCleanup(setattr, harness, "CAUSEWAY", harness.CAUSEWAY)
        harness.CAUSEWAY = str(self.program)
        self.assert_identical(self.simulate(self.config(steps=10, **DENSE), "--no-baseline"))
        documentation = self.root / "usr/share/doc/causeway"
        for name in ("copyright", "changelog.gz", "README.md", "docs/launch.md", "examples/configs/quickstart.toml",
                     "examples/deploy/slurm/region.sbatch", "examples/deploy/systemd/causeway-worker@.service"):
            self.assertTrue((documentation / name).exists(), name)
        page = gzip.decompress((self.root / "usr/share/man/man1/causeway.1.gz").read_bytes()).decode()
        for command in subprocess.run([self.program, "--help"], capture_output=True, text=True, check=True).stdout.split("Subcommands:")[1].splitlines():
            if command.startswith("  ") and command[2] != " ":
                self.assertIn(f".SS causeway {command.split()[0]}".replace("-", "\\-"), page)

    def test_shells_complete_commands_options_and_values(self):
        self.assertEqual(self.completed("causeway", "sim"), ["simulate"])
        self.assertEqual(self.completed("causeway", "certs", "add"), ["add-region", "add-observer"])
        self.assertEqual(self.completed("causeway", "simulate", "run.toml", "--wan", ""), ["relay", "none", "packet"])
        self.assertIn("--auto", self.completed("causeway", "coordinator", "run.toml", "--"))
        for shell, file in (("fish", "fish/vendor_completions.d/causeway.fish"), ("zsh", "zsh/vendor-completions/_causeway")):
            if shutil.which(shell):
                subprocess.run([shell, "-n", self.root / "usr/share" / file], check=True)

    def test_its_bill_of_materials_names_what_the_program_loads(self):
        bill = json.loads((self.root / "usr/share/doc/causeway/causeway.spdx.json").read_text())
        names = {package["name"] for package in bill["packages"]}
        for name in ("causeway", "libssl3", "libarchive13", "libasio-dev"):
            self.assertIn(name, names)

    @unittest.skipUnless(SPDX.exists(), "spdx-tools are not here: ./check --launchers fetches them")
    def test_its_bill_of_materials_is_valid(self):
        done = subprocess.run([SPDX, "-i", self.root / "usr/share/doc/causeway/causeway.spdx.json"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not here: ./check --launchers installs it")
    def test_lintian_has_no_complaint(self):
        done = subprocess.run(["lintian", self.package], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
