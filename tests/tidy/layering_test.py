"""The edges between folders are those of the design; this reads every #include and fails on any other."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = {"compression", "inter", "diloco", "intra", "wan-sim", "apps"}
ALLOWED = {
    "compression": set(),
    "inter": set(),
    "diloco": {"compression", "inter"},
    "intra": {"compression", "diloco"},
    "wan-sim": {"inter"},
    "apps": {"compression", "inter", "diloco", "intra", "wan-sim"},
}
# intra sees diloco's maths, its worker API and how it writes files, not its protocol.
INTRA_SEES = {"layout.h", "fragments.h", "outer.h", "overlap.h", "digest.h", "record.h", "worker_session.h", "error.h",
              "data_share.h", "sealed_bytes.h", "fault_point.h", "file_io.h", "progress_json.h", "outer_element.h",
              "sha256_leaf.h"}


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*") if p.suffix in {".h", ".cc", ".cu", ".cuh"}]


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if match:
            yield number, match.group(1)


class Layering(unittest.TestCase):
    def test_folders_include_only_what_the_design_allows(self):
        wrong = []
        for folder in sorted(FOLDERS):
            for path in sources(folder):
                for number, name in includes(path):
                    target = name.split("/")[0]
                    if target not in FOLDERS or target == folder or target in ALLOWED[folder]:
                        continue
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {folder} may not include {name}")
        self.assertEqual(wrong, [])

    def test_intra_sees_only_the_maths_and_the_worker_api_of_diloco(self):
        wrong = []
        for path in sources("intra"):
            for number, name in includes(path):
                folder, _, rest = name.partition("/")
                if folder == "diloco" and rest not in INTRA_SEES:
                    wrong.append(f"{path.relative_to(ROOT)}:{number}: {name}")
        self.assertEqual(wrong, [])

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
