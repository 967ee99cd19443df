"""What a process lacks at its start and the world may mend is waited for, with a line, and then ends it with exit code 75."""
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import unittest

from harness import CAUSEWAY, REGIONS, free_port, namespaces_allowed, wait_until
from run_by_hand import RunByHand

AT_ONCE = ("--start-wait", "0")
TRY_AGAIN = 75


class Start(RunByHand):
    def setUp(self):
        super().setUp()
        self.configured = self.config(addresses=self.addresses)

    def command(self, *flags, subcommand="coordinator"):
        return (CAUSEWAY, subcommand, self.configured, "--region", REGIONS[0], "--directory", self.region_directory(REGIONS[0]), *flags)

    def first(self, *flags):
        return self.start_program(*self.command("--found", *flags))

    def in_mounts(self, mount, *command):
        """`command` of causeway where a file or a directory is another one for it alone."""
        return self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"',
                                  *map(str, command), env={"OMP_NUM_THREADS": "1"})

    def goes_on(self, process, lacks, mend):
        """It says what it lacks, and goes on once that is mended."""
        wait_until(lambda: "waits at most 60 s" in process.log.read_text(), "the line that says what is missing", process)
        self.assertIn(lacks, process.log.read_text())
        self.assertFalse((self.region_directory(REGIONS[0]) / "ledger").exists())
        mend()
        wait_until(lambda: "listening on port" in process.log.read_text(), "the coordinator to go on", process)
        self.assertIn("what was missing is there", process.log.read_text())
        process.send_signal(signal.SIGTERM)
        self.finish(process, code=130)

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            lacks = f"cannot listen on {address} (Address already in use)"
            for flag in ("--listen", "--worker-listen"):
                self.assertIn(lacks, self.finish(self.first(flag, address, *AT_ONCE), code=TRY_AGAIN))
            self.goes_on(self.first("--listen", address), lacks, taken.close)

    def test_the_port_of_metrics_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            lacks = f"cannot listen on {address} (Address already in use)"
            self.assertIn(lacks, self.finish(self.first("--metrics", address, *AT_ONCE), code=TRY_AGAIN))
            self.goes_on(self.first("--metrics", address), lacks, taken.close)

    def test_an_address_that_is_not_there_yet(self):
        output = self.finish(self.first("--listen", "192.0.2.1:7700", *AT_ONCE), code=TRY_AGAIN)
        self.assertIn("cannot listen on 192.0.2.1:7700 (Cannot assign requested address)", output)

    @unittest.skipUnless(namespaces_allowed(), "no user namespaces here")
    def test_a_name_server_that_says_try_again_later(self):
        (self.directory / "resolv.conf").write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
        process = self.in_mounts("mount --bind resolv.conf /etc/resolv.conf", *self.command("--found", "--listen", "host.example.org:7700", *AT_ONCE))
        self.assertIn("try again later", self.finish(process, code=TRY_AGAIN))
        worker = self.command("--coordinator", "host.example.org:7800", *AT_ONCE, subcommand="worker")
        process = self.in_mounts("mount --bind resolv.conf /etc/resolv.conf", *worker)
        self.assertIn("try again later", self.finish(process, code=TRY_AGAIN))

    def test_certificates_that_are_not_mounted_yet(self):
        there, later = self.directory / "certificates", self.directory / "later"
        there.rename(later)
        lacks = "ca.crt: No such file or directory; `causeway certs`"
        self.assertIn(lacks, self.finish(self.first(*AT_ONCE), code=TRY_AGAIN))
        worker = self.start("worker", self.configured, "--region", REGIONS[0], "--coordinator", "127.0.0.1:7800", *AT_ONCE)
        self.assertIn(lacks, self.finish(worker, code=TRY_AGAIN))
        self.goes_on(self.first(), lacks, lambda: later.rename(there))

    @unittest.skipUnless(namespaces_allowed(), "no user namespaces here")
    def test_a_file_system_that_is_read_only(self):
        self.out.mkdir()
        read_only = "mount -t tmpfs -o ro none run"
        for command in (self.command("--found", *AT_ONCE), self.command(*AT_ONCE, subcommand="worker")):
            self.assertIn("Read-only file system", self.finish(self.in_mounts(read_only, *command), code=TRY_AGAIN))
        process = self.in_mounts(f"{read_only} && {{ (until [ -e mended ]; do sleep 0.1; done; mount -o remount,rw run) & }}", *self.command("--found"))
        self.goes_on(process, "Read-only file system", (self.directory / "mended").touch)

    # Their stacks find no room, as where the system allows no more of them.
    @unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "sanitizers need all addresses")
    def test_threads_that_cannot_be_started(self):
        for subcommand, flags in (("coordinator", ("--found",)), ("worker", ())):
            told = subprocess.run(["prlimit", f"--stack={1 << 40}", f"--as={4 << 30}", *map(str, self.command(*flags, subcommand=subcommand))],
                                  capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(told.returncode, TRY_AGAIN, told.stderr)
            self.assertIn("no more threads can be started", told.stderr)
            self.assertIn("ulimit -u", told.stderr)

    def test_a_directory_that_another_process_still_has(self):
        """As where a region moves to another node: the file system may keep the locks of a node that died for a while."""
        directory = self.region_directory(REGIONS[0])
        for subcommand, flags, lock, lacks, begun in (("coordinator", ("--auto",), "ledger/lock", "another coordinator uses", "listening on port"),
                                                      ("worker", (), "worker-0.lock", "a worker of this rank runs in", "rank 0: cores")):
            (directory / lock).parent.mkdir(parents=True, exist_ok=True)
            with (directory / lock).open("w") as held:
                fcntl.lockf(held, fcntl.LOCK_EX)
                self.assertIn(lacks, self.finish(self.start_program(*self.command(*flags, *AT_ONCE, subcommand=subcommand)), code=TRY_AGAIN))
                later = self.start_program(*self.command(*flags, subcommand=subcommand))
                wait_until(lambda: "waits at most 60 s" in later.log.read_text(), "the line that says what is missing", later)
                self.assertIn(lacks, later.log.read_text())
            wait_until(lambda: begun in later.log.read_text(), f"the {subcommand} to go on", later)
            later.send_signal(signal.SIGTERM)
            self.finish(later, code=130)

    @unittest.skipUnless(namespaces_allowed(), "no user namespaces here")
    def test_the_first_process_of_a_container_ends_when_it_is_asked_to(self):
        for stop in (signal.SIGINT, signal.SIGTERM):
            container = self.start_program("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", CAUSEWAY,
                                           "status", "--watch", f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
            wait_until(lambda: "NOT SEEN" in container.log.read_text(), "a table", container)
            first = pathlib.Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text()
            os.kill(int(first), stop)
            self.finish(container, code=130)

    def test_an_address_that_is_told_to_others_alone(self):
        said = "the others dial 192.0.2.1:7700 (advertise), where nobody will answer"
        address = self.addresses[REGIONS[0]]
        self.configured.write_text(self.configured.read_text().replace(f'listen = "{address}"\nadvertise = "{address}"', 'advertise = "192.0.2.1:7700"'))
        for flags, told in (((), True), (("--listen", address), False)):
            process = self.start_program(*self.command("--auto", *flags))
            wait_until(lambda: "listening on port" in process.log.read_text(), "the coordinator to listen", process)
            self.assertEqual(said in process.log.read_text(), told)
            process.send_signal(signal.SIGTERM)
            self.finish(process, code=130)

    def test_a_mistake_is_not_waited_for(self):
        address = f"127.0.0.1:{free_port()}"
        self.assertIn("twice", self.finish(self.first("--listen", address, "--metrics", address), code=2))
        shutil.copy(self.directory / "certificates" / f"{REGIONS[1]}.key", self.directory / "certificates" / f"{REGIONS[0]}.key")
        self.assertIn(f"{REGIONS[0]}.key", self.finish(self.first(), code=2))

    def test_it_can_be_stopped_while_it_waits(self):
        process = self.first("--listen", "192.0.2.1:7700")
        wait_until(lambda: "waits at most 60 s" in process.log.read_text(), "it to wait", process)
        process.send_signal(signal.SIGTERM)
        self.assertIn("interrupted while it waited", self.finish(process, code=130))


if __name__ == "__main__":
    unittest.main()
