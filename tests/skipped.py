#!/usr/bin/env python3
"""What ctest skipped, by name and reason, and which command runs it: skipped.py RESULTS.xml, as `ctest --output-junit` writes it.
Prints nothing if nothing was skipped."""
import re
import sys
import xml.etree.ElementTree

# What a reason names, and what has it.
COMMANDS = (("launchers", "./check --launchers"), ("numpy", "./check --python"), ("torch", "./check --python"),
            ("transformers", "./check --python"), ("nvcc", "./check where CUDA is"), ("GPU", "./check where a GPU is"),
            ("./check", "./check, without --no-install"), ("root", "./check as root"))


def reason_of(output):
    found = re.search(r"skipped ['\"](.*)['\"]$", output, re.MULTILINE)  # unittest -v
    if not found:
        found = re.search(r"Skipped\n(.+)|: Skipped\n?(.*)", output)  # GoogleTest
    return next((part.strip() for part in found.groups() if part and part.strip()), "") if found else ""


def skipped(file):
    """Reasons to names of tests."""
    tests = {}
    for case in xml.etree.ElementTree.parse(file).iter("testcase"):
        if case.find("skipped") is None:
            continue
        reason = reason_of(case.findtext("system-out") or "") or "it does not say why"
        tests.setdefault(reason, []).append(case.get("name"))
    return tests


def main(file):
    tests = skipped(file)
    if not tests:
        return
    print(f"Not run here: {sum(map(len, tests.values()))} tests")
    for reason, names in sorted(tests.items()):
        command = next((command for word, command in COMMANDS if word in reason), "")
        print(f"  {len(names)}, as {reason}" + (f". Run by {command}" if command else "") + ":")
        for name in sorted(names):
            print(f"    {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
