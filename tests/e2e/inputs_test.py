"""What the program is given by hand: files, flags, disks and standard output that are not as they should be."""
import json
import os
import signal
import stat
import subprocess
import sys
import unittest

from harness import CAUSEWAY, DEADLINE_S, REGIONS, change_a_byte, free_port, large_data, read_json, wait_until, zero_a_megabyte
from run_by_hand import RunByHand

# Than all that it has met when it says so.
OTHER_DATA = r"reads other data \([0-9a-f]{12}\) than (ap-northeast|us-east) \([0-9a-f]{12}\)"


class Inputs(RunByHand):
    def test_what_cannot_be_printed_is_an_error_of_every_subcommand_that_prints(self):
        config = self.config(addresses=self.addresses)
        founder = self.coordinator(config, "us-east", "--found")
        directory = self.region_directory("us-east")
        wait_until((directory / "status.json").exists, "status", founder)
        for arguments in (["config", config], ["config"], ["--help"], ["--version"], ["worker", "--help"],
                          ["protocol-states"], ["status", directory], ["status", directory, "--json"],
                          ["members", "list", "--directory", directory],
                          ["certs", "--directory", "certificates", "show"]):
            self.check_what_cannot_be_printed(arguments, "/dev/full", "w", code=5, said=b"No space left")

    def test_output_that_cannot_be_written_for_want_of_anything_but_room_is_an_unexpected_error(self):
        self.check_what_cannot_be_printed(["config"], "/dev/null", "r", code=1, said=b"Bad file descriptor")

    def test_the_exit_code_of_what_was_found_stays_when_nothing_can_be_printed(self):
        region = self.directory / "region"
        region.mkdir()
        (region / "status.json").write_text(json.dumps({"region": "us-east"}))  # no coordinator holds it
        self.check_what_cannot_be_printed(["status", region], "/dev/full", "w", code=3, said=b"No space left")

    def check_what_cannot_be_printed(self, arguments, output, mode, code, said):
        with open(output, mode) as file:
            ended = subprocess.run([CAUSEWAY, *map(str, arguments)], stdout=file, stderr=subprocess.PIPE,
                                   cwd=self.directory, timeout=DEADLINE_S)
        self.assertEqual(ended.returncode, code, arguments)
        self.assertIn(b"standard output", ended.stderr, arguments)
        self.assertIn(said, ended.stderr, arguments)

    def test_devices_and_pipes_are_neither_configuration_nor_data_nor_scenario(self):
        config = self.config(addresses=self.addresses)
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        large = self.directory / "large.toml"
        with open(large, "w") as file:
            file.truncate(1 << 40)
        for odd in (pipe, "/dev/zero", large):
            said = "bytes, and at most" if odd == large else "is not a regular file"
            self.assertIn(said, self.run_causeway("config", odd, code=2))
            self.assertIn(said, self.run_causeway("wan-sim", odd, code=2))
        for odd in (pipe, "/dev/zero"):
            worker = self.start("worker", config, "--region", "us-east", "--directory",
                                self.region_directory("us-east"), "--set", f"data.files={odd}")
            self.assertIn("is not a regular file", self.finish(worker, code=2))

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        red = "\x1b[31mred\x07\x9b31m\x7f"

        def check(code, *arguments):
            said = self.run_causeway(*arguments, code=code)
            self.assertIn("?[31mred??31m?", said)
            self.assertFalse([c for c in said if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160], repr(said))

        region, model = self.directory / "region", self.directory / "model"
        region.mkdir()
        model.mkdir()
        (region / "status.json").write_text(json.dumps({"region": red, "waiting": red, "leader": red}))
        check(3, "status", region)  # no coordinator holds it
        (model / "config.json").write_text(json.dumps({"model_type": red}))
        check(4, "eval", model, "--config", self.config())
        scenario = self.directory / "odd.toml"
        scenario.write_text(f'regions = ["{red}"]\n')
        said = self.run_causeway("wan-sim", scenario, code=2)
        self.assertNotIn("\x1b", said)

    def test_words_that_are_not_known_are_refused_with_help_too(self):
        for words in (["unknown", "subcommand", "--help"], ["confg", "--help"]):
            self.assertIn(f"'{words[0]}' is not known here", self.run_causeway(*words, code=2))
        self.assertIn("--set SECTION.KEY=VALUE", self.run_causeway("config", "--help"))
        config = self.config()
        printed = self.run_causeway("config", config, "--set", "inner.lr=0.5", "--set", "train.batch=12")
        self.assertIn("lr = 0.5", printed)
        self.assertIn("batch = 12", printed)

    def test_a_model_that_no_machine_can_hold_is_refused_at_once_with_its_need(self):
        config = self.config(addresses=self.addresses)
        huge = ["--set", "model.layers=1024", "--set", "model.width=65536", "--set", "model.heads=1024",
                "--set", "model.kv_heads=1024"]
        output = self.run_causeway("config", config, *huge, code=2)
        self.assertRegex(output, r"52777 billion parameters, whose training state alone needs 1\.48 PB")
        large = ["--set", "model.layers=96", "--set", "model.width=12288", "--set", "model.heads=96",
                 "--set", "model.kv_heads=96", "--set", "sync.spool_gib=1000000"]
        worker = self.start("worker", config, "--region", "us-east", "--directory", self.region_directory("us-east"),
                            *large)
        self.assertRegex(self.finish(worker, code=2), r"needs up to [\d,]+ MiB in every worker, and this host has [\d,]+ MiB")

    def test_founding_again_before_the_first_round_goes_on_and_is_refused_after_it(self):
        config = self.config(addresses=self.addresses, steps=20_000)
        first = self.coordinator(config, "us-east", "--found")
        wait_until(lambda: "listening on port" in first.log.read_text(), "a run that nobody has joined", first)
        run_id = (self.region_directory("us-east") / "ledger" / "run").read_text()
        first.kill()
        first.wait()
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        wait_until(lambda: self.status("us-east").get("version", 0) >= 1, "a round", coordinators[0])
        self.assertEqual((self.region_directory("us-east") / "ledger" / "run").read_text(), run_id)
        for child in coordinators + workers:
            child.kill()
            child.wait()
        self.assertIn("already holds run", self.finish(self.coordinator(config, "us-east", "--found"), code=4))

    def test_a_region_or_a_rank_with_other_data_is_refused_by_name(self):
        workers = (2, 1, 1)
        config = self.config(workers=workers, addresses=self.addresses, steps=20_000)
        other = self.directory / "other"
        text = (self.directory / "text").read_text()
        other.write_text(text[:50_000] + "#" + text[50_001:])  # as large, another byte in the middle
        coordinators = self.start_coordinators(config)
        trained = [self.worker(config, "us-east", 0)]
        wait_until(lambda: "rank 1 of us-east to attach" in trained[0].log.read_text(), "rank 0", trained[0])
        odd = self.start("worker", config, "--region", "us-east", "--rank", 1, "--directory",
                         self.region_directory("us-east"), "--set", f"data.files={other}")
        self.assertRegex(self.finish(odd, code=2), r"rank 1 of us-east reads other training data \([0-9a-f]{12}\) than rank 0")
        trained += [self.worker(config, "us-east", 1), self.worker(config, "ap-northeast")]
        odd = self.start("worker", config, "--region", "eu-west", "--directory", self.region_directory("eu-west"),
                         "--set", f"data.files={other}")
        self.assertRegex(self.finish(coordinators[1], code=2), OTHER_DATA)
        odd.kill()  # which is told so too, unless it is just taking a step
        wait_until(lambda: self.status("us-east").get("version", 0) >= 2, "two rounds without it", coordinators[0])

    def refused_data(self, configs, change, *flags):
        """What a region is refused with whose data is another in the middle, and what its worker says; the others train on."""
        (self.directory / "large").write_bytes(large_data())
        other = large_data()
        change(other)
        (self.directory / "changed").write_bytes(other)
        coordinators = [self.coordinator(config, region, "--found" if region == "us-east" else "--join")
                        for region, config in configs.items()]
        workers = [self.start("worker", config, "--region", region, "--directory", self.region_directory(region), *flags,
                              "--set", f"data.files={self.directory / ('changed' if region == 'eu-west' else 'large')}")
                   for region, config in configs.items()]
        refusal = self.finish(coordinators[1], code=2)
        before = self.status("us-east").get("version", 0)
        wait_until(lambda: self.status("us-east").get("version", 0) > before + 1, "rounds without it", coordinators[0])
        return refusal, workers[1].log.read_text()

    def assert_never_listed(self, region):
        rounds = self.rounds_of("us-east")
        self.assertTrue(rounds)
        self.assertFalse([event for event in rounds if region in event["participants"]])

    def test_one_byte_in_the_middle_of_the_data_is_refused_before_the_first_step(self):
        config = self.config(addresses=self.addresses, steps=20_000)
        refusal, _ = self.refused_data(dict.fromkeys(REGIONS, config), change_a_byte)
        self.assertRegex(refusal, OTHER_DATA)
        self.assert_never_listed("eu-west")

    def test_other_data_are_refused_before_the_first_step_also_if_a_link_comes_up_late(self):
        """It hears one of the others at once. Which of the two is the odd one only the third can tell."""
        config = self.config(addresses=self.addresses, steps=20_000)
        configs = dict.fromkeys(REGIONS, config)
        for region, other in (("eu-west", "ap-northeast"), ("ap-northeast", "eu-west")):
            nowhere = f"127.0.0.1:{free_port()}"
            configs[region] = self.directory / f"{region}.toml"
            configs[region].write_text(config.read_text().replace(self.addresses[other], nowhere))
        refusal, _ = self.refused_data(configs, change_a_byte)
        self.assertRegex(refusal, "ap-northeast")
        self.assertIn("up by way of us-east", refusal)
        self.assert_never_listed("eu-west")

    def test_a_megabyte_of_zeroes_is_refused_when_all_is_read_where_that_is_more_than_is_read_at_once(self):
        config = self.config(addresses=self.addresses, steps=20_000)
        refusal, said = self.refused_data(dict.fromkeys(REGIONS, config), zero_a_megabyte, "--set", "data.digest_gib=0.01")
        self.assertIn("reads 60 MB of data for their digest beside the training", said)
        self.assertRegex(refusal, OTHER_DATA)

    def test_regions_with_data_of_their_own_declare_it_and_share_a_validation_set(self):
        config = self.config(addresses=self.addresses, steps=20)
        common = self.directory / "common"
        common.write_text(self.make_text()[:20_000])
        text = config.read_text().replace("[data]", f'[data]\nmode = "per-region"\nvalidation_files = ["{common}"]')
        for number, region in enumerate(REGIONS):
            own = self.directory / f"own-{number}"
            own.write_text(self.make_text()[:60_000 + 1_000 * number].replace("king", "queen" if number else "king"))
            text = text.replace(f'name = "{region}"', f'name = "{region}"\ndata_files = ["{own}"]')
        config.write_text(text)
        self.finish_all(self.start_coordinators(config) + self.start_workers(config, (1, 1, 1)))
        results = [read_json(self.region_directory(region) / "result.json") for region in REGIONS]
        self.assertEqual(len({result["params_digest"] for result in results}), 1, results)
        self.assertEqual(len({result["common_val_loss"] for result in results}), 1, results)
        self.assertEqual(len({result["val_loss"] for result in results}), 3, results)
        share = self.status("eu-west")["share"]
        self.assertEqual((share["index"], share["count"], share["pass"]), (0, 1, 0))

    def test_a_missing_validation_file_is_found_before_a_process_starts(self):
        out = self.directory / "simulated"
        for key in ("data.files", "data.validation_files"):
            said = self.run_causeway("simulate", self.config(steps=20), "--set", f'{key}=["nowhere"]', "--out", out, code=2)
            self.assertIn("nowhere", said)
            self.assertFalse((out / "regions" / "us-east" / "coordinator.log").exists(), key)

    def test_status_of_a_stopped_coordinator_says_so(self):
        config = self.config(addresses=self.addresses)
        founder = self.coordinator(config, "us-east", "--found")
        directory = self.region_directory("us-east")
        wait_until((directory / "status.json").exists, "status", founder)
        self.assertNotIn("stopped", self.run_causeway("status", directory))
        founder.kill()
        founder.wait()
        self.assertRegex(self.run_causeway("status", directory, code=3),
                         r"stopped: no coordinator runs here; .* at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
        self.run_causeway("status", directory, "--json", code=3)
        self.assertIn("Exit code 0:", self.run_causeway("status", "--help"))

    def test_directories_of_a_run_are_private_and_nothing_is_written_through_a_symbolic_link(self):
        config = self.config(addresses=self.addresses, steps=10)
        directory = self.region_directory("us-east")
        victim = self.directory / "victim"
        victim.write_text("precious")
        before = os.umask(0)
        try:
            directory.mkdir(parents=True, mode=0o700)
            (directory / "ledger").mkdir(mode=0o700)
            # What a killed process leaves, and what somebody who knows its name would put there.
            leftover = directory / "ledger" / "raft.0123456789abcdef.tmp"
            leftover.write_text("half")
            for name in ("status.json.tmp", "ledger/raft.tmp", "status.json"):
                (directory / name).symlink_to(victim)
            self.finish_all(self.start_coordinators(config) + self.start_workers(config, (1, 1, 1)))
        finally:
            os.umask(before)
        self.assertEqual(victim.read_text(), "precious")
        self.assertFalse(leftover.exists())
        self.assertFalse((directory / "status.json").is_symlink())
        made = [path for region in REGIONS for path in self.region_directory(region).rglob("*") if path.is_dir()]
        made += [self.region_directory("eu-west"), self.directory / "certificates"]
        self.assertGreater(len(made), 10)
        for path in made:
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700, path)

    def test_a_second_interrupt_does_not_claim_that_the_state_is_saved(self):
        config = self.config(steps=200_000)
        child = self.start("simulate", config, "--out", self.out, "--wan", "none", "--no-baseline",
                           "--set", "train.timed_step_ms=100000")
        wait_until(lambda: self.status("us-east").get("progress", {}).get("phase") == "compute", "a step", child)
        child.send_signal(signal.SIGINT)
        wait_until(lambda: "interrupted: the state is being saved" in child.log.read_text(), "the first", child)
        child.send_signal(signal.SIGINT)
        output = self.finish(child, code=130)
        self.assertIn("killed by signal 9", output)
        self.assertIn("before it had saved", output)
        self.assertNotIn("the state is saved", output)
        self.assertIn("--resume", output)


class FullDisk(RunByHand):
    """A disk of 64 kB is a file system in a user namespace of its own."""

    def test_a_disk_that_is_full_at_the_start_is_named_with_what_is_missing(self):
        disk = self.directory / "disk"
        disk.mkdir()
        config = self.config(addresses=self.addresses)
        inside = f"mount -t tmpfs -o size=64k none {disk} && head -c 1M /dev/zero > {disk}/filler; exec {CAUSEWAY} " \
                 f"coordinator {config} --region us-east --directory {disk}/us-east --found"
        child = self.start_program("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside)
        child.wait(DEADLINE_S)
        output = child.log.read_text()
        if "unshare" in output or "mount:" in output:
            self.skipTest("no user namespaces with mounts here")
        self.assertEqual(child.returncode, 5, output)
        self.assertRegex(output, r"cannot (write|open) \S+us-east\S* \(\d+ bytes more are needed, 0 bytes are free\)")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
