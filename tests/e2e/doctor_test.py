"""`causeway doctor`: faults that are planted are found and named, and a good run has none."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import unittest

from harness import REGIONS, change_a_byte, free_port, large_data, namespaces_allowed, wait_until, zero_a_megabyte
from run_by_hand import RunByHand

SLOW_DISK = """
#include <time.h>
#include <unistd.h>
int fsync(int file) { struct timespec pause = {0, 700000000}; (void)file; return nanosleep(&pause, 0); }
int fdatasync(int file) { return fsync(file); }
"""


# Two hosts and a bridge between them that drops, in silence, what is larger than 1,400 bytes. Arguments: for each host its command.
MTU_HOLE = """
ip link add bridge type bridge && ip link set bridge up || exit 9
for host in 1 2; do
  unshare --net sleep 600 & holder=$!
  until [ "$(readlink /proc/$holder/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
  ip link add port$host type veth peer name eth0 netns $holder || exit 9
  ip link set port$host master bridge mtu 1400 up
  inside="nsenter --net=/proc/$holder/ns/net"
  $inside ip address add 10.9.0.$host/24 dev eth0
  $inside ip link set eth0 gso_max_segs 1 up
  $inside ip link set lo up
  eval "$inside $1 > doctor-$host.json &"
  doctors="$doctors $!" holders="$holders $holder"
  shift
done
for doctor in $doctors; do wait $doctor; done
kill $holders
"""


# Two hosts and a bridge between them. What others send to 10.9.0.101, which the first host advertises, is lost without a
# word: a firewall there lets nothing in. What that host dials itself is answered. Arguments: for each host its command.
FIREWALL = MTU_HOLE.replace("mtu 1400 ", "").replace("  $inside ip link set lo up\n", """  $inside ip link set lo up
  $inside ip neighbour add 10.9.0.101 lladdr 02:00:00:00:00:99 dev eth0 nud permanent
  [ $host = 2 ] || $inside ip address add 10.9.0.101/32 dev lo
""")


class Doctor(RunByHand):
    def setUp(self):
        super().setUp()
        self.file = self.config(addresses=self.addresses)

    def text(self, **changed):
        """The configuration with some texts replaced, in a file of its own."""
        text = self.file.read_text()
        for old, new in changed.values():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.directory / f"changed-{len(list(self.directory.glob('changed-*')))}.toml"
        path.write_text(text)
        return path

    def start_doctor(self, config, region, *flags, wait=60, before=(), env=None, directory=None):
        words = [*before, os.environ["CAUSEWAY"], "doctor", config, "--region", region, "--directory",
                 directory or self.region_directory(region), "--json", "--wait", str(wait), *flags]
        child = subprocess.Popen([str(word) for word in words], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, env=dict(os.environ, **(env or {})))
        self.children.append(child)
        return child

    def findings(self, child):
        said, errors = child.communicate(timeout=240)
        self.assertIn(child.returncode, (0, 3), errors)
        report = json.loads(said)
        failed = [finding for finding in report["findings"] if finding["grade"] == "fail"]
        self.assertEqual((len(failed), child.returncode), (report["failed"], 3 if failed else 0))
        for finding in report["findings"]:
            self.assertEqual(bool(finding["advice"]), finding["grade"] != "ok", finding)
        return {finding["subject"]: (finding["grade"], finding["text"]) for finding in report["findings"]}

    def examine(self, configs, **of_region):
        """What the doctors of all regions find, which run at the same time."""
        children = {region: self.start_doctor(config, region, **of_region.get(region.replace("-", "_"), {}))
                    for region, config in zip(REGIONS, configs)}
        return {region: self.findings(child) for region, child in children.items()}

    def assert_found(self, findings, subject, grade, text):
        self.assertIn(subject, findings)
        self.assertIn(findings[subject][0], grade.split("|"), findings[subject])
        self.assertRegex(findings[subject][1], text)

    def test_whoever_may_only_look_sees_that_a_region_is_checked_and_no_settings(self):
        self.run_causeway("certs", "--directory", "certificates", "add-observer", "watch")
        doctor = self.start_doctor(self.file, REGIONS[0], wait=30)
        ask = [os.environ["CAUSEWAY"], "status", self.addresses[REGIONS[0]], "--certificates", "certificates", "--as", "watch"]

        def answered(*more):
            asked = subprocess.run([*ask, *more], cwd=self.directory, capture_output=True, text=True)
            return asked.stdout if asked.returncode == 0 else ""

        told = wait_until(lambda: answered("--json"), "an answer", doctor)
        self.assertEqual(set(json.loads(told)), {"region", "waiting"}, told)
        self.assertIn("causeway doctor", answered())
        doctor.kill()

    def test_nothing_fails_where_all_is_well(self):
        for region, findings in self.examine([self.file] * 3).items():
            self.assertEqual([], [each for each in findings.items() if each[1][0] == "fail"], region)
            others = sorted(set(REGIONS) - {region})
            self.assert_found(findings, "own address", "ok", f"reached from {others[0]}, {others[1]}")
            for other in others:
                self.assert_found(findings, f"link to {other}", "ok", r"[1-9][\d.]* Mbit/s sent.*an exchange takes (about|less than)")
                self.assert_found(findings, f"clock of {other}", "ok", "ours")
                self.assert_found(findings, f"configuration of {other}", "ok", "the same")
        self.assertFalse((self.region_directory(REGIONS[0]) / "doctor").exists())

    def test_a_run_may_require_it(self):
        require = self.text(run=("[run]\n", "[run]\nrequire_doctor = true\n"))
        coordinator = self.coordinator(require, REGIONS[0], "--found")
        self.assertIn("` has not run here", self.finish(coordinator, code=2))
        self.findings(self.start_doctor(require, REGIONS[0], wait=0))
        coordinator = self.coordinator(require, REGIONS[0], "--found")
        self.assertIn("something that must be mended", self.finish(coordinator, code=2))
        self.examine([require] * 3)
        other = self.text(steps=("steps = ", "steps = 1"))
        coordinator = self.coordinator(other, REGIONS[0], "--found", "--set", "run.require_doctor=true")
        self.assertIn("another configuration", self.finish(coordinator, code=2))
        children = [self.coordinator(require, region, "--found" if region == REGIONS[0] else "--join") for region in REGIONS]
        self.finish_all([*children, *self.start_workers(require, (1, 1, 1))])

    def test_what_one_region_has_and_the_others_have_not(self):
        (self.directory / "other-text").write_text((self.directory / "text").read_text()[::-1])
        found = self.examine([self.file, self.text(lr=("lr = 3e-3", "lr = 4e-3")), self.text(data=('/text"', '/other-text"'))])
        self.assert_found(found["us-east"], "configuration of eu-west", "fail", r"inner.lr = 0.003 here, 0.004 in eu-west")
        self.assert_found(found["eu-west"], "configuration of us-east", "fail", r"inner.lr")
        self.assert_found(found["us-east"], "data of ap-northeast", "fail", "not the same files as here")
        self.assert_found(found["us-east"], "data of eu-west", "ok", "the same, every byte")

    def test_data_that_differs_in_one_byte_or_a_hole_in_its_middle(self):
        views, changes = [], (lambda data: None, change_a_byte, zero_a_megabyte)
        for number, change in enumerate(changes):
            data = large_data()
            change(data)
            (self.directory / f"large-{number}").write_bytes(data)
            views.append(self.text(data=('/text"', f'/large-{number}"')))
        for number, (flags, grade, text) in enumerate((
                ((), "fail", "not the same files as here"),
                (("--set", "data.digest_gib=0.01"), "warn", "a sample is the same; the rest was not read"),
                (("--set", "data.digest_gib=0.01", "--whole-data"), "fail", "not the same files as here"))):
            children = [self.start_doctor(view, region, *flags, directory=self.directory / f"look-{number}" / region)
                        for region, view in zip(REGIONS, views)]
            found = self.findings(children[0])
            for child in children[1:]:
                self.findings(child)
            for region in REGIONS[1:]:
                self.assert_found(found, f"data of {region}", grade, text)
            self.assert_found(found, "data", "warn" if grade == "warn" else "ok",
                              "a sample of it read" if grade == "warn" else "every byte read")

    def test_addresses_that_lead_nowhere_or_elsewhere(self):
        east, west, asia = (self.addresses[region] for region in REGIONS)
        nowhere = f"127.0.0.1:{free_port()}"
        # Each region has its own view: a name that no server knows, a port that nobody listens on, another region's address.
        views = (self.text(west=(f'advertise = "{west}"', 'advertise = "no-such-host.invalid:4700"')),
                 self.text(east=(f'advertise = "{east}"', f'advertise = "{asia}"')),
                 self.text(east=(f'advertise = "{east}"', f'advertise = "{nowhere}"')))
        found = self.examine(views, **{name: dict(wait=20) for name in ("us_east", "eu_west", "ap_northeast")})
        self.assert_found(found["us-east"], "address of eu-west", "fail", "no-such-host.invalid")
        self.assert_found(found["us-east"], "own address", "fail", f"not reached from .*ap-northeast.*{nowhere}")
        self.assert_found(found["eu-west"], "address of us-east", "fail", "answered by ap-northeast")
        self.assert_found(found["ap-northeast"], "address of us-east", "fail", "Connection refused")

    def test_an_address_that_leads_to_another_region(self):
        east, asia = self.addresses["us-east"], self.addresses["ap-northeast"]
        elsewhere = asia.replace("127.0.0.1", "localhost")  # another name of it
        file = self.text(east=(f'advertise = "{east}"', f'advertise = "{elsewhere}"'))
        found = self.examine([file] * 3, **{name: dict(wait=20) for name in ("us_east", "eu_west", "ap_northeast")})
        self.assert_found(found["us-east"], "own address", "fail",
                          f"not reached from ap-northeast .*answered by ap-northeast.*eu-west .*{elsewhere} is answered by ap-northeast")
        for region in ("eu-west", "ap-northeast"):
            self.assert_found(found[region], "address of us-east", "fail", f"{elsewhere} is answered by ap-northeast")
            self.assert_found(found[region], "own address", "ok", "reached from")

    def test_a_region_that_says_nothing_is_not_taken_for_one_that_reaches_us(self):
        children = [self.start_doctor(self.file, region, wait=8) for region in REGIONS[:2]]
        for found, other in zip(map(self.findings, children), (REGIONS[1], REGIONS[0])):
            self.assert_found(found, "own address", "warn", f"reached from {other}; not known from ap-northeast")

    @unittest.skipUnless(shutil.which("faketime"), "faketime is not here: ./check installs it")
    def test_a_clock_that_is_wrong(self):
        fake = dict(before=("faketime", "-f", "+1h"), env={"FAKETIME_DONT_FAKE_MONOTONIC": "1"})
        found = self.examine([self.file] * 3, eu_west=fake)
        self.assert_found(found["us-east"], "clock of eu-west", "fail", r"3\d\d\d s ahead of ours")
        self.assert_found(found["eu-west"], "clock of us-east", "fail", r"3\d\d\d s behind ours")
        self.assert_found(found["us-east"], "clock of ap-northeast", "ok", ".")
        late = dict(before=("faketime", "-f", "+400d"), env={"FAKETIME_DONT_FAKE_MONOTONIC": "1"}, wait=0)
        self.assert_found(self.findings(self.start_doctor(self.file, REGIONS[0], **late)), "certificate", "fail", "expired")

    def test_certificates_that_nobody_believes(self):
        self.run_causeway("certs", "--directory", "others", "init")
        self.run_causeway("certs", "--directory", "others", "add-region", *REGIONS)
        children = [self.start_doctor(self.file, region, *(("--certificates", "others") if region == "eu-west" else ()), wait=15)
                    for region in REGIONS]
        found = dict(zip(REGIONS, map(self.findings, children)))
        self.assert_found(found["us-east"], "address of eu-west", "fail", "certificate")
        self.assert_found(found["us-east"], "address of ap-northeast", "ok", ".")
        self.run_causeway("certs", "--directory", "others", "revoke", "eu-west")
        shutil.copy(self.directory / "others" / "ca.crl", self.directory / "certificates" / "ca.crl")
        self.assert_found(self.one(), "certificate", "fail", "revocation list .*ca.crl is not from the authority")
        (self.directory / "certificates" / "ca.crl").unlink()
        key = self.directory / "certificates" / "us-east.key"
        key.chmod(0o644)
        self.assert_found(self.one(), "certificate", "fail", "us-east.key")
        key.chmod(0o600)
        shutil.copy(self.directory / "certificates" / "eu-west.crt", self.directory / "certificates" / "us-east.crt")
        self.assert_found(self.one(), "certificate", "fail", "us-east")

    def one(self, *flags, config=None, **more):
        return self.findings(self.start_doctor(config or self.file, REGIONS[0], *flags, wait=0, **more))

    def shell(self, command):
        return dict(before=("sh", "-c", f'{command}; exec "$@"', "sh"))

    def few_files(self, disk, inodes, fill=""):
        """A disk that takes so many files, or none any more."""
        command = f"mount -t tmpfs -o size=1g,nr_inodes={inodes} none {disk} && mkdir {disk}/us-east"
        if fill:
            command += f'; n=0; while touch {disk}/$n 2> /dev/null; do n=$((n + 1)); done'
        return dict(before=("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{command}; exec "$@"', "sh"))

    def test_what_a_host_lacks(self):
        big = ("--set", "model.width=8192", "--set", "model.layers=64", "--set", "model.heads=64", "--set", "model.kv_heads=64",
               "--set", "sync.spool_gib=1000000")
        disk = self.directory / "disk"
        disk.mkdir()
        file = self.directory / "a-file"
        file.touch()
        planted = (
            ("open files", "fail", "may open 100 files", self.one(**self.shell("ulimit -n 100"))),
            ("file size", "fail", "a snapshot has", self.one(**self.shell("ulimit -f 2"))),
            ("address space", "fail", "at most 1.54 GB of addresses", self.one(**self.shell("ulimit -v 1500000"))),
            ("disk files", "fail", r"\d+ more files may be made", self.one(directory=disk / "us-east", **self.few_files(disk, 40))),
            ("disk", "fail", "it has no inode left", self.one(directory=disk / "us-east", **self.few_files(disk, 40, "fill"))),
            ("OpenMP", "warn", "64 threads", self.one(env={"OMP_NUM_THREADS": "64"})),
            ("OpenMP", "warn", "active", self.one(env={"OMP_WAIT_POLICY": "active"})),
            ("memory", "fail", "a worker needs", self.one(*big)),
            ("disk room", "fail", "the run needs", self.one(*big)),
            ("disk", "fail", "a-file", self.one(directory=file)),
            ("data", "fail", "nothing-there", self.one("--set", 'data.files=["nothing-there"]')),
            ("configuration", "fail", "sync.spool_gib", self.one("--set", "sync.spool_gib=0.001", "--set", "model.width=512")),
            ("congestion control", "fail", "no-such", self.one("--set", "links.congestion_control=no-such")),
            ("listening", "fail", "192.0.2.1", self.one("--listen", "192.0.2.1:4700")),
        )
        for subject, grade, text, findings in planted:
            with self.subTest(subject):
                self.assert_found(findings, subject, grade, text)

    def test_a_port_that_another_program_has(self):
        host, port = self.addresses[REGIONS[0]].split(":")
        with socket.create_server((host, int(port))):
            self.assert_found(self.one(), "listening", "fail", port)

    def test_a_gpu_that_is_not_there(self):
        if pathlib.Path("/dev/nvidia0").exists():
            self.skipTest("a GPU is here")
        config = self.text(device=(f'name = "{REGIONS[0]}"', f'name = "{REGIONS[0]}"\ndevice = "cuda"'))
        self.assert_found(self.one(config=config), "GPU 0", "fail", ".")

    def test_a_core_that_is_busy_with_something_else(self):
        spinner = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        try:
            self.assert_found(self.one(), "load", "warn", r"cores were busy.*most with")
        finally:
            spinner.kill()
            spinner.wait()

    def test_a_disk_that_is_slow(self):
        (self.directory / "slow.c").write_text(SLOW_DISK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "slow.so", "slow.c"], cwd=self.directory, check=True)
        found = self.one(env={"LD_PRELOAD": str(self.directory / "slow.so")})
        self.assert_found(found, "disk speed", "fail", r"writing takes \d{3,} ms")

    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_a_path_that_drops_large_packets(self):
        addresses = dict(zip(REGIONS, ("10.9.0.1:4700", "10.9.0.2:4700", "10.9.0.3:4700")))
        config = self.config(addresses=addresses)
        doctors = [f"{os.environ['CAUSEWAY']} doctor {config} --region {region} --directory {self.region_directory(region)} --json --wait 20"
                   for region in REGIONS[:2]]
        subprocess.run(["unshare", "--user", "--net", "--map-root-user", "sh", "-c", MTU_HOLE, "sh", *doctors], cwd=self.directory,
                       check=True, timeout=120)
        for host, other in ((1, "eu-west"), (2, "us-east")):
            report = json.loads((self.directory / f"doctor-{host}.json").read_text())
            found = {each["subject"]: (each["grade"], each["text"]) for each in report["findings"]}
            self.assert_found(found, f"address of {other}", "fail", "answers to small packets alone")

    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_a_firewall_that_lets_nothing_in(self):
        config = self.config(addresses=dict(zip(REGIONS, ("10.9.0.101:4700", "10.9.0.2:4700", "10.9.0.3:4700"))))
        doctors = [f"{os.environ['CAUSEWAY']} doctor {config} --region {region} --directory {self.region_directory(region)} --json --wait 15"
                   for region in REGIONS[:2]]
        subprocess.run(["unshare", "--user", "--net", "--map-root-user", "sh", "-c", FIREWALL, "sh", *doctors], cwd=self.directory,
                       check=True, timeout=120)
        reports = [json.loads((self.directory / f"doctor-{host}.json").read_text()) for host in (1, 2)]
        inside, outside = ({each["subject"]: (each["grade"], each["text"]) for each in report["findings"]} for report in reports)
        self.assert_found(outside, "address of us-east", "fail", "no answer")
        self.assert_found(inside, "address of eu-west", "ok", "reached")
        self.assert_found(inside, "own address", "fail", "not reached from eu-west .*no answer")

    def test_an_interpreter_without_the_package(self):
        start = self.file.read_text().index("[data]")
        own = self.directory / "own.toml"
        text = self.file.read_text()
        own.write_text(text[:start] + text[text.index("[train]"):])
        self.assert_found(self.one("--python", "no-such-python", config=own), "Python", "warn", "no-such-python")

    def test_a_region_whose_coordinator_runs(self):
        coordinator = self.coordinator(self.file, REGIONS[1], "--found")
        children = [self.start_doctor(self.file, REGIONS[0], wait=15),
                    self.start_doctor(self.text(lr=("lr = 3e-3", "lr = 4e-3")), REGIONS[2], wait=15)]
        east, asia = map(self.findings, children)
        self.assert_found(east, "address of eu-west", "ok", "coordinator runs with the same settings")
        self.assert_found(asia, "address of eu-west", "fail", "coordinator runs with other settings")
        self.assertIsNone(coordinator.poll(), coordinator.log.read_text())
        coordinator.kill()


if __name__ == "__main__":
    unittest.main()
