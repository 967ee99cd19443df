"""libcauseway.so exports what symbols.txt lists, and nothing else: what is listed stays for ever. The header declares
the same functions."""
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HEADER = HERE.parents[2] / "intra" / "c_api" / "causeway.h"
LIBRARY = sys.argv.pop(1)


class Symbols(unittest.TestCase):
    listed = (HERE / "symbols.txt").read_text().split()

    def test_the_library_exports_what_is_listed(self):
        told = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", LIBRARY],
                              capture_output=True, text=True, check=True).stdout
        exported = [line.split()[-1] for line in told.splitlines()]
        versions = [name for name in exported if re.fullmatch(r"CAUSEWAY_\d+\.\d+", name)]
        self.assertEqual(versions, ["CAUSEWAY_1.0"])
        self.assertEqual(sorted(set(exported) - set(versions)), self.listed)

    def test_the_header_declares_what_is_listed(self):
        declared = re.findall(r"^[\w* ]+?\b(causeway_\w+)\(", HEADER.read_text(), flags=re.M)
        self.assertEqual(sorted(declared), [name.split("@")[0] for name in self.listed])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
