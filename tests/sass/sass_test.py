"""No kernel got worse than the committed table says: registers, spills, shared memory, and accesses to global memory narrower than 16 bytes.
And none waits for its lanes, exchanges their values, or cuts numbers at more or fewer places.

    sass_test.py ARCHITECTURE TABLE OBJECT...
"""
import pathlib
import sys
import unittest

import sass_table

ARCHITECTURE, TABLE, *OBJECTS = sys.argv[1:]


def narrow(row):
    figures = dict(zip(sass_table.COLUMNS, row))
    sums = {kind: sum(figures[f"{kind}_{width}"] for width in (64, 32, 16, 8)) for kind in ("loads", "stores")}
    return {**{name: figures[name] for name in ("registers", "spills", "shared")}, "narrow loads": sums["loads"], "narrow stores": sums["stores"]}


@unittest.skipUnless(sass_table.tools(), "cuobjdump and nvdisasm are not here: ./check fetches them where nvcc is")
class Sass(unittest.TestCase):
    maxDiff = None
    SAME = ("barriers", "shuffles", "cuts")

    def test_no_kernel_got_worse(self):
        compiler, before = sass_table.read(pathlib.Path(TABLE))
        if compiler != sass_table.compiler():
            self.skipTest(f"the table is of nvcc {compiler}, this is {sass_table.compiler()}")
        now = sass_table.table(ARCHITECTURE, [file for file in OBJECTS if file.endswith(".cu.o")])
        worse = [f"{kernel}: {what} {narrow(before[kernel])[what]} -> {figure}" for kernel, row in now.items() if kernel in before
                 for what, figure in narrow(row).items() if figure > narrow(before[kernel])[what]]
        for what in self.SAME:
            column = sass_table.COLUMNS.index(what)
            worse += [f"{kernel}: {what} {before[kernel][column]} -> {row[column]}" for kernel, row in now.items()
                      if kernel in before and row[column] != before[kernel][column]]
        worse += [f"{kernel}: is not in the table" for kernel in now.keys() - before.keys()]
        worse += [f"{kernel}: is not compiled any more" for kernel in before.keys() - now.keys()]
        again = f"tests/sass/sass_table.py {ARCHITECTURE} OBJECT... > tests/golden/{pathlib.Path(TABLE).name}"
        self.assertFalse(worse, f"\nIf it is meant: {again}\n" + "\n".join(worse))

    def test_what_is_worse_is_noticed(self):
        row = dict.fromkeys(sass_table.COLUMNS, 0)
        self.assertEqual(narrow({**row, "loads_128": 9}.values()), narrow(row.values()))
        self.assertEqual(narrow({**row, "loads_32": 9}.values())["narrow loads"], 9)

    def test_waits_exchanges_and_cuts_are_told_from_the_rest(self):
        for what, line in (("barriers", "BAR.SYNC.DEFER_BLOCKING 0x0"), ("shuffles", "SHFL.BFLY PT, R5, R4, 0x10"),
                           ("cuts", "F2FP.BF16.F32.PACK_AB_RZ R0, R1, R2"), (None, "F2FP.BF16.F32.PACK_AB R0, R1, R2")):
            self.assertEqual([name for name, pattern in sass_table.OTHERS.items() if pattern.search(line)], [what] if what else [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
