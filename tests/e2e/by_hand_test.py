"""The same run started by hand: certs, then coordinators and workers."""
import os
import pathlib
import resource
import shutil
import signal
import sys
import unittest
from unittest import mock

from harness import CAUSEWAY, DENSE, REGIONS, namespaces_allowed, read_json, wait_until
from run_by_hand import RunByHand


class ByHand(RunByHand):
    def test_three_terminals_each_end_with_the_same_weights(self):
        workers = (1, 2, 1)
        config = self.config(workers=workers, addresses=self.addresses, steps=30, **DENSE)
        self.finish_all(self.start_coordinators(config) + self.start_workers(config, workers))
        self.assert_same_weights()

    def test_regions_meet_by_ipv6_by_name_and_where_one_can_only_dial_out(self):
        config = self.config(addresses=self.addresses, steps=30, **DENSE)
        text = config.read_text()
        for region, listen, advertise in ((REGIONS[0], "[::1]", "[::1]"), (REGIONS[1], "127.0.0.1", "localhost")):
            address = self.addresses[region]
            port = address.rpartition(":")[2]
            text = text.replace(f'listen = "{address}"\nadvertise = "{address}"',
                                f'listen = "{listen}:{port}"\nadvertise = "{advertise}:{port}"')
        silent = self.addresses[REGIONS[2]]
        config.write_text(text.replace(f'advertise = "{silent}"', 'advertise = ""'))
        coordinators = self.start_coordinators(config)
        self.finish_all(coordinators + self.start_workers(config, (1, 1, 1)))
        self.assert_same_weights()
        log = coordinators[2].log.read_text()
        self.assertIn("us-east is up at [::1]:", log)
        self.assertIn("eu-west is up at 127.0.0.1:", log)

    def test_a_worker_that_dies_at_the_end_is_waited_for_until_it_has_its_result(self):
        config = self.config(addresses=self.addresses, steps=30, **DENSE)
        trap = self.directory / "trap"
        trap.write_text("worker.finish-received\n")
        coordinators = self.start_coordinators(config)
        workers = [self.worker(config, region) for region in REGIONS[:2]]
        victim = self.launched_worker(config, REGIONS[2], {"CAUSEWAY_DIE_AT": str(trap)})
        victim.wait()
        self.end_with_another_worker(config, coordinators, workers)

    def test_a_worker_that_cannot_write_its_result_is_waited_for_until_it_can(self):
        config = self.config(addresses=self.addresses, steps=30, **DENSE)
        coordinators = self.start_coordinators(config)
        workers = [self.worker(config, region) for region in REGIONS[:2]]
        victim = self.worker(config, REGIONS[2])
        # Room for what it contributes and for its log, not for its state.
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        self.assertIn("File too large", self.finish(victim, code=5))
        self.end_with_another_worker(config, coordinators, workers)

    def end_with_another_worker(self, config, coordinators, workers):
        """The last region's worker is gone without its result: another one writes it."""
        self.finish_all(coordinators[:2] + workers)
        told = "the run is over: waiting for this region's worker, which has yet to write its result"
        wait_until(lambda: told in coordinators[2].log.read_text(), "the last coordinator to wait", coordinators[2])
        self.finish_all([self.worker(config, REGIONS[2]), coordinators[2]])
        self.assert_same_weights()

    def launched_worker(self, config, region, environment, *flags):
        return self.start("worker", config, "--region", region, "--directory", self.region_directory(region), *flags,
                          env=environment)

    def test_workers_take_their_rank_from_whatever_launched_them(self):
        workers = (2, 2, 2)
        config = self.config(workers=workers, addresses=self.addresses, steps=10)
        coordinators = self.start_coordinators(config)
        children = []
        for rank in range(2):
            children.append(self.launched_worker(
                config, "us-east", {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank),
                                    "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}))
            children.append(self.launched_worker(
                config, "eu-west", {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_LOCALID": str(rank)}))
            children.append(self.launched_worker(
                config, "ap-northeast", {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2"}))
        self.finish_all(coordinators + children)
        contradiction = self.launched_worker(config, "us-east", {"RANK": "0", "WORLD_SIZE": "3"})
        self.assertIn("WORLD_SIZE=3, but the region has workers = 2", self.finish(contradiction, code=2))

    def test_t9_a_region_with_another_configuration_is_refused_with_a_diff(self):
        config = self.config(addresses=self.addresses)
        other = self.config(addresses=self.addresses, name="other.toml", k=10)
        self.coordinator(config, "us-east", "--found")
        output = self.finish(self.coordinator(other, "eu-west", "--join"), code=2)
        self.assertIn("train.k", output)

    def test_a_worker_with_another_configuration_than_its_coordinator_is_refused_by_key_and_values(self):
        config = self.config(addresses=self.addresses)
        self.coordinator(config, "us-east", "--found")
        for setting, difference in (("inner.lr=0.01", "inner.lr = 0.003 in the coordinator, 0.01 in the worker"),
                                    ("train.batch=12", "train.batch = 6 in the coordinator, 12 in the worker"),
                                    ("inner.weight_decay=0", "0 in the worker"),
                                    ("run.seed=8", "run.seed = 7 in the coordinator, 8 in the worker"),
                                    ("outer.lr=0.5", "outer.lr = 1 in the coordinator, 0.5 in the worker")):
            worker = self.start("worker", config, "--region", "us-east", "--directory",
                                self.region_directory("us-east"), "--set", setting)
            output = self.finish(worker, code=2)
            self.assertIn(difference, output)
            self.assertIn("the same configuration file", output)

    def test_verify_finds_one_history_and_names_where_another_differs(self):
        config = self.config(addresses=self.addresses, steps=30)
        self.finish_all(self.start_coordinators(config) + self.start_workers(config, (1, 1, 1)))
        east, west, third = (self.region_directory(region) for region in REGIONS)
        output = self.run_causeway("verify", east, west, third, "--certificates", "certificates")
        self.assertIn("verified: one history", output)
        output = self.run_causeway("verify", east, west, "--certificates", "certificates", code=4)
        self.assertIn(f"MISSING: the directory of {REGIONS[2]}, a member", output)
        self.assertIn("NOT verified", output)
        self.assertIn("MISSING: signatures are not checked", self.run_causeway("verify", east, west, third, code=4))
        self.assertIn("all signed", output)
        members = self.run_causeway("members", "list", "--directory", east)
        self.assertEqual(members.count("votes"), 3, members)
        self.assertIn("finished, version 6 applied", self.run_causeway("status", east))
        self.assertIn("no coordinator runs", self.run_causeway(
            "members", "remove", "--directory", east, "eu-west", code=3))
        self.assertIn("is not a member", self.run_causeway("members", "remove", "--directory", east, "eu-wst", code=2))
        self.assertIn("use 1 to 63 of a-z", self.run_causeway("members", "add", "--directory", east, "UP", code=2))
        # Another run's ledger under the same name.
        (west / "ledger" / "run").write_text("0" * 32 + "\n")
        self.assertIn("is damaged", self.run_causeway("verify", east, west, code=4))

    def test_two_regions_and_a_witness_go_on_when_one_region_is_gone(self):
        config = self.config(addresses=self.addresses, steps=20_000)
        text = config.read_text()
        third = text.rindex("[[regions]]")
        config.write_text(text[:third] + f"""
[witness]
name = "{REGIONS[2]}"
listen = "{self.addresses[REGIONS[2]]}"
""")
        witness = self.start("witness", config, "--directory", self.region_directory("witness"))
        east = self.coordinator(config, "us-east", "--found")
        west = self.coordinator(config, "eu-west", "--join")
        workers = [self.worker(config, "us-east"), self.worker(config, "eu-west")]
        wait_until(lambda: self.status("us-east").get("version", 0) >= 3, "three rounds", east)
        west.kill()
        workers[1].kill()
        before = self.status("us-east")["round"]
        wait_until(lambda: self.status("us-east").get("round", 0) >= before + 3, "three more rounds", east)
        for child in (east, witness, workers[0]):
            child.terminate()

    def test_a_region_that_missed_the_end_hears_of_it_from_a_coordinator_that_is_started_again(self):
        config = self.config(addresses=self.addresses, steps=200, **DENSE)
        config.write_text(config.read_text().replace("[sync]", "[sync]\ngrace_max_s = 5"))
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        away = REGIONS[2]
        wait_until(lambda: self.version(away) >= 5, "five rounds", coordinators[2])
        coordinators[2].send_signal(signal.SIGSTOP)
        self.finish_all(coordinators[:2] + workers[:2])
        self.assertIn(f"{away} did not reach the last version in time", "".join(one.log.read_text() for one in coordinators[:2]))
        coordinators[2].send_signal(signal.SIGCONT)
        status = self.region_directory(away) / "status.json"
        wait_until(lambda: "start the coordinator of one of them again" in read_json(status).get("waiting", ""),
                   "it to say what to do", coordinators[2])
        again = self.coordinator(config, REGIONS[0])
        self.finish_all([again, coordinators[2], workers[2]])
        self.assert_same_weights()

    def test_a_founder_that_lost_its_directory_joins_the_run_again(self):
        config = self.config(addresses=self.addresses, steps=5 * 400)
        founder, *others = self.start_coordinators(config)
        worker, *other_workers = self.start_workers(config, (1, 1, 1))
        run_id = ""
        for flag in ("--join", "--auto"):  # nobody else is started again in between
            version = self.version("us-east")
            wait_until(lambda: self.version("us-east") >= version + 6, "six rounds", founder)
            run_id = run_id or self.status("us-east")["run_id"]
            for child in (founder, worker):
                child.kill()
                child.wait()
            shutil.rmtree(self.region_directory("us-east"))
            founder, worker = self.coordinator(config, "us-east", flag), self.worker(config, "us-east")
            wait_until(lambda: self.version("us-east") > 0, "it to take part again", founder)
            self.assertEqual(self.status("us-east")["run_id"], run_id)
        self.finish_all([founder, worker, *others, *other_workers])
        self.assert_same_weights()

    def test_a_slower_region_takes_fewer_steps_when_asked_to(self):
        config = self.config(addresses=self.addresses, steps=80, k=10)
        config.write_text(config.read_text().replace("[sync]", "[sync]\nspeed_adaptive_k = true"))
        step_ms = dict(zip(REGIONS, (5, 5, 40)))
        workers = [self.start("worker", config, "--region", region, "--rank", 0, "--directory",
                              self.region_directory(region), "--set", f"train.timed_step_ms={step_ms[region]}")
                   for region in REGIONS]
        self.finish_all(self.start_coordinators(config) + workers)
        steps = {region: read_json(self.region_directory(region) / "result.json")["steps"] for region in REGIONS}
        self.assertGreater(steps[REGIONS[0]], 55, steps)
        self.assertLess(steps[REGIONS[2]], 50, steps)  # ten in the first rounds, before anybody is known, then one or two
        slow = workers[2].log.read_text()
        self.assertRegex(slow, "round 8 applied: step (7.|80) of 80")  # of the run's schedule
        self.assertIn(f"done: took {steps[REGIONS[2]]} of 80 steps", slow)

    def test_resume_without_state_says_what_to_do(self):
        config = self.config(addresses=self.addresses)
        output = self.finish(self.coordinator(config, "eu-west"), code=4)
        self.assertIn("--join", output)

    def test_threads_of_a_worker_wait_without_spinning_unless_the_user_says_so(self):
        config = self.config(addresses=self.addresses, workers=(1, 1, 1))
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop("OMP_WAIT_POLICY", None)  # ctest's

        def policy(told):
            worker = self.start("worker", config, "--region", "us-east", "--rank", "0", env={"OMP_WAIT_POLICY": told} if told else {})
            wait_until(lambda: "OMP_WAIT_POLICY=" in pathlib.Path(f"/proc/{worker.pid}/environ").read_text(), "a policy", worker)
            variables = pathlib.Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
            worker.kill()
            return [one for one in variables if one.startswith("OMP_WAIT_POLICY=")]

        self.assertEqual(policy(None), ["OMP_WAIT_POLICY=passive"])
        self.assertEqual(policy("active"), ["OMP_WAIT_POLICY=active"])

    # A control group's files, as a container sees them, lie where this test can write.
    @unittest.skipUnless(namespaces_allowed() and len(os.sched_getaffinity(0)) > 1, "no user namespaces here, or one core")
    def test_a_worker_has_the_threads_that_its_quota_is_good_for_unless_the_user_says_so(self):
        config = self.config(addresses=self.addresses, workers=(1, 1, 1))
        self.enterContext(mock.patch.dict(os.environ))
        os.environ.pop("OMP_NUM_THREADS", None)  # ctest's
        quota = 'mount -t tmpfs none /sys/fs/cgroup && echo 50000 100000 > /sys/fs/cgroup/cpu.max && exec "$0" "$@"'

        def threads(**told):
            worker = self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", quota, CAUSEWAY, "--log-level", "info", "worker", config,
                                        "--region", "us-east", "--directory", self.region_directory("us-east"), env=told)
            wait_until(lambda: "rank 0: cores" in worker.log.read_text(), "its cores", worker)
            self.assertIn("the quota of /sys/fs/cgroup is 0.5 cores", worker.log.read_text())
            variables = pathlib.Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
            worker.kill()
            worker.wait()
            return [one for one in variables if one.startswith("OMP_NUM_THREADS=")]

        self.assertEqual(threads(), ["OMP_NUM_THREADS=1"])
        self.assertEqual(threads(OMP_NUM_THREADS="2"), ["OMP_NUM_THREADS=2"])

    def test_a_worker_on_a_full_disk_takes_the_runs_state_and_trains_on(self):
        config = self.config(addresses=self.addresses, steps=5 * 100_000, **DENSE)
        coordinators = self.start_coordinators(config)
        *others, worker = self.start_workers(config, (1, 1, 1))
        region = REGIONS[2]
        # So many that the payloads of the first are gone.
        wait_until(lambda: self.status(region).get("version", 0) >= 40, "forty rounds", coordinators[2])
        checkpoints = self.region_directory(region) / "checkpoints"
        wait_until((checkpoints / "snapshot.safetensors").exists, "a snapshot", worker)
        room = (checkpoints / "snapshot.safetensors").stat().st_size // 2  # neither it nor a state fits
        worker.kill()
        worker.wait()
        shutil.rmtree(checkpoints)
        worker = self.start_program("prlimit", f"--fsize={room}", CAUSEWAY, "worker", config, "--region", region,
                                    "--rank", "0", "--directory", self.region_directory(region),
                                    env={"OMP_NUM_THREADS": "1"})
        wait_until(lambda: "takes the run's version" in worker.log.read_text(), "it to take the run's state", worker)
        version = self.status("us-east")["version"]

        def contributes():
            return any(one["round"] > version and region in one["participants"] for one in self.rounds_of("us-east"))

        wait_until(contributes, "a round with its work", worker)
        self.assertFalse(list(checkpoints.glob("*.safetensors")))
        children = [worker, *others, *coordinators]
        for child in children:
            child.send_signal(signal.SIGINT)
        for child in children[1:]:
            self.finish(child, code=130)

    def test_a_closed_terminal_stops_a_region_with_its_state_saved_and_output_that_nobody_reads_ends_nothing(self):
        config = self.config(addresses=self.addresses, steps=20_000)
        region, nowhere = REGIONS[2], "> >(true) 2>&1"
        coordinators = [self.coordinator(config, name, flag) for name, flag in zip(REGIONS[:2], ("--found", "--join"))]
        workers = [self.worker(config, name) for name in REGIONS[:2]]
        ours = [self.start_unread(nowhere, subcommand, config, "--region", region, *flags, "--directory",
                                  self.region_directory(region))
                for subcommand, flags in (("coordinator", ["--join"]), ("worker", ["--rank", 0]))]
        wait_until(lambda: self.version(region) >= 3, "three rounds", ours[1])
        for child in (ours[1], ours[0]):
            for _ in range(2):  # the shell tells of it, and then the kernel
                child.send_signal(signal.SIGHUP)
            self.finish(child, code=130)
        self.assertTrue(list((self.region_directory(region) / "checkpoints").glob("*.safetensors")))
        for child in workers + coordinators:
            child.terminate()

    def test_a_rank_is_one_worker(self):
        config = self.config(addresses=self.addresses)
        first = self.worker(config, "us-east")
        wait_until((self.region_directory("us-east") / "worker-0.lock").exists, "the first worker", first)
        second = self.start("worker", config, "--region", "us-east", "--directory", self.region_directory("us-east"), "--start-wait", 0)
        self.assertIn("a worker of this rank runs", self.finish(second, code=75))
        first.terminate()

    def test_t5_a_fork_begins_with_its_parents_weights_and_refuses_its_parents_regions(self):
        config = self.config(addresses=self.addresses, steps=30, **DENSE)
        self.finish_all(self.start_coordinators(config) + self.start_workers(config, (1, 1, 1)))
        parent, parent_run = self.out, (self.region_directory("us-east") / "ledger" / "run").read_text().split()[0]
        parent_loss = read_json(self.region_directory("us-east") / "result.json")["val_loss"]
        old_west = self.region_directory("eu-west")

        self.out = self.directory / "fork"
        founder = self.coordinator(config, "us-east", "--fork", parent)
        others = [self.coordinator(config, "ap-northeast", "--join")]
        wait_until(lambda: self.status("us-east").get("links", {}).get("ap-northeast", {}).get("up"), "a link", founder)
        refused = self.finish(self.start("coordinator", config, "--region", "eu-west", "--directory", old_west), code=4)
        self.assertIn(f"eu-west to run {parent_run}, from which ours was forked", refused)
        others.append(self.coordinator(config, "eu-west", "--join"))
        self.finish_all([founder, *others] + self.start_workers(config, (1, 1, 1)))

        self.assert_same_weights()
        self.assertLess(read_json(self.region_directory("us-east") / "result.json")["val_loss"], parent_loss)
        west = self.region_directory("eu-west")
        self.assertNotEqual((west / "ledger" / "run").read_text().split()[0], parent_run)
        self.assertIn(f"forked from run {parent_run} at version 6",
                      self.run_causeway("members", "list", "--directory", west))
        self.assertIn("has no ledger/records", self.finish(self.start(
            "coordinator", config, "--region", "us-east", "--directory", self.directory / "another", "--fork",
            self.directory), code=4))
        self.assertIn("already holds run", self.finish(self.coordinator(config, "us-east", "--fork", parent), code=4))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
