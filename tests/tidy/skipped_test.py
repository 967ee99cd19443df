"""What is said of skipped tests names each of them, why, and what runs it."""
import contextlib
import importlib.util
import io
import pathlib
import tempfile
import unittest

FILE = pathlib.Path(__file__).parents[1] / "skipped.py"
spec = importlib.util.spec_from_file_location("skipped", FILE)
skipped = importlib.util.module_from_spec(spec)
spec.loader.exec_module(skipped)

RESULTS = """<testsuite>
<testcase name="codec.works" status="run"><system-out>OK</system-out></testcase>
<testcase name="e2e.Audit.test_a" status="notrun"><skipped message=""/>
<system-out>test_a (__main__.Audit.test_a) ... skipped 'needs numpy'

OK (skipped=1)</system-out></testcase>
<testcase name="e2e.Audit.test_b" status="notrun"><skipped message=""/>
<system-out>test_b (__main__.Audit.test_b) ... skipped 'needs numpy'

OK (skipped=1)</system-out></testcase>
<testcase name="mesh.namespaces" status="notrun"><skipped message=""/>
<system-out>tests/namespaces_test.cc:20: Skipped
without root it would move this process for good

[  SKIPPED ] mesh.namespaces (0 ms)</system-out></testcase>
</testsuite>"""


class Skipped(unittest.TestCase):
    def said_of(self, results):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(results)
            file.flush()
            with contextlib.redirect_stdout(io.StringIO()) as said:
                skipped.main(file.name)
        return said.getvalue()

    def test_each_is_named_with_its_reason_and_command(self):
        said = self.said_of(RESULTS)
        self.assertIn("Not run here: 3 tests", said)
        self.assertIn("  2, as needs numpy. Run by ./check --python:\n    e2e.Audit.test_a\n    e2e.Audit.test_b\n", said)
        self.assertIn("  1, as without root it would move this process for good. Run by ./check as root:\n    mesh.namespaces\n", said)
        self.assertNotIn("codec.works", said)

    def test_nothing_is_said_if_nothing_was_skipped(self):
        self.assertEqual(self.said_of("<testsuite><testcase name='a' status='run'/></testsuite>"), "")


if __name__ == "__main__":
    unittest.main()
