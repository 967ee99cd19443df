"""docs/themes.md names the tests that show each theme and each property; this checks that they exist."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "themes.md"
# All that the page has; numbers that are missing are themes of compression, first runs, tuning and GPUs.
THEMES = [f"T{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 18)]


def tests_in_sources():
    """`Suite.Test` for GoogleTest (`Prefix/Suite.Test` where it is instantiated) and `file.test_name` for Python."""
    names = set()
    for path in (ROOT / "tests").rglob("*.cc"):
        text = path.read_text()
        suites = {}
        for suite, name in re.findall(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", text):
            names.add(f"{suite}.{name}")
            suites.setdefault(suite, []).append(name)
        for prefix, suite in re.findall(r"\bINSTANTIATE_TEST_SUITE_P\(\s*(\w+),\s*(\w+)", text):
            names.update(f"{prefix}/{suite}.{name}" for name in suites.get(suite, []))
    for path in (ROOT / "tests" / "e2e").glob("*_test.py"):
        file = path.name.removesuffix("_test.py")
        names.update(f"{file}.{name}" for name in re.findall(r"def (test_\w+)", path.read_text()))
    return names


def named_on_page():
    return set(re.findall(r"`((?:\w+/)?\w+\.\w+)`", PAGE.read_text()))


class Themes(unittest.TestCase):
    def test_every_test_on_the_page_exists(self):
        self.assertEqual(sorted(named_on_page() - tests_in_sources()), [])

    def test_every_theme_has_a_test_of_its_name(self):
        for theme in THEMES:
            pattern = re.compile(rf"^{theme}(?!\d)|test_{theme.lower()}_")
            found = [name for name in named_on_page() if pattern.search(name) or pattern.search(name.split(".")[1])]
            self.assertTrue(found, f"{PAGE}: no test named after {theme}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
