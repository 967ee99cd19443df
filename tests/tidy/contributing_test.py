"""Documents and comments name files that exist, lists of what there is leave nothing out, and the recipes of CONTRIBUTING.md are
complete: each is followed through with the example that it names. Every file of its list mentions the example, and no
other file of the product does."""
import fnmatch
import json
import pathlib
import re
import subprocess
import sys
import unittest

import layering_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PRODUCT = ("compression/", "inter/", "diloco/", "intra/", "wan-sim/", "apps/")
CODE = (".h", ".cc", ".cu", ".cuh", ".py", ".proto", ".cmake")

# By heading: how the example of a recipe is spelled in code and documents.
EXAMPLES = {
    "A codec value format": r"int4[-_]asymmetric",
    "A configuration key of the worker": r"offload_outer_state",
    "A configuration key of the coordinator": r"speed_adaptive_k",
    "A message between coordinators": r"\bk?Holding\b|coordinator_message/holding$",
    "An impairment of the simulated WAN": r"stalls_per_s|StallSchedule|stall_schedule",
    "A fault of the simulated WAN": r"kill[-_]after",
    "A metric of the worker": r"device_memory_peak_bytes",
    "What a coordinator says of its region": r"missing_ranks",
    "A figure of a simulated run": r"k_at_end",
    "A metric of a link": r"rate_p05",
    "A function of the C API": r"causeway_worker_validated|\bvalidated\(",
    "A collective": r"reduce_scatter_sum",
}


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


FILES = tracked()
FOLDERS = {str(parent) for name in FILES for parent in pathlib.PurePosixPath(name).parents}


def recipes():
    """The numbered files under each heading of the third level, in order."""
    found = {}
    for section in re.split(r"^### ", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)[1:]:
        title, _, text = section.partition("\n")
        found[title] = re.findall(r"^\d+\. `([^`]+)`: ", text, flags=re.M)
    return found


def mentions(name, pattern):
    return re.search(pattern, name) or re.search(pattern, (ROOT / name).read_text(errors="replace"))


def paths_named(page):
    """What stands in backticks and must be in the repository: paths that begin in one of its folders, and bare names of
    source files. Placeholders, patterns and lines of commands are left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    tops = {name.split("/")[0] for name in FILES if "/" in name}
    for token in re.findall(r"`([\w./*-]+)`", text):
        if "/" in token and token.split("/")[0] in tops or "/" not in token and token.endswith(CODE):
            yield token


def anchors(page):
    """Of its headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, flags=re.M)}


def exists(token):
    if "/" not in token:
        return any(fnmatch.fnmatch(pathlib.PurePosixPath(name).name, token) for name in FILES)
    return token.rstrip("/") in FOLDERS or any(fnmatch.fnmatch(name, token) for name in FILES)


def readme_rooms():
    """By folder: the rooms that the README names in its table of folders."""
    table = (ROOT / "README.md").read_text().split("\n## What is where")[1].split("\n## ")[0]
    return {folder: set(re.findall(r"`([\w/-]+)`", row[2])) for row in
            (line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `"))
            for folder in re.findall(r"`([\w-]+)/`", row[0])}


class Documents(unittest.TestCase):
    def test_every_path_in_backticks_exists(self):
        wrong = [f"{page.relative_to(ROOT)}: {token}" for page in PAGES for token in paths_named(page)
                 if not exists(token)]
        self.assertEqual(wrong, [])

    def test_every_relative_link_leads_somewhere(self):
        wrong = [f"{page.relative_to(ROOT)}: {target}" for page in PAGES
                 for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
                 if not (page.parent / target).exists()]
        self.assertEqual(wrong, [])

    def test_every_anchor_of_a_link_is_a_heading_of_its_page(self):
        wrong = [f"{page.relative_to(ROOT)}: {name}#{anchor}" for page in PAGES
                 for name, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
                 if (name or page.name).endswith(".md") and anchor not in anchors(page.parent / (name or page.name))]
        self.assertEqual(wrong, [])

    def test_every_file_that_a_comment_names_exists(self):
        """By its whole path, or the end of it."""
        ends = {"/".join(name.split("/")[i:]) for name in FILES for i in range(name.count("/") + 1)}
        names = re.compile(r"(?<![\w/.<*])((?:[\w-]+/)*[\w-]+\.(?:h|cc|cu|cuh|py|md|proto))\b(?![\w/(])")
        wrong = [f"{file}:{number}: {name}" for file in FILES if file.endswith((".h", ".cc", ".cu", ".cuh", ".proto"))
                 for number, line in enumerate((ROOT / file).read_text().splitlines(), 1) if "//" in line
                 for name in names.findall(line.split("//", 1)[1]) if name not in ends]
        self.assertEqual(wrong, [])


class Lists(unittest.TestCase):
    """Lists that say where everything is are complete: nothing is there that they leave out."""

    def test_the_readme_has_every_page(self):
        table = (ROOT / "README.md").read_text().split("\n## Which page answers")[1].split("\n## ")[0]
        self.assertEqual([name for name in FILES if fnmatch.fnmatch(name, "docs/*.md") and f"({name})" not in table], [])

    def test_the_readme_has_every_folder(self):
        folders = {name.split("/")[0] for name in FILES if "/" in name and not name.startswith(".")}
        self.assertEqual(folders - set(readme_rooms()), set())

    def test_the_readme_has_every_room(self):
        rooms = {folder: {room.removeprefix(folder + "/") for room in layering_test.ROOMS if room.startswith(folder + "/")}
                 for folder in layering_test.FOLDERS}
        self.assertEqual({folder: named for folder, named in readme_rooms().items() if folder in rooms}, rooms)

    def test_contributing_has_every_preset(self):
        table = (ROOT / "CONTRIBUTING.md").read_text()
        presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
        self.assertEqual([one["name"] for one in presets if not one.get("hidden") and f"| `{one['name']}` |" not in table], [])


class Recipes(unittest.TestCase):
    def test_each_has_an_example(self):
        self.assertEqual(sorted(recipes()), sorted(EXAMPLES))

    def test_every_file_of_a_list_mentions_the_example(self):
        wrong = [f"{title}: {name}" for title, names in recipes().items() for name in names
                 if name not in FILES or not mentions(name, EXAMPLES[title])]
        self.assertEqual(wrong, [])

    def test_no_other_file_of_the_product_mentions_it(self):
        product = [name for name in FILES if name.startswith(PRODUCT)]
        wrong = [f"{title}: {name}" for title, names in recipes().items() for name in product
                 if name not in names and mentions(name, EXAMPLES[title])]
        self.assertEqual(wrong, [])

    def test_each_has_a_test_and_a_page(self):
        """But a collective, whose page is its header."""
        for title, names in recipes().items():
            self.assertTrue([name for name in names if name.startswith("tests/")], title)
            if title not in ("A collective", "A message between coordinators"):
                self.assertTrue([name for name in names if name.startswith("docs/")], title)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
