"""Folders and their rooms include one way only. ROOMS is the map: a room may include those that it names, and
no other; this reads every #include and fails on any other edge. docs/architecture.md draws the same."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Each room after all the rooms that it includes; "x/*" is every room of folder x.
ROOMS = {
    "compression/base": [],
    "compression/index": ["compression/base"],
    "compression/value": ["compression/base"],
    "compression/sparsifier": ["compression/base"],
    "compression/kernels": ["compression/base", "compression/value", "compression/sparsifier"],
    "compression/codecs": ["compression/base", "compression/index", "compression/value", "compression/sparsifier"],
    "compression/cuda": ["compression/*"],

    "inter/base": [],
    "inter/frame": ["inter/base"],
    "inter/tls": ["inter/base", "inter/frame"],
    "inter/door": ["inter/base", "inter/frame", "inter/tls"],
    "inter/blob": ["inter/base", "inter/frame"],
    "inter/route": ["inter/base", "inter/frame", "inter/blob"],
    "inter/mesh": ["inter/*"],

    "diloco/maths": ["compression/base", "inter/base"],
    "diloco/files": ["inter/base"],
    "diloco/log": ["diloco/maths", "diloco/files", "inter/base", "inter/frame"],
    "diloco/ledger": ["diloco/maths", "diloco/files", "diloco/log", "inter/base"],
    "diloco/pacing": ["diloco/maths", "diloco/log", "inter/route"],
    "diloco/region": ["diloco/maths", "diloco/log", "diloco/pacing", "inter/base", "inter/frame"],
    "diloco/round": ["diloco/maths", "diloco/log", "diloco/pacing", "diloco/region", "inter/base",
                     "inter/frame"],
    "diloco/follow": ["diloco/maths", "diloco/files", "diloco/log", "diloco/ledger", "inter/base", "inter/frame",
                      "inter/tls", "inter/door", "inter/blob", "inter/mesh"],
    "diloco/worker/stream": ["diloco/files", "diloco/log", "inter/base", "inter/tls"],
    "diloco/worker": ["diloco/maths", "diloco/files", "diloco/log", "diloco/worker/stream", "inter/base", "inter/tls",
                      "inter/door", "inter/mesh"],
    "diloco/coordinator": ["diloco/maths", "diloco/files", "diloco/log", "diloco/ledger", "diloco/pacing",
                           "diloco/region", "diloco/round", "diloco/follow", "diloco/worker/stream", "diloco/worker",
                           "inter/*"],
    "diloco/rehearsal": ["diloco/maths", "diloco/log", "diloco/pacing", "diloco/region", "diloco/round", "inter/mesh"],

    # Of diloco, intra sees the mathematics, files and the worker's session with what that hands over: never the protocol.
    # The C API tells whose errors are whose.
    "intra/base": ["compression/base", "diloco/maths", "diloco/files"],
    "intra/data": ["intra/base", "diloco/maths", "diloco/files"],
    "intra/model/kernels": ["intra/base"],
    "intra/model": ["intra/base", "intra/model/kernels", "diloco/maths"],
    "intra/published": ["intra/base", "intra/data", "intra/model", "compression/base", "diloco/maths", "diloco/files"],
    "intra/collective": ["intra/base", "diloco/maths", "diloco/files"],
    "intra/outer": ["intra/base", "intra/collective", "compression/base", "compression/codecs", "diloco/maths",
                    "diloco/files", "diloco/log"],
    "intra/step": ["intra/base", "intra/data", "intra/model", "intra/published", "intra/collective", "intra/outer",
                   "compression/base", "diloco/maths"],
    "intra/cuda/jobs": ["intra/base", "intra/collective", "intra/model/kernels", "compression/base",
                        "compression/cuda", "diloco/maths"],
    "intra/cuda/device": ["intra/base", "intra/collective", "intra/cuda/jobs", "compression/cuda", "diloco/files"],
    "intra/cuda/step": ["intra/base", "intra/collective", "intra/model", "intra/outer", "intra/step",
                        "intra/cuda/jobs", "compression/cuda"],
    "intra/worker": ["intra/base", "intra/collective", "intra/outer", "intra/published", "intra/step",
                     "intra/cuda/step", "intra/cuda/jobs", "diloco/maths", "diloco/files", "diloco/log",
                     "diloco/worker"],
    "intra/c_api": ["inter/base", "intra/base", "intra/worker", "diloco/files"],

    "wan-sim/base": [],
    "wan-sim/scenario": ["wan-sim/base", "inter/base"],
    "wan-sim/link": ["wan-sim/base", "wan-sim/scenario"],
    "wan-sim/live": ["wan-sim/base", "wan-sim/scenario", "inter/base"],
    "wan-sim/relay": ["wan-sim/base", "wan-sim/scenario", "wan-sim/link", "wan-sim/live", "inter/base"],
    "wan-sim/packet": ["wan-sim/base", "wan-sim/scenario", "wan-sim/link", "wan-sim/live"],
    "wan-sim/virtual": ["wan-sim/base", "wan-sim/scenario", "wan-sim/link", "inter/frame", "inter/route",
                        "inter/mesh"],
    "wan-sim/client": ["inter/base"],

    "apps/describe": [],
    "apps/run/page": [],
    "apps/run/http": ["inter/*"],
    "apps/run/config": ["apps/run/page", "compression/*", "inter/*", "diloco/*", "intra/*"],
    "apps/run/region": ["apps/run/config", "apps/run/page", "compression/*", "inter/*", "diloco/*", "intra/*"],
    "apps/run/watch": ["apps/run/config", "apps/run/page", "apps/run/http", "apps/run/region", "inter/*", "diloco/*"],
    "apps/run/learning": ["apps/run/config", "apps/run/page", "compression/*", "inter/*", "diloco/*", "intra/*"],
    "apps/run/doctor": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/learning", "inter/*", "diloco/*", "intra/*"],
    "apps/run/probe": ["apps/run/config", "apps/run/region", "compression/*", "inter/*", "diloco/*", "intra/*"],
    "apps/run/tune": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/learning", "apps/run/probe",
                      "compression/*", "inter/*", "diloco/*", "intra/*", "wan-sim/*"],
    "apps/run/report": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/watch", "intra/*"],
    "apps/run/simulate": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/watch", "apps/run/tune",
                          "apps/run/report",
                          "compression/*", "inter/*", "diloco/*", "intra/*", "wan-sim/*"],
    "apps/run/verify": ["apps/run/config", "apps/run/page", "apps/run/region", "compression/*", "inter/*", "diloco/*",
                        "intra/*"],
    "apps/run/replay": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/verify", "compression/*",
                        "inter/*", "diloco/*", "intra/*"],
    "apps/run/transfer": ["apps/run/config", "apps/run/page", "apps/run/region", "apps/run/verify", "inter/*",
                          "diloco/*", "intra/*"],
    "apps/run/follow": ["apps/run/config", "apps/run/watch", "apps/run/replay", "compression/*", "inter/*", "diloco/*",
                        "intra/*"],
    "apps/wan": ["apps/run/http", "apps/run/region", "inter/*", "wan-sim/*"],
    "apps": ["apps/*", "compression/*", "inter/*", "diloco/*", "intra/*", "wan-sim/*"],
}
FOLDERS = {name.split("/")[0] for name in ROOMS}
CODE = {".h", ".cc", ".cu", ".cuh"}


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*") if p.suffix in CODE]


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if match:
            yield number, match.group(1)


def room_of(name):
    return str(pathlib.PurePosixPath(name).parent)


def allows(room, other):
    return any(other == named or (named.endswith("/*") and other.startswith(named[:-1])) for named in ROOMS[room])


class Layering(unittest.TestCase):
    maxDiff = None

    def test_every_source_file_is_in_a_room_of_the_map(self):
        wrong = [str(p.relative_to(ROOT)) for folder in sorted(FOLDERS) for p in sources(folder)
                 if room_of(p.relative_to(ROOT)) not in ROOMS]
        self.assertEqual(wrong, [])

    def test_the_map_goes_one_way(self):
        """A room names only rooms that stand before it, but for all of its own folder that do."""
        before, wrong = [], []
        for room, allowed in ROOMS.items():
            for named in allowed:
                if named.endswith("/*"):
                    named = named[:-1]
                    if not any(one.startswith(named) for one in before):
                        wrong.append(f"{room}: {named}*")
                elif named not in before:
                    wrong.append(f"{room}: {named}")
            before.append(room)
        self.assertEqual(wrong, [])

    def test_rooms_include_only_what_the_map_allows(self):
        wrong = []
        for room in ROOMS:
            for path in sources(room):
                if room_of(path.relative_to(ROOT)) != room:
                    continue
                for number, name in includes(path):
                    other = room_of(name)
                    if name.split("/")[0] not in FOLDERS or other == room:
                        continue
                    later = list(ROOMS).index(other) > list(ROOMS).index(room) if other in ROOMS else True
                    if later or not allows(room, other):
                        wrong.append(f"{path.relative_to(ROOT)}:{number}: {room} may not include {name}")
        self.assertEqual(wrong, [])

    def test_the_page_has_the_same_rooms_in_the_same_order(self):
        page = (ROOT / "docs" / "architecture.md").read_text()
        rows = re.findall(r"^\| ((?:`[\w/-]+`(?:, )?)+) \|", page.split("## Rooms")[1].split("\n## ")[0], flags=re.M)
        self.assertEqual([room for row in rows for room in re.findall(r"`([^`]+)`", row)], list(ROOMS))

    def test_the_largest_rooms_are_told(self):
        """Only told: no file is moved to stay below a number."""
        sizes = [(sum(1 for p in (ROOT / room).glob("*") if p.suffix in CODE | {".proto"}), room) for room in ROOMS]
        print("largest rooms, in files:", *(f"  {n:3} {room}" for n, room in sorted(sizes, reverse=True)[:10]), sep="\n")

    def test_every_quoted_include_exists_or_is_generated(self):
        wrong = []
        for folder in sorted(FOLDERS | {"tests", "bench"}):
            for path in sources(folder):
                for number, name in includes(path):
                    ours = name.split("/")[0] in FOLDERS | {"tests", "bench"} or "/" not in name
                    if ours and not (ROOT / name).exists() and not name.endswith(".pb.h"):
                        wrong.append(f"{path.relative_to(ROOT)}:{number}: {name} (paths start at the root)")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
