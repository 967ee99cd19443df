"""A gate against what gets slower: the project's speed ratios, measured here and compared with bench/ratios.toml.

    python3 bench/run.py --compare        names what fell; less than 15 minutes on two cores that do nothing else
    python3 bench/run.py --update         writes the figures of this kind of CPU anew
    python3 bench/run.py --widen          the same, and keeps in each range what the table has there: for a second run hours later, as a
                                          machine has faster and slower hours
    python3 bench/run.py --list           which rows there are, and which of them this machine can measure

A ratio is ours against a peer or a limit of the same run (memcpy, raw TLS, oneDNN's bare products, the rate set for a link), and
higher is better. The table has its figures by kind of CPU and number of cores, because ratios differ between them.

Noise: all benchmarks run in turn, three times over (--turns). The median counts, and the range of the figures is their spread. A row
fell if its median is more than 5 % below the table's, lies below the table's range, and the table's median lies above the range of
this run. What seems to have fallen is measured as many times again, and counts only if it fell by all its figures together.

A busy machine: if other programs take more than a tenth of the machine's CPU during a benchmark, its figures are busy. A row counts
its quiet figures if they are half of them or more; otherwise all, and it is marked busy, here or in the table. Busy rows are named
when they fall, with a question mark, but do not fail the gate, as they say little; --strict lets them. Sizes in bytes are never busy.
A load average above the number of cores at the start is said too.

A row that cannot be measured here is named with the reason, and fails the gate only with --strict. A benchmark that ends with an
error, or does not print its figures, always does. Exit status: 0 nothing fell; 1 something fell or is broken; 2 nothing was compared.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time
import tomllib

import measuring
import rows

TABLE = pathlib.Path(__file__).with_name("ratios.toml")
FALL = 0.05
BUSY = 0.1
HEADING = """\
# Speed ratios by kind of CPU: ours against a peer or a limit of the same run, higher is better. `bench/run.py --update` writes this
# file, --compare compares with it. ratio: the median of some runs, low to high their range; busy: other programs took CPU meanwhile.
"""


class Refused(Exception):
    """Nothing can be compared; the message says what to do."""


@dataclasses.dataclass
class Row:
    """What was measured of one ratio: figures, each with the share of the machine that others took meanwhile; or why there are none."""
    name: str
    of: str
    command: str
    is_size: bool = False
    figures: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    not_run: str = ""
    broken: str = ""

    def entry(self):
        """Its place in the table."""
        quiet = [ratio for ratio, others in self.figures if others <= BUSY]
        busy = not self.is_size and 2 * len(quiet) < len(self.figures)
        counted = [ratio for ratio, _ in self.figures] if busy or self.is_size else quiet
        ratio, low, high = (float(f"{value:.4g}") for value in (statistics.median(counted), min(counted), max(counted)))
        return {"command": self.command, "of": self.of, "ratio": ratio, "low": low, "high": high, "busy": busy}


def judge(row, kept):
    """What became of a row; `kept` is its place in the table, or None. A verdict that ends in ? is of a busy machine."""
    if row.broken or row.not_run:
        return "broken" if row.broken else "not run"
    now = row.entry()
    if kept is None or any(now[key] != kept[key] for key in ("command", "of")):
        return "new"
    doubt = "?" if now["busy"] or kept["busy"] else ""
    if now["ratio"] < (1 - FALL) * kept["ratio"] and now["ratio"] < kept["low"] and now["high"] < kept["ratio"]:
        return "fell" + doubt
    if now["ratio"] > (1 + FALL) * kept["ratio"] and now["ratio"] > kept["high"] and now["low"] > kept["ratio"]:
        return "rose" + doubt
    return "as before" + doubt


# ---- Measuring ----

def chosen(only):
    benches = [bench for bench in rows.BENCHES if any(re.search(only, name) for name in bench.rows)]
    if not benches:
        raise Refused(f"no row is like {only!r}: --list has them all")
    return benches


def rows_of(benches, here):
    """{name: Row}, without figures yet."""
    measured = {}
    for bench in benches:
        lacks = bench.lacks(here)
        for name, of in bench.rows.items():
            measured[name] = Row(name, of, bench.command, name in bench.sizes, not_run=f"needs {lacks}" if lacks else "")
    return measured


def require_programs(benches, measured, here):
    missing = sorted({name for bench in benches if not any(measured[row].not_run for row in bench.rows)
                      for name in bench.programs if not here.program(name).is_file()})
    if missing:
        raise Refused(f"{', '.join(missing)}: not in {here.build}. Build them: cmake --preset check && "
                      f"cmake --build --preset check -- {' '.join(missing)}; or name another build folder with --build")


def take_turn(benches, here, measured):
    """Runs each benchmark once and adds its figures to the rows."""
    for bench in benches:
        mine = [measured[name] for name in bench.rows]
        if any(row.not_run or row.broken for row in mine):
            continue
        others, began = measuring.Others(), time.monotonic()
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
            here.scratch = pathlib.Path(scratch)
            try:
                ratios = bench.measure(here)
            except measuring.Broken as error:
                for row in mine:
                    row.broken = str(error)
                continue
        share = others.share()
        for row in mine:
            row.figures.append((ratios[row.name], share))
        print(f"{time.monotonic() - began:5.0f} s, others {100 * share:3.0f} %: {bench.command}", file=sys.stderr, flush=True)


# ---- The table: {kind of CPU: {row: its place}} ----

def read_table(path):
    table = {}
    for kind, commands in (tomllib.loads(path.read_text()) if path.exists() else {}).items():
        table[kind] = {name: {"busy": False, **kept, "command": part["command"], "measured": part["measured"]}
                       for part in commands for name, kept in part["rows"].items()}
    return table


def write_table(path, table):
    lines = [HEADING]
    for kind, places in sorted(table.items()):
        for command, measured in sorted({(kept["command"], kept["measured"]) for kept in places.values()}):
            lines += [f"[[{json.dumps(kind)}]]", f"command = {json.dumps(command)}", f"measured = {json.dumps(measured)}"]
            for name, kept in places.items():
                if (kept["command"], kept["measured"]) == (command, measured):
                    keys = ("ratio", "low", "high", "of", *(["busy"] if kept["busy"] else []))
                    lines.append(f"rows.{json.dumps(name)} = {{ {', '.join(f'{key} = {json.dumps(kept[key])}' for key in keys)} }}")
            lines.append("")
    path.write_text("\n".join(lines))


def update(path, table, kind, measured, widen=False):
    """Rows that were not measured keep their figures; those that bench/rows.py has no more are dropped."""
    new = {name: row.entry() for name, row in measured.items() if row.figures and not row.broken}
    for name, place in new.items():
        shares = [share for _, share in measured[name].figures]
        kept = table.get(kind, {}).get(name)
        if widen and kept and kept["command"] == place["command"] and kept["busy"] == place["busy"]:
            place |= {"low": min(place["low"], kept["low"]), "high": max(place["high"], kept["high"])}
        place["measured"] = (f"{datetime.date.today()}, {len(shares)} times, "
                             f"while others took {100 * statistics.median(shares):.0f} % of the machine")
    known = {name for bench in rows.BENCHES for name in bench.rows}
    table[kind] = {name: kept for name, kept in (table.get(kind, {}) | new).items() if name in known}
    write_table(path, table)
    for name, row in measured.items():
        if name not in new:
            print(f"not written: {name}: {row.broken or row.not_run}")
    print(f"{len(new)} rows of {kind!r} written to {path}, {sum(place['busy'] for place in new.values())} of them busy")
    return 1 if any(row.broken for row in measured.values()) else 0


# ---- What is said ----

def row_line(verdict, row, kept):
    if verdict in ("broken", "not run"):
        return f"{verdict:11} {row.name}: {row.broken or row.not_run}"
    now = row.entry()
    line = f"{verdict:11} {row.name}: {now['ratio']:.4g} ({now['low']:.4g} to {now['high']:.4g}) {row.of}"
    if verdict != "new":
        line += f"; was {kept['ratio']:.4g} ({kept['low']:.4g} to {kept['high']:.4g}): {100 * (now['ratio'] / kept['ratio'] - 1):+.1f} %"
    return line


def report(measured, table, only, strict):
    """Prints a line for each row, and what fails. Returns the exit status. `table`: {row: its place} of this kind of CPU."""
    verdicts = {name: judge(row, table.get(name)) for name, row in measured.items()}
    for name, row in measured.items():
        print(row_line(verdicts[name], row, table.get(name)))
    for name in table.keys() - measured.keys():
        if re.search(only, name):
            verdicts[name] = "gone"
            print(f"{'gone':11} {name}: in the table, but no row of bench/rows.py")
    counts = {verdict: list(verdicts.values()).count(verdict) for verdict in sorted(set(verdicts.values()))}
    print("\n" + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()) +
          ("; ?: on a busy machine, which says little" if any(verdict.endswith("?") for verdict in counts) else ""))
    bad = ("fell", "broken", *(("fell?", "not run", "gone") if strict else ()))
    failed = [name for name, verdict in verdicts.items() if verdict in bad]
    for name, verdict in verdicts.items():
        if name in failed or verdict == "fell?":
            command = f": {measured[name].command}" if name in measured else ""
            print(f"{'FAILED' if name in failed else 'not counted'}: {name}: {verdict}{command}")
    return 1 if failed else 0


def show_list(benches, here):
    for bench in benches:
        lacks = bench.lacks(here)
        print(bench.command + (f"\n    not run here: needs {lacks}" if lacks else ""))
        for name, of in bench.rows.items():
            print(f"    {name}: {of}")
    print("\nNot measured by this program:")
    for what, how in rows.LEFT_OUT.items():
        print(f"    {what}: {how}")


def compare_or_update(flags, here, benches):
    kind, table = measuring.this_cpu(), read_table(flags.table)
    if flags.compare and kind not in table:
        raise Refused(f"{flags.table} has no figures of {kind!r}, only of {', '.join(map(repr, sorted(table))) or 'nothing'}: "
                      "measure a version that you trust with --update")
    measured = rows_of(benches, here)
    require_programs(benches, measured, here)
    load = os.getloadavg()[0]
    if load > os.cpu_count():
        print(f"This machine is busy: its load average is {load:.1f} on {os.cpu_count()} cores. Figures mean little.", flush=True)
    for _ in range(flags.turns):
        take_turn(benches, here, measured)
    if flags.update or flags.widen:
        return update(flags.table, table, kind, measured, flags.widen)
    suspects = [bench for bench in benches if any(judge(measured[name], table[kind].get(name)).startswith("fell") for name in bench.rows)]
    for _ in range(flags.turns if suspects else 0):
        take_turn(suspects, here, measured)
    return report(measured, table[kind], flags.only, flags.strict)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    for name in ("compare", "update", "widen", "list"):
        mode.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--only", metavar="PATTERN", default="",
                        help="rows whose name has this regular expression, with others of a command")
    parser.add_argument("--strict", action="store_true", help="busy rows that fell, and rows that are not run or gone, fail the gate too")
    parser.add_argument("--turns", type=int, default=3, help="how often each benchmark runs (default: 3)")
    parser.add_argument("--build", type=pathlib.Path, default=measuring.ROOT / "build-check", help="default: build-check")
    parser.add_argument("--table", type=pathlib.Path, default=TABLE, help="default: bench/ratios.toml")
    parser.add_argument("--torch-python", metavar="PYTHON", default=sys.executable,
                        help="has PyTorch and our module (default: the one that runs this)")
    flags = parser.parse_args(arguments)
    here = measuring.Here(flags.build.resolve(), flags.torch_python)
    try:
        benches = chosen(flags.only)
        if flags.list:
            show_list(benches, here)
            return 0
        return compare_or_update(flags, here, benches)
    except Refused as error:
        print(f"bench/run.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
