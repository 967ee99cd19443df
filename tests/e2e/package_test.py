"""The Debian package: what is in it runs, describes itself to shells and man, and pleases lintian."""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness
from harness import DENSE, EndToEnd

BUILD = pathlib.Path(os.environ["CAUSEWAY_BUILD"])
PACKED = os.environ.get("CAUSEWAY_PACKED")  # where CTest has this file pack before the tests; a test by hand packs its own
SPDX = pathlib.Path(os.environ["CAUSEWAY_SOURCE"]) / "build-tools/launchers/bin/pyspdxtools"


# The newest version of each library that a distribution from Ubuntu 22.04 on has.
OLDEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "OPENSSL": (3, 0, 0), "GOMP": (4, 5), "OMP": (5, 0)}
# Debian has no key of Ubuntu's: what comes is known by TLS, and inside by the keys that came.
UBUNTU = ("https://archive.ubuntu.com/ubuntu", "--no-check-gpg", "--components=main,universe")
GLIBC = re.compile(r"ld-linux-x86-64\.so\.2|lib(c|m|dl|rt|pthread|resolv)\.so\.\d+|linux-vdso\.so\.1")


def packed(where, kind, *flags):
    subprocess.run(["cpack", "-G", kind, "--config", BUILD / "CPackConfig.cmake", "-B", where, *flags], check=True, stdout=subprocess.DEVNULL)


def pack_and_extract(where):
    packed(where / "deb", "DEB", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=zstd")  # a quarter of gzip's time
    subprocess.run(["dpkg-deb", "--extract", next((where / "deb").glob("causeway_*.deb")), where / "root"], check=True)


def output_of(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def needed(file):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", file)))


@unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "a package is not made of what is built for sanitizers")
@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "this is no Debian")
@unittest.skipUnless(PACKED, "each test by hand packs its own")
class PackageForAll(unittest.TestCase):
    """No test: what CTest calls before those that need it."""

    def test_it_is_packed(self):
        shutil.rmtree(PACKED, ignore_errors=True)
        pack_and_extract(pathlib.Path(PACKED))


@unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "a package is not made of what is built for sanitizers")
@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "this is no Debian")
class Package(EndToEnd):
    def setUp(self):
        super().setUp()
        where = pathlib.Path(PACKED) if PACKED else self.directory
        if not PACKED:
            pack_and_extract(where)
        self.deb = where / "deb"
        self.package = next(self.deb.glob("causeway_*.deb"))
        self.root = where / "root"
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
        self.assertEqual(self.completed("causeway", "certs", "add"), ["add-region", "add-observer", "add-follower"])
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

    def test_it_runs_where_glibc_is_2_34_and_names_the_packages_of_all_that_it_does_not_bring(self):
        bundle = sorted((self.root / "usr/lib/causeway").iterdir())
        loaded = [self.program, self.root / "usr/lib/libcauseway.so.1", *bundle]
        for file in loaded:
            for name, version in re.findall(r"\b([A-Z]+)_([\d.]+)\b", output_of("objdump", "-T", file)):
                if name in OLDEST:
                    self.assertLessEqual(tuple(map(int, version.split("."))), OLDEST[name], f"{file.name} wants {name}_{version}")
        depends = output_of("dpkg-deb", "--field", self.package, "Depends")
        brought = {file.name for file in bundle}
        for library in sorted(set().union(*map(needed, loaded)) - brought):
            if not GLIBC.fullmatch(library):
                found = next(line.split()[-1] for line in output_of("/sbin/ldconfig", "-p").splitlines() if line.split()[0] == library)
                # By its name alone: /lib is /usr/lib by now, which dpkg does not know.
                packages = {line.split(":")[0] for line in output_of("dpkg", "-S", f"*/{pathlib.Path(found).resolve().name}").splitlines()}
                self.assertTrue(packages & set(re.split(r"[ ,|]+", depends.strip())), f"{library} is in {packages}")

    @unittest.skipUnless(os.environ.get("CAUSEWAY_HAS_CUDA") == "1", "this build has no CUDA")
    def test_one_package_does_with_gpus_and_without(self):
        self.assertFalse([name for name in needed(self.program) if "cu" in name.lower()])  # opened at run time
        self.assertIn("libnccl2", output_of("dpkg-deb", "--field", self.package, "Suggests"))
        self.assertIn("libcublasLt.so", self.program.read_bytes().decode("latin-1"))
        self.assertNotIn("was built without CUDA", self.program.read_bytes().decode("latin-1"))

    def test_it_is_hardened(self):
        for file in (self.program, self.root / "usr/lib/libcauseway.so.1"):
            self.assertIn("GNU_RELRO", output_of("readelf", "-lW", file))
            self.assertRegex(output_of("readelf", "-d", file), r"BIND_NOW|FLAGS.*NOW")
        self.assertIn("DYN (Position-Independent Executable", output_of("readelf", "-h", self.program))
        # Packages for users are of the preset `package`, which fortifies, too.
        if "-D_FORTIFY_SOURCE=2" in (BUILD / "CMakeCache.txt").read_text():
            self.assertRegex(output_of("objdump", "-T", self.program), r"__\w+_chk\b")

    def test_its_units_are_where_systemd_looks(self):
        for file in ("systemd/system/causeway-coordinator.service", "systemd/system/causeway-worker@.service", "sysusers.d/causeway.conf"):
            self.assertTrue((self.root / "usr/lib" / file).exists(), file)

    def test_what_builds_programs_is_a_package_of_its_own(self):
        contents = output_of("dpkg-deb", "--contents", next(self.deb.glob("causeway-dev_*.deb")))
        for file in ("include/causeway/worker.h", "include/causeway/causeway.h", "include/causeway/wan.h", "lib/libcauseway.a", "lib/libcauseway.so", "lib/cmake/causeway/causeway-config.cmake",
                     "lib/pkgconfig/causeway.pc"):
            self.assertIn(f"./usr/{file}", contents)
        self.assertFalse((self.root / "usr/include").exists())

    def test_the_archive_brings_all_but_glibc(self):
        packed(self.directory / "archive", "TZST")
        archive = next((self.directory / "archive").glob("*.tar.zst"))
        self.assertIn("glibc2.36", archive.name)
        subprocess.run(["tar", "--extract", "--zstd", "--file", archive, "--directory", self.directory], check=True)
        program = self.directory / archive.name.removesuffix(".tar.zst") / "bin/causeway"
        self.assertIn("causeway 0.1.0", output_of(program, "--version"))
        bundle = program.parent.parent / "lib/causeway"
        for file in (program, *bundle.iterdir()):
            for version in re.findall(r"\bGLIBC_([\d.]+)\b", output_of("objdump", "-T", file)):
                self.assertLessEqual(tuple(map(int, version.split("."))), (2, 36), file.name)
        for line in output_of("ldd", program).splitlines():
            name, _, place = line.partition(" => ")
            if not GLIBC.fullmatch(pathlib.Path(name.split()[0]).name):
                self.assertEqual(pathlib.Path(place.split()[0]).resolve().parent, bundle.resolve(), line)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not here: ./check --launchers installs it")
    def test_lintian_has_no_complaint(self):
        packed(self.directory / "as_shipped", "DEB")
        done = subprocess.run(["lintian", *(self.directory / "as_shipped").glob("*.deb")], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))


