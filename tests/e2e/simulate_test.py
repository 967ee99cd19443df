"""causeway simulate: the whole job on one host."""
import json
import os
import pathlib
import signal
import sys
import unittest

from documented_outputs import assert_documented
from harness import DENSE, REGIONS, EndToEnd, kill, processes, read_json, wait_until


class Simulate(EndToEnd):
    def test_sparse_run_learns_and_ends_with_the_same_bits(self):
        summary = self.simulate(self.config(steps=60), "--sample-tokens", "20")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 12)
        self.assertEqual(summary["k"], 5)
        self.assertLess(summary["val_loss"], 5.0)  # ln 256 = 5.55 untrained
        self.assertLess(summary["baseline_val_loss"], 3.0)
        parameters = summary["parameters"]
        self.assertEqual(summary["wan_bytes_if_synced_every_step"], 16 * parameters * 60)
        self.assertEqual(summary["wan_bytes"], sum(r["wan_tx_bytes"] for r in summary["regions"]))
        self.assertGreater(summary["wan_bytes"], 0)
        for region in summary["regions"]:
            self.assertEqual(region["steps"], 60)
            self.assertEqual(region["val_loss"], summary["val_loss"])
        events = [json.loads(line) for line in (self.out / "events.jsonl").read_text().splitlines()]
        rounds = [(e["round"], e["region"]) for e in events if "participants" in e]
        self.assertEqual(sorted(rounds), sorted((t, r) for t in range(12) for r in REGIONS))
        for name in ("config.toml", "report.html", "checkpoints/final/config.json", "tensorboard", "ledger"):
            self.assertTrue((self.out / name).exists(), name)
        for name in ("summary.json", "simulation.json", "progress.jsonl"):
            assert_documented(self, self.out / name)
        for name in ("status.json", "result.json", "compression.jsonl"):
            assert_documented(self, self.out / "regions" / REGIONS[0] / name)
        assert_documented(self, self.out / "events.jsonl", lambda line: "participants" in line)

        final = self.out / "checkpoints" / "final"
        text = self.run_causeway("generate", final, "--tokens", "40", "--seed", "1")
        self.assertEqual(text, self.run_causeway("generate", final, "--tokens", "40", "--seed", "1"))
        evaluated = json.loads(self.run_causeway("eval", final, "--config", self.out / "config.toml", "--json"))
        self.assertAlmostEqual(evaluated["val_loss"], summary["val_loss"], places=5)

    def test_codecs_by_tensor_and_a_bound_on_the_error_hold_in_every_round(self):
        self.simulate(self.config(workers=(2, 1, 1), steps=20), "--no-baseline",
                      "--set", 'codec.tensors=["*wte*=topk:k=256,value=int4,index=rice"]', "--set", "codec.error_max=0.6",
                      "--set", 'codec.step_up=["topk:k=512", "dense:int4", "dense:fp32"]')
        for region in REGIONS:
            lines = (self.out / "regions" / region / "compression.jsonl").read_text().splitlines()
            rounds = [json.loads(line) for line in lines]
            self.assertEqual([r["round"] for r in rounds], [0, 1, 2, 3])
            tensors = {t["tensor"]: t for r in rounds for t in r["tensors"]}
            self.assertIn("vectors", tensors)
            self.assertTrue(any("wte" in name for name in tensors))
            for tensor in (t for r in rounds for t in r["tensors"]):
                self.assertLessEqual(tensor["relative_squared_error"], 0.6, tensor)
                self.assertFalse(tensor["stepped_up"] and tensor["codec"].startswith("topk:k=64,"), tensor)
            self.assertTrue(any(t["stepped_up"] for r in rounds for t in r["tensors"]), "top-64 of 4096 keeps less")

    def test_dense_nesterov_llama_with_one_two_and_three_workers_ends_with_the_same_bits(self):
        config = self.config(workers=(1, 2, 3), family="llama", steps=20, **DENSE)
        summary = self.simulate(config, "--no-baseline")
        self.assert_identical(summary)
        self.assertIsNone(summary["baseline_val_loss"])

    def test_muon_ends_with_the_same_bits_however_many_workers_share_its_matrices(self):
        digests = {}
        for shards in ("false", "true"):
            self.out = self.directory / f"shards-{shards}"
            config = self.config(workers=(1, 2, 3), family="llama", steps=20, **DENSE)
            summary = self.simulate(config, "--no-baseline", "--set", "inner.optimizer=muon", "--set", f"train.shard_optimizer={shards}")
            self.assert_identical(summary)
            digests[shards] = summary["regions"][0]["params_digest"]
        self.assertEqual(digests["false"], digests["true"])

    def test_gradients_in_bf16_between_the_workers_of_each_region_end_with_the_same_bits_and_nearly_the_same_loss(self):
        found = {}
        for precision, shards in (("fp32", "false"), ("bf16", "false"), ("bf16", "true")):
            self.out = self.directory / f"{precision}-{shards}"
            config = self.config(workers=(2, 2, 2), steps=20, **DENSE)
            summary = self.simulate(config, "--no-baseline", "--set", f"train.bucket_precision={precision}", "--set", f"train.shard_optimizer={shards}")
            self.assert_identical(summary)
            self.assertEqual([region["steps"] for region in summary["regions"]], [20, 20, 20])
            for log in self.out.rglob("worker-*.log"):
                self.assertNotIn("attaches again", log.read_text())
            found[precision, shards] = summary
        exact = found.pop(("fp32", "false"))
        for rounded in found.values():
            self.assertNotEqual(rounded["regions"][0]["params_digest"], exact["regions"][0]["params_digest"])
            self.assertAlmostEqual(rounded["val_loss"], exact["val_loss"], delta=0.01 * exact["val_loss"])

    def test_overlapping_variants_end_with_the_same_bits_in_regions_of_one_two_and_three_workers(self):
        for variant, keys in (("streaming", {"fragments": 3, "overlap_steps": 2, "warmup_k": 3}), ("eager", {})):
            with self.subTest(variant):
                self.out = self.directory / variant
                settings = [f"sync.{key}={value}" for key, value in keys.items()]
                settings += [f'sync.variant="{variant}"', "train.k=6", "inner.warmup_steps=6",
                             "outer.momentum=0.3"]
                summary = self.simulate(self.config(workers=(1, 2, 3), steps=24, **DENSE), "--no-baseline",
                                        *(part for setting in settings for part in ("--set", setting)))
                self.assert_identical(summary)
                # Two short rounds per fragment, three times K, and what the other fragments learned since.
                self.assertEqual(summary["rounds"], 6 + 9 + 2 if keys else 4)
                self.assertLess(summary["val_loss"], 5.5)

    def test_k_is_chosen_while_the_run_goes_on_the_same_in_all_regions_through_the_loss_of_the_leader(self):
        child = self.start("simulate", self.config(steps=400, **DENSE), "--out", self.out, "--no-baseline",
                           "--set", "sync.k='auto'", "--set", "sync.k_refit_rounds=5", "--set", "sync.k_max=40",
                           "--set", "sync.held_out_sequences=8")
        changed = wait_until(lambda: self.status("us-east").get("k_change"), "a change of K", child)
        self.assertIn("K 5 -> ", changed)
        leader = wait_until(lambda: self.status("us-east").get("leader"), "a leader", child)
        kill(processes("coordinator", str(self.out / "regions" / leader)))
        output = self.finish(child)
        self.assertIn(changed, output)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertLess(summary["rounds"], 80)
        self.assertGreater(summary["k_at_end"], 5)
        lines = [json.loads(line) for line in (self.out / "events.jsonl").read_text().splitlines()]
        decided = {region: [(line["round"], line["event"], line["k"], line["text"]) for line in lines
                            if line.get("event", "").startswith("k_") and line["region"] == region]
                   for region in REGIONS}
        self.assertEqual(len({str(list) for list in decided.values()}), 1, decided)
        steps = [line["steps"] for line in lines if "participants" in line and line["region"] == "us-east"]
        self.assertEqual(sum(steps), 400)
        self.assertGreater(len(set(steps)), 1)

    def test_killed_region_is_restarted_catches_up_and_rejoins(self):
        summary = self.simulate_through_a_kill(self.config(steps=400))
        self.assertGreaterEqual(summary["restarts"], 2)

    def test_killed_leader_is_replaced_and_the_run_goes_on_at_once(self):
        child = self.start("simulate", self.config(steps=300, **DENSE), "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status("us-east").get("version", 0) >= 3, "three rounds", child)
        leader = wait_until(lambda: self.status("us-east").get("leader"), "a leader", child)
        kill(processes("coordinator", str(self.out / "regions" / leader)))
        self.finish(child)
        summary = read_json(self.out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["rounds"], 60)
        self.assertEqual(len({self.status(region)["term"] for region in REGIONS}), 1)

    def test_a_region_that_is_cut_off_trains_on_and_its_work_is_listed_when_it_is_back(self):
        child = self.start("simulate", self.config(steps=3000), "--out", self.out, "--no-baseline",
                           "--set", "sync.staleness_max=8")
        wait_until(lambda: self.status("us-east").get("version", 0) >= 3, "three rounds", child)
        stopped = [pid for region in REGIONS[:2]
                   for pid in processes("coordinator", str(self.out / "regions" / region))]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: "training goes on" in self.status(REGIONS[2]).get("waiting", ""),
                   "training alone", child)
        tokens = self.status(REGIONS[2])["progress"]["tokens"]
        wait_until(lambda: self.status(REGIONS[2])["progress"]["tokens"] > tokens, "more steps", child)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        wait_until(lambda: any(late["part"] > 0 for one in self.rounds_of(REGIONS[0]) for late in one["late"]), "its work", child)
        child.send_signal(signal.SIGINT)
        self.finish(child, code=130)

    def test_killed_worker_of_two_returns_from_its_checkpoint(self):
        config = self.config(workers=(1, 2, 1), steps=300)
        child = self.start("simulate", config, "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status("eu-west").get("version", 0) >= 5, "five rounds", child)
        kill(processes("worker", "--rank", "1", str(self.out / "regions" / "eu-west")))
        self.finish(child)
        self.assert_identical(read_json(self.out / "summary.json"))

    def test_t18_interrupt_saves_exits_130_and_resume_finishes(self):
        config = self.config(steps=2000)
        child = self.start("simulate", config, "--out", self.out, "--no-baseline")
        wait_until(lambda: self.status("ap-northeast").get("version", 0) >= 3, "three rounds", child)
        child.send_signal(signal.SIGINT)
        output = self.finish(child, code=130)
        self.assertIn("--resume", output)
        self.assertEqual(processes(str(self.out / "regions" / "eu-west")), [])
        before = {r: self.status(r)["version"] for r in REGIONS}
        child = self.start("simulate", config, "--out", self.out, "--no-baseline", "--resume",
                           )
        wait_until(lambda: all(self.status(r).get("version", 0) > before[r] for r in REGIONS),
                   "rounds after the resume", child)
        child.send_signal(signal.SIGINT)
        self.finish(child, code=130)

    def test_an_interrupted_run_whose_tee_is_gone_saves_and_says_elsewhere_how_to_go_on(self):
        for reason in (signal.SIGINT, signal.SIGHUP):
            flags = ("--resume",) if reason == signal.SIGHUP else ()
            child = self.start_unread("> >(true)", "simulate", self.config(steps=20_000), "--out", self.out, "--no-baseline", *flags)
            before = self.status("ap-northeast").get("version", 0)
            wait_until(lambda: self.status("ap-northeast").get("version", 0) >= before + 3, "three rounds", child)
            child.send_signal(reason)
            self.assertRegex(self.finish(child, code=130), "Interrupted; the state is saved. To go on:\n.* --resume")

    def test_an_existing_run_is_not_overwritten(self):
        config = self.config(steps=5)
        self.simulate(config, "--no-baseline")
        output = self.run_causeway("simulate", config, "--out", self.out, code=2)
        self.assertIn("--resume", output)

    def test_timed_steps_are_labelled(self):
        summary = self.simulate(self.config(steps=20), "--no-baseline", "--set", "train.timed_step_ms=20")
        self.assert_identical(summary)
        self.assertTrue(summary["timed_steps"])


class BadInput(EndToEnd):
    def test_unknown_key_names_file_line_and_the_nearest_key(self):
        path = self.config()
        path.write_text(path.read_text().replace("heads = 2", "head = 2", 1))
        output = self.run_causeway("simulate", path, "--out", self.out, code=2)
        line = path.read_text().splitlines().index("head = 2") + 1
        self.assertIn(f"config.toml:{line}", output)
        self.assertIn("model.heads", output)

    def test_missing_data_file_is_named(self):
        output = self.run_causeway("simulate", self.config(text="missing.txt"), "--out", self.out, code=2)
        self.assertIn("missing.txt", output)
        self.assertFalse(self.out.exists(), "nothing is left in the way of the next attempt")

    def test_a_congestion_control_that_the_kernel_lacks_is_named(self):
        output = self.run_causeway("simulate", self.config(), "--out", self.out, "--set",
                                   "links.congestion_control=none-such", code=2)
        self.assertIn('"none-such"', output)

    @unittest.skipIf(pathlib.Path("/dev/nvidiactl").exists(), "there is a GPU here")
    def test_a_gpu_that_is_not_there_ends_the_run_with_what_to_do(self):
        config = self.config()
        name = f'name = "{REGIONS[1]}"'
        config.write_text(config.read_text().replace(name, name + '\ndevice = "cuda"'))
        output = self.run_causeway("simulate", config, "--out", self.out, "--no-baseline", code=2)
        self.assertIn("set regions.device to cpu", output)

    def test_what_cannot_be_meant_is_a_usage_error(self):
        self.assertIn("'trian' is no subcommand; causeway --help lists them", self.run_causeway("trian", code=2))
        self.assertIn("'--trian' is no option here; causeway --help lists them", self.run_causeway("--trian", code=2))
        for flags in (("generate", ".", "--temperature", "nan"), ("generate", ".", "--top-k", "-1"),
                      ("generate", ".", "--seed", "-1"), ("tune", "none.toml", "--step-ms", "nan"),
                      ("wan-sim", "none.toml", "--idle", "nan"), ("status", "there:1", "--timeout", "nan")):
            self.assertIn(f"{flags[2]}: {flags[3]}: must be a number from", self.run_causeway(*flags, code=2))
        self.assertIn('unknown family "foo"', self.run_causeway("tune", "none.toml", "--codec", "foo", code=2))
        self.assertIn("text/made: Not a directory",
                      self.run_causeway("certs", "--directory", self.directory / "text" / "made", "init", code=2))

    def test_repeated_flags_take_one_value_each_and_leave_the_file_alone(self):
        config = self.config()
        self.assertIn('name = "other"', self.run_causeway("config", "--set", "run.name=other", config))
        for flags in (("coordinator", "--region", REGIONS[0]), ("worker", "--region", "none"), ("witness",)):
            output = self.run_causeway(*flags, "--set", "sync.none=1", config, code=2)
            self.assertIn("sync.none", output)
        output = self.run_causeway("eval", "--config", config, "--set", "run.name=other", self.directory, code=4)
        self.assertNotIn("CHECKPOINT is required", output)

    def test_flags_of_another_wan_engine_are_refused(self):
        wan = self.directory / "wan.toml"
        for engine, flag, value, honoured in (("virtual", "--record", "events", "relay or packet"),
                                              ("virtual", "--seconds", "3", "relay or packet"),
                                              ("relay", "--transfer", "a:b=1", "virtual or fluid"),
                                              ("packet", "--map", "a:b=host:1", "relay")):
            output = self.run_causeway("wan-sim", wan, "--engine", engine, flag, value, code=2)
            self.assertIn(f"{flag}: works only with --engine {honoured}, not with --engine {engine}", output)

    def test_a_virtual_transfer_sends_every_byte_over_whatever_connections(self):
        wan = self.directory / "wan.toml"
        wan.write_text('regions = ["eu", "us"]\n[defaults]\ndelay_ms = 10\nrate_mbit_s = 100\n')
        output = self.run_causeway("wan-sim", "--transfer", "eu:us=3x8", wan, "--engine", "virtual")
        self.assertIn("3 bytes over 8 connections", output)

    def test_missing_checkpoint_is_named(self):
        self.assertIn("none.safetensors", self.run_causeway("generate", "none.safetensors", code=4))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
