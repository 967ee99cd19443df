"""What goes wrong between and in real processes: links, processes, states. The run goes on, and ends with the same bits."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest

from harness import CAUSEWAY, DENSE, REGIONS, EndToEnd, namespaces_allowed, read_json, wait_until
from hash_tree import merkle_root
from run_by_hand import RunByHand

NOISE_WORKER = os.environ["CAUSEWAY_NOISE_WORKER"]


class Processes(EndToEnd):
    def test_a_scenario_kills_restarts_and_pauses_processes(self):
        self.add_events('at_s = 1; process = "restart"; region = "eu-west"; role = "coordinator"',
                        'at_s = 1.5; process = "kill"; region = "us-east"; for_s = 1',
                        'at_s = 3; process = "restart"; region = "us-east"; role = "worker"; rank = 1',
                        'at_s = 3.5; process = "pause"; region = "ap-northeast"; for_s = 1')
        summary = self.simulate(self.config(workers=(2, 1, 1), steps=300), "--no-baseline")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 60)
        self.assertGreaterEqual(summary["restarts"], 5)  # a worker's death may take the other's

    def test_a_region_that_stays_down_fails_the_run_when_the_others_have_ended(self):
        # Once it votes: a run of one vote that gives the second to a region that dies waits for that one.
        self.add_events('at_s = 3; process = "kill"; region = "eu-west"')
        output = self.run_causeway("simulate", self.config(steps=600), "--out", self.out, "--no-baseline",
                                   "--set", "sync.grace_max_s=2", code=3)
        self.assertIn("eu-west", output)
        self.assertIn("killed on purpose", output)


class Links(EndToEnd):
    def lines_of(self, region):
        return (self.out / "regions" / region / "coordinator.log").read_text()

    def test_black_holes_flaps_resets_and_refusals_pass(self):
        self.add_events('at_s = 1; fault = "black-hole"; pair = ["us-east", "eu-west"]; for_s = 1',
                        'at_s = 2; fault = "black-hole"; link = ["ap-northeast", "eu-west"]; for_s = 1',
                        'at_s = 3; fault = "flap"; pair = ["us-east", "ap-northeast"]; period_s = 0.4; down_s = 0.2; times = 4',
                        'at_s = 4; fault = "reset"',
                        'at_s = 5; fault = "refuse"; pair = ["us-east", "eu-west"]; for_s = 1',
                        'at_s = 5; fault = "reset"; pair = ["us-east", "eu-west"]')
        summary = self.simulate(self.config(steps=200), "--no-baseline")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 0)

    def test_a_corrupted_byte_costs_a_connection_and_nothing_else(self):
        self.add_events('at_s = 1; fault = "corrupt"; link = ["us-east", "eu-west"]; after_bytes = 40000',
                        'at_s = 1; fault = "corrupt"; link = ["eu-west", "us-east"]; after_bytes = 60000',
                        'at_s = 1.5; fault = "kill-after"; link = ["ap-northeast", "us-east"]; after_bytes = 30000')
        # Timed steps: on a quick machine the run would be over before anything happens.
        summary = self.simulate(self.config(steps=200, **DENSE), "--no-baseline", "--set", "train.timed_step_ms=20")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 0)
        told = self.lines_of("us-east") + self.lines_of("eu-west")
        self.assertRegex(told, r"connection to \S+ ended|bad record mac|decryption failed")

    def test_a_link_at_one_percent_in_the_middle_of_a_transfer_only_makes_its_region_late(self):
        # Again and again: a region that lacks the others' payloads when its link slows has none of its own to be late with.
        for pair in ('["ap-northeast", "us-east"]', '["ap-northeast", "eu-west"]'):
            for at_s in (1.5, 3, 4.5, 6, 7.5):
                self.add_events(f"at_s = {at_s}; pair = {pair}; rate_mbit_s = 1; for_s = 0.8")
        # Timed steps: on a quick machine sixteen rounds would be over before the slow transfer is.
        self.simulate(self.config(steps=400, **DENSE), "--no-baseline", "--set", "sync.staleness_max=16",
                      "--set", "sync.grace_min_s=0.05", "--set", "train.timed_step_ms=20")
        rounds = self.rounds_of("us-east")
        self.assertEqual([event["round"] for event in rounds], list(range(80)))
        self.assertTrue(any("ap-northeast" not in event["participants"] for event in rounds), "nobody waited")
        late = [entry for event in rounds for entry in event["late"] if entry["region"] == "ap-northeast"]
        self.assertTrue(late, "the slow transfer was finished, and its work counts")

    def test_where_one_of_two_regions_cannot_dial_the_other_that_one_dials(self):
        for link in ('["us-east", "eu-west"]', '["eu-west", "ap-northeast"]', '["ap-northeast", "us-east"]'):
            self.add_events(f'at_s = 0; fault = "refuse"; link = {link}', f'at_s = 0; fault = "reset"; link = {link}')
        summary = self.simulate(self.config(steps=100, **DENSE), "--no-baseline", "--set", "train.timed_step_ms=20")
        self.assert_identical(summary)
        self.assertEqual((summary["rounds"], summary["restarts"]), (20, 0))

    def test_a_link_that_is_gone_for_the_whole_run_takes_no_region_out(self):
        # us-east founds the run, and leads it.
        self.add_events('at_s = 0; fault = "refuse"; pair = ["us-east", "eu-west"]',
                        'at_s = 0; fault = "reset"; pair = ["us-east", "eu-west"]')
        child = self.start("simulate", self.config(steps=600, **DENSE), "--out", self.out, "--no-baseline",
                           "--set", "train.timed_step_ms=20")
        link = {"us-east": "eu-west", "eu-west": "us-east"}
        for region, peer in link.items():
            wait_until(lambda: self.status(region).get("links", {}).get(peer, {}).get("via") == "ap-northeast",
                       f"{region} to reach {peer} by way of the third", child)
        wait_until(lambda: self.status("eu-west").get("version", 0) >= 3, "rounds", child)
        self.assertEqual(self.status("eu-west")["leader"], "us-east")
        self.assertFalse(self.status("eu-west")["links"]["us-east"]["up"])
        self.assertRegex(self.run_causeway("status", self.out), r"eu-west > us-east +by way of ap-northeast ")
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], 0)
        rounds = self.rounds_of("ap-northeast")
        for region in REGIONS:
            listed = [event["round"] for event in rounds if region in event["participants"]]
            self.assertGreaterEqual(len(listed), len(rounds) / 2, region)
            self.assertGreaterEqual(max(listed), 110, region)
        self.assertIn("eu-west is up by way of ap-northeast", self.lines_of("us-east"))
        self.assertNotIn("eu-west is up at", self.lines_of("us-east"))


class Diverged(EndToEnd):
    def test_training_that_diverges_everywhere_ends_with_what_to_do(self):
        output = self.run_causeway("simulate", self.config(steps=5000), "--out", self.out, "--no-baseline",
                                   "--set", "inner.lr=100", "--set", "inner.clip_norm=0", code=2)
        self.assertIn("inner.lr", output)
        self.assertIn("training diverges", output)

    def test_a_run_that_is_over_although_training_diverged_does_not_end_well(self):
        output = self.run_causeway("simulate", self.config(steps=60), "--out", self.out, "--no-baseline",
                                   "--set", "inner.lr=100", "--set", "inner.clip_norm=0", code=2)
        self.assertIn("training diverges", output)

    def test_regions_with_other_parameters_at_the_end_are_no_success(self):
        config = self.config(steps=20)
        self.assert_identical(self.simulate(config, "--no-baseline"))
        path = self.out / "regions" / "eu-west" / "result.json"
        result = read_json(path)
        result["params_digest"] = result["params_digest"][::-1]
        path.write_text(json.dumps({key: value for key, value in result.items() if key not in ("format", "xxh3")}))
        output = self.run_causeway("simulate", config, "--out", self.out, "--no-baseline", "--resume", code=4)
        self.assertIn("THE REGIONS DIFFER", output)

    def test_a_wrong_state_is_healed_and_never_contributes(self):
        config = self.config(steps=200)
        child = self.start("simulate", config, "--out", self.out, "--no-baseline")
        wait_until(lambda: min(self.status(r).get("version", 0) for r in REGIONS) >= 4, "four rounds", child)
        child.send_signal(signal.SIGINT)
        self.finish(child, code=130)
        self.spoil_anchor(self.out / "regions" / "eu-west" / "checkpoints")
        child = self.start("simulate", config, "--out", self.out, "--no-baseline", "--resume")
        self.finish(child)
        self.assert_identical(read_json(self.out / "summary.json"))
        log = (self.out / "regions" / "eu-west" / "coordinator.log").read_text()
        self.assertIn("is not the one that the other regions agreed on", log)

    def spoil_anchor(self, checkpoints):
        """One bit of one number, in files that are whole otherwise: as a bad memory cell leaves it."""
        state = checkpoints / "state.safetensors"
        metadata = json.loads(header_of(state.read_bytes()))["__metadata__"]
        outer = checkpoints / metadata["outer"]
        data = bytearray(outer.read_bytes())
        text = header_of(data)
        header = json.loads(text)

        def tensor(span):
            first, last = (8 + len(text) + offset for offset in header[span]["data_offsets"])
            return slice(first, last)

        data[tensor("anchor").start + 2] ^= 1
        root = merkle_root(data[tensor("anchor")])
        digest = hashlib.sha256(root + merkle_root(data[tensor("momentum")])).hexdigest()
        # A momentum of zeros may have the hash of an anchor: only the anchor's is changed.
        text = re.sub(r'("causeway\.tree\.anchor" *: *")[0-9a-f]+', r"\g<1>" + root.hex(), text)
        outer.write_bytes(sealed(data, text.replace(metadata["digest"], digest)))
        data = bytearray(state.read_bytes())
        state.write_bytes(sealed(data, header_of(data).replace(metadata["digest"], digest)))


def header_of(data):
    return data[8:8 + int.from_bytes(data[:8], "little")].decode()


def sealed(data, header):
    """The file with another header of the same length, and its hash."""
    text = header.replace(json.loads(header)["__metadata__"]["causeway.header"], "0" * 64)
    text = text.replace("0" * 64, hashlib.sha256(data[:8] + text.encode()).hexdigest(), 1)
    return data[:8] + text.encode() + data[8 + len(text):]


class PacketEngine(EndToEnd):
    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_regions_in_namespaces_joined_by_packets_end_with_the_same_bits(self):
        self.add_events('at_s = 1; process = "restart"; region = "eu-west"; role = "coordinator"',
                        'at_s = 1.5; loss = 0.02; for_s = 1')
        summary = self.simulate(self.config(workers=(2, 1, 1), steps=100), "--wan", "packet")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 20)
        self.assertIsNotNone(summary["baseline_val_loss"])  # its workers meet outside the namespaces
        links = (self.out / "regions" / "eu-west" / "coordinator.log").read_text()
        self.assertNotIn("127.0.0.1", links)

    @unittest.skipUnless(namespaces_allowed(), "network namespaces are not allowed here")
    def test_without_privileges_it_says_what_is_missing(self):
        root_of_nothing = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all"]
        if os.geteuid() != 0:
            root_of_nothing = ["unshare", "--user", "--map-root-user", *root_of_nothing]
        done = subprocess.run([*root_of_nothing, CAUSEWAY, "simulate", self.config(), "--out", self.out, "--wan",
                               "packet"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("CAP_SYS_ADMIN", done.stdout)
        self.assertIn("--wan relay", done.stdout)


class SmallSpool(RunByHand):
    def test_a_region_that_was_away_catches_up_with_the_least_spool_that_is_accepted(self):
        config = self.config(addresses=self.addresses, steps=100_000, **DENSE)
        text = config.read_text().replace("checkpoint_rounds = 2", "checkpoint_rounds = 20")
        config.write_text(text.replace("[sync]", "[sync]\nspool_gib = 0.001"))
        refused = self.finish(self.coordinator(config, REGIONS[0], "--found"), code=2)
        least = re.search(r"must be at least ([0-9.]+)", refused)[1]
        config.write_text(text.replace("[sync]", f"[sync]\nspool_gib = {least}"))
        coordinators = self.start_coordinators(config)
        workers = self.start_workers(config, (1, 1, 1))
        first, away = REGIONS[0], REGIONS[2]
        wait_until(lambda: self.version(away) >= 10, "ten rounds", coordinators[2])
        coordinators[2].send_signal(signal.SIGSTOP)
        before = self.version(first)
        wait_until(lambda: self.version(first) >= before + 100, "a hundred rounds without it", coordinators[0])
        coordinators[2].send_signal(signal.SIGCONT)
        there = self.version(first)
        wait_until(lambda: self.version(away) >= there + 20, "it to go on", coordinators[2])
        wait_until(lambda: not self.status(away)["falls_behind"], "it to catch up", coordinators[2])
        for region in REGIONS:
            log = (self.region_directory(region) / "coordinator.log").read_text()
            self.assertLess(log.count("declin"), 30, log[-3000:])
        for child in (*workers, *coordinators):
            child.kill()
            child.wait()

    def test_a_program_whose_model_needs_more_is_refused_before_its_first_round(self):
        config = self.config(steps=100, k=5, **{**DENSE, "codec": "dense:fp32"})
        program = f"{NOISE_WORKER} {config} $CAUSEWAY_REGION $CAUSEWAY_DIRECTORY"
        command = ("simulate", config, "--wan", "none", "--out", self.out, "--worker", program)
        said = self.run_causeway(*command, "--set", "sync.spool_gib=0.001", code=2)
        least = re.search(r"sync.spool_gib: must be at least ([0-9.]+): payloads of \d+ rounds of 3 regions", said)
        self.assertTrue(least, said)
        self.assertFalse(any(self.status(region).get("round") for region in REGIONS))
        shutil.rmtree(self.out)
        self.run_causeway(*command, "--set", f"sync.spool_gib={least[1]}")
        self.assertEqual(read_json(self.out / "summary.json")["rounds"], 20)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