@unittest.skipUnless(os.environ.get("CAUSEWAY_DISTRIBUTIONS"), "fetches whole distributions: ./check --launchers")
@unittest.skipUnless(shutil.which("debootstrap") and os.geteuid() == 0, "debootstrap is not here, or this is not root: ./check --launchers")
class Portable(EndToEnd):
    """The package in bare systems of other distributions than the one that made it."""

    def runs_in(self, suite, mirror=None, *flags, script=None):
        root = self.directory / suite
        place = [word for word in (mirror, script) if word]
        subprocess.run(["debootstrap", "--variant=minbase", *flags, suite, root, *place], check=True, capture_output=True)
        sources = root / "etc/apt/sources.list"
        sources.write_text(sources.read_text().replace("https:", "http:"))
        packed(self.directory / "deb", "DEB")
        package = next((self.directory / "deb").glob("causeway_*.deb"))
        shutil.copy(package, root)
        shutil.copy("/etc/resolv.conf", root / "etc")
        # With /proc, by which older systems know where a program lies.
        inside = ["unshare", "--mount", "--pid", "--fork", f"--root={root}", "--mount-proc", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]
        installed = subprocess.run([*inside, "apt-get", "install", "-y", "--no-install-recommends", f"/{package.name}"], capture_output=True, text=True, check=False)
        self.assertEqual(installed.returncode, 0, installed.stdout + installed.stderr)
        config = self.config(steps=10, text="text", wan="wan.toml", **DENSE)
        for file in (config, self.directory / "text", self.directory / "wan.toml"):
            shutil.copy(file, root)
        # /run is the system's.
        done = subprocess.run([*inside, "sh", "-c", "cd / && causeway simulate config.toml --no-baseline --out trained"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_identical(harness.read_json(root / "trained/summary.json"))

    def test_ubuntu_22_04(self):
        self.runs_in("jammy", *UBUNTU)

    def test_ubuntu_24_04(self):
        # Debian 12's debootstrap does not know the name; all since gutsy are made alike.
        self.runs_in("noble", *UBUNTU, script="/usr/share/debootstrap/scripts/gutsy")

    def test_debian_13(self):
        self.runs_in("trixie")


if __name__ == "__main__":
    unittest.main()
