"""docs/outputs.md against the files of a run: a key that is written is documented, and the reverse."""
import json
import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])


def documented(section, unwritten):
    """By the table's heading (None for the section's own) the keys of its first column, but for rows with this mark."""
    text = (SOURCE / "docs" / "outputs.md").read_text()
    body = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    tables, title = {}, None
    for line in body.splitlines():
        if line.startswith(("Of ", "Any ")):
            title = re.search(r"`(\w+)`", line)[1]
        elif line.startswith("| `") and unwritten not in line.split("|")[1]:
            tables.setdefault(title, set()).update(re.findall(r"`(\w+)`", line.split("|")[1]))
    return tables


def written(path):
    """The objects of a JSON file, or of each line of it."""
    text = path.read_text()
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def children(objects, key):
    """What lies under `key`: an object, a list of objects, one for each region, or nothing."""
    found = []
    for each in objects:
        value = each[key]
        if value is None:
            continue
        found += value if isinstance(value, list) else value.values() if key == "links" else [value]
    return found


BUILT_IN_ONLY, PROGRAM_ONLY = "\\*", "\\+"  # as the page marks keys of one kind of trainer


def assert_documented(test, path, select=lambda each: True, by_program=False):
    tables = documented(path.name, BUILT_IN_ONLY if by_program else PROGRAM_ONLY)
    objects = [each for each in written(path) if select(each)]
    for title, keys in tables.items():
        if title == "event":
            continue
        of = objects if title is None else children(objects, title)
        if of:
            test.assertEqual(set().union(*of), keys, f"{path.name}: {title or 'the file'}")
