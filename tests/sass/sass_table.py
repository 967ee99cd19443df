#!/usr/bin/env python3
"""What the compiler made of each kernel for one architecture: registers, spills, shared memory, how wide its accesses to global memory are,
how often lanes wait for each other and exchange values, and how often numbers are cut where they become bf16, and not rounded.

    sass_table.py sm_90 OBJECT...     prints the table, as tests/golden/sass_sm_90.tsv has it

OBJECT is what nvcc makes of a .cu file. Needs cuobjdump and nvdisasm, of the toolkit or of the PyPI packages nvidia-cuda-cuobjdump and
nvidia-cuda-nvdisasm, in PATH or in build-tools/cuda."""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS = ("registers", "spills", "shared", "loads_128", "loads_64", "loads_32", "loads_16", "loads_8",
           "stores_128", "stores_64", "stores_32", "stores_16", "stores_8", "barriers", "shuffles", "cuts")
OTHERS = {"spills": re.compile(r"\b(LDL|STL)\b"), "barriers": re.compile(r"\bBAR\."), "shuffles": re.compile(r"\bSHFL\."),
          "cuts": re.compile(r"\bF2FP?\.BF16\S*RZ")}
ACCESS = re.compile(r"\b(LDG|STG)\.E((?:\.\w+)*)")
WIDTH = {"128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8}


def tools():
    """PATH with both programs; none: they are not here."""
    folders = [os.environ["PATH"], *map(str, (ROOT / "build-tools/cuda").glob("lib/python*/site-packages/nvidia/*/bin"))]
    path = os.pathsep.join(folders)
    return path if shutil.which("cuobjdump", path=path) and shutil.which("nvdisasm", path=path) else None


def run(*command):
    environment = {**os.environ, "PATH": tools()}
    return subprocess.run([shutil.which(command[0], path=environment["PATH"]), *map(str, command[1:])], capture_output=True, text=True,
                          check=True, env=environment).stdout


def short_name(mangled):
    name = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    name = re.sub(r"\b_GLOBAL__N__\w+::", "", name)
    name = re.sub(r"\b(?:causeway|intra|cuda|compression)::", "", name)
    return name[:name.index("(")] if "(" in name else name


def resources(architecture, file):
    """By kernel: registers and shared memory."""
    found, kernel = {}, None
    for line in run("cuobjdump", "-arch", architecture, "-res-usage", file).splitlines():
        if match := re.match(r"\s*Function (\S+):", line):
            kernel = match[1]
        elif kernel and (match := re.search(r"REG:(\d+).*SHARED:(\d+)", line)):
            found[kernel] = {"registers": int(match[1]), "shared": int(match[2])}
            kernel = None
    return found


def accesses(architecture, file):
    """By kernel: how often each of what is counted stands in the code."""
    found, kernel = {}, None
    for line in run("cuobjdump", "-arch", architecture, "-sass", file).splitlines():
        if match := re.search(r"Function : (\S+)", line):
            kernel = found.setdefault(match[1], collections.Counter())
        elif kernel is not None:
            if match := ACCESS.search(line):
                width = next((WIDTH[part] for part in match[2].split(".") if part in WIDTH), 32)
                kernel[f"{'loads' if match[1] == 'LDG' else 'stores'}_{width}"] += 1
            kernel.update(name for name, pattern in OTHERS.items() if pattern.search(line))
    return found


def table(architecture, files):
    rows = {}
    for file in files:
        code = accesses(architecture, file)
        for kernel, used in resources(architecture, file).items():
            row = {**{column: 0 for column in COLUMNS}, **used, **code.get(kernel, {})}
            rows[short_name(kernel)] = tuple(row[column] for column in COLUMNS)
    return dict(sorted(rows.items()))


def compiler():
    return re.search(r"release ([\d.]+)", subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout)[1]


def write(rows):
    return "\n".join([f"# nvcc {compiler()}", "\t".join(("kernel", *COLUMNS)), *("\t".join((name, *map(str, row))) for name, row in rows.items())]) + "\n"


def read(path):
    """The compiler's release, and the rows."""
    lines = path.read_text().splitlines()
    return lines[0].split()[2], {fields[0]: tuple(map(int, fields[1:])) for fields in (line.split("\t") for line in lines[2:])}


if __name__ == "__main__":
    if not tools():
        sys.exit("sass_table.py: cuobjdump and nvdisasm are not here; ./check fetches them where nvcc is")
    print(write(table(sys.argv[1], sys.argv[2:])), end="")
