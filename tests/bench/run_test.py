"""bench/run.py: what falls is named, noise is not, what was not measured is named, and the exit status says which."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import measuring  # noqa: E402
import rows  # noqa: E402
import run  # noqa: E402

KIND = "AMD Zen 9, 2 cores"


def bench(name, ratios, command="true", **more):
    """A benchmark that gives these ratios, one each time."""
    left = iter(ratios)
    return measuring.Bench((command,), {name: "of a peer"}, lambda text, here: {name: next(left)}, **more)


class Gate(unittest.TestCase):
    """`bench/run.py` over benchmarks that give what a test wants."""

    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.table = self.directory / "ratios.toml"
        self.others = 0.0
        test = self

        class Others:
            def share(self):
                return test.others
        self.enterContext(mock.patch.object(measuring, "Others", Others))
        self.enterContext(mock.patch.object(measuring, "this_cpu", lambda: KIND))
        self.enterContext(mock.patch("os.getloadavg", lambda: (0.0, 0.0, 0.0)))

    def run_gate(self, benches, *flags):
        """The exit status, and what is said."""
        with mock.patch.object(rows, "BENCHES", benches), contextlib.redirect_stdout(io.StringIO()) as out, \
                contextlib.redirect_stderr(io.StringIO()) as err:
            status = run.main(["--table", str(self.table), "--build", str(self.directory), *flags])
        return status, out.getvalue() + err.getvalue()

    def write(self, ratios=(0.98, 1.0, 1.02), name="codec", **more):
        self.assertEqual(self.run_gate([bench(name, ratios, **more)], "--update")[0], 0)

    def compare(self, *ratios, flags=(), **more):
        return self.run_gate([bench("codec", ratios, **more)], "--compare", *flags)

    def test_a_fall_is_named_with_its_figures_and_command(self):
        self.write()
        status, said = self.compare(*[0.93, 0.94, 0.92] * 2)
        self.assertEqual(status, 1)
        self.assertIn("fell        codec: 0.93 (0.92 to 0.94) of a peer; was 1 (0.98 to 1.02): -7.0 %", said)
        self.assertIn("FAILED: codec: fell: true", said)

    def test_five_per_cent_are_no_fall(self):
        self.write((1.0, 1.0, 1.0))
        self.assertEqual(self.compare(0.951, 0.951, 0.951)[0], 0)
        self.assertEqual(self.compare(*[0.949] * 6)[0], 1)

    def test_what_lies_within_the_spread_of_the_table_is_no_fall(self):
        self.write((0.85, 1.0, 1.1))
        status, said = self.compare(0.9, 0.9, 0.9)
        self.assertEqual(status, 0)
        self.assertIn("as before   codec", said)

    def test_what_spreads_to_the_table_is_no_fall(self):
        self.write()
        self.assertEqual(self.compare(0.9, 0.9, 1.0)[0], 0)

    def test_what_fell_by_chance_is_measured_again(self):
        self.write()
        status, said = self.compare(0.9, 0.9, 0.9, 1.0, 1.01, 1.0)
        self.assertEqual(status, 0)
        self.assertIn("as before   codec: 0.95 (0.9 to 1.01)", said)

    def test_a_rise_is_named_and_passes(self):
        self.write()
        status, said = self.compare(1.2, 1.2, 1.2)
        self.assertEqual((status, "rose        codec: 1.2" in said), (0, True))

    def test_a_fall_on_a_busy_machine_is_named_and_fails_only_if_strict(self):
        self.write()
        self.others = 0.5
        for flags, wanted, end in (((), 0, "not counted"), (("--strict",), 1, "FAILED")):
            status, said = self.compare(*[0.5] * 6, flags=flags)
            self.assertEqual(status, wanted)
            self.assertIn(f"\n{end}: codec: fell?: true\n", said)
            self.assertIn("fell?       codec: 0.5", said)
            self.assertIn("busy machine", said)

    def test_a_fall_from_a_figure_of_a_busy_machine_counts_as_little(self):
        self.others = 0.5
        self.write()
        self.others = 0.0
        self.assertIn("busy = true", self.table.read_text())
        self.assertEqual(self.compare(*[0.5] * 6)[0], 0)

    def test_a_size_is_never_busy(self):
        self.others = 0.5
        self.write(sizes=("codec",))
        self.assertEqual(self.compare(*[0.5] * 6, sizes=("codec",))[0], 1)

    def test_quiet_figures_count_if_they_are_half(self):
        row = run.Row("codec", "of a peer", "true", figures=[(1.0, 0.01), (0.2, 0.9), (0.3, 0.9), (1.1, 0.02)])
        self.assertEqual([row.entry()[key] for key in ("ratio", "low", "high", "busy")], [1.05, 1.0, 1.1, False])
        row.figures.append((0.4, 0.9))
        self.assertEqual([row.entry()[key] for key in ("ratio", "low", "high", "busy")], [0.4, 0.2, 1.1, True])

    def test_a_busy_start_is_said(self):
        self.write()
        with mock.patch("os.getloadavg", lambda: (999.0, 0.0, 0.0)):
            self.assertIn("its load average is 999.0", self.compare(1, 1, 1)[1])

    def test_what_cannot_run_here_is_named_and_fails_only_if_strict(self):
        self.write()
        with mock.patch.dict(measuring.NEEDS, {"torch": (lambda here: False, "PyTorch")}):
            for flags, wanted in (((), 0), (("--strict",), 1)):
                status, said = self.compare(flags=flags, needs=("torch",))
                self.assertEqual(status, wanted)
                self.assertIn("not run     codec: needs PyTorch", said)

    def test_a_row_that_is_gone_or_new_is_named(self):
        self.write()
        status, said = self.run_gate([bench("links", [1, 1, 1])], "--compare")
        self.assertEqual(status, 0)
        self.assertIn("gone        codec", said)
        self.assertIn("new         links: 1", said)
        self.assertEqual(self.run_gate([bench("links", [1, 1, 1])], "--compare", "--strict")[0], 1)
        self.assertNotIn("codec", self.run_gate([bench("links", [1, 1, 1])], "--compare", "--only", "links")[1])

    def test_a_row_of_another_command_is_not_compared(self):
        self.write()
        status, said = self.compare(0.5, 0.5, 0.5, command="true now")
        self.assertEqual((status, "new         codec: 0.5" in said), (0, True))

    def test_a_command_that_fails_is_named_and_fails(self):
        self.write()
        status, said = self.compare(1, 1, 1, command="sh -c 'echo no disk >&2; exit 3'")
        self.assertEqual(status, 1)
        self.assertIn("ended with 3: no disk", said)

    def test_figures_that_are_not_printed_are_named_and_fail(self):
        self.write()
        silent = measuring.Bench(("true",), {"codec": "of a peer"}, lambda text, here: {"codec": measuring.figure(r"(\d+) GB/s", text)})
        status, said = self.run_gate([silent], "--compare")
        self.assertEqual(status, 1)
        self.assertIn("broken      codec: nothing that was printed is like", said)

    def test_a_missing_program_says_how_to_build_it(self):
        self.write()
        status, said = self.compare(1, command="bench_codec 1")
        self.assertEqual(status, 2)
        self.assertIn("cmake --build --preset check -- bench_codec", said)

    def test_no_figures_of_this_cpu_and_no_such_row_compare_nothing(self):
        self.assertIn("--update", self.compare(1)[1])
        self.write()
        self.assertEqual(self.compare(1, flags=("--only", "nothing"))[0], 2)
        with mock.patch.object(measuring, "this_cpu", lambda: "a toaster, 1 core"):
            status, said = self.compare(1)
        self.assertEqual(status, 2)
        self.assertIn(f"no figures of 'a toaster, 1 core', only of '{KIND}'", said)

    def test_widening_keeps_what_the_range_had(self):
        self.write((0.98, 1.0, 1.02))
        self.assertEqual(self.run_gate([bench("codec", [0.9, 0.91, 0.92])], "--widen")[0], 0)
        self.assertEqual(self.compare(*[0.91] * 3)[0], 0)
        status, said = self.compare(*[0.80] * 6)
        self.assertEqual(status, 1)
        self.assertIn("was 0.91 (0.9 to 1.02)", said)

    def test_an_update_leaves_other_cpus_and_rows_that_did_not_run(self):
        self.write()
        with mock.patch.object(measuring, "this_cpu", lambda: "a toaster, 1 core"):
            self.write((2.0, 2.0, 2.0))
        with mock.patch.dict(measuring.NEEDS, {"torch": (lambda here: False, "PyTorch")}):
            said = self.run_gate([bench("codec", [], needs=("torch",)), bench("links", [3, 3, 3])], "--update")[1]
        self.assertIn("not written: codec: needs PyTorch", said)
        table = run.read_table(self.table)
        self.assertEqual({kind: {name: kept["ratio"] for name, kept in places.items()} for kind, places in table.items()},
                         {KIND: {"codec": 1.0, "links": 3.0}, "a toaster, 1 core": {"codec": 2.0}})


class Machine(unittest.TestCase):
    def test_kinds_of_cpu(self):
        def kind(vendor, family, flags):
            return measuring.cpu_kind(f"vendor_id\t: {vendor}\ncpu family\t: {family}\nflags\t\t: fpu {flags}\n\n" * 2, 2)
        self.assertEqual(kind("AuthenticAMD", 25, "avx2"), "AMD Zen 3, 2 cores")
        self.assertEqual(kind("AuthenticAMD", 25, "avx2 avx512f"), "AMD Zen 4, 2 cores")
        self.assertEqual(kind("AuthenticAMD", 26, "avx2 avx512f"), "AMD Zen 5, 2 cores")
        self.assertEqual(kind("GenuineIntel", 6, "avx2 avx512f amx_tile"), "Intel with AMX, 2 cores")

    def test_our_own_work_is_not_that_of_others(self):
        others = measuring.Others()
        with mock.patch.object(measuring, "machine_cpu_s", lambda: others.began[1] + 5), \
                mock.patch.object(measuring, "own_cpu_s", lambda: others.began[2] + 5):
            self.assertAlmostEqual(others.share(), 0)


class Readers(unittest.TestCase):
    """Of lines as the benchmarks print them."""

    def test_a_codec_beside_its_peer(self):
        text = "encode topk:k=64 on 1        16.51 GB/s |   39.33 memcpy                       |   0.42\n"
        self.assertAlmostEqual(rows.codec_ratio(text, "encode topk:k=64 on 1", "memcpy"), 16.51 / 39.33)

    def test_a_step_beside_products_and_reference(self):
        part = ("124m, B=4, T=64, {}, 2 threads\n  step without optimizer   50.00 ms  1.0 tokens/s\n  step with AdamW   80.00 ms\n"
                "  bare oneDNN products   40.00 ms   8191.2 tokens/s     50.7 GFLOP/s\n")
        text = part.format("fp32") + "  plain OpenMP reference   300.00 ms 1.0 tokens/s; with AdamW 1.0\n" + part.format("bf16")
        step = next(bench for bench in rows.BENCHES if "train 124m: fp32 step" in bench.rows)
        self.assertEqual(list(step.read(text, None).values()), [0.5, 0.5, 6.0])

    def test_rows_have_names_of_their_own(self):
        names = [name for bench in rows.BENCHES for name in bench.rows]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
