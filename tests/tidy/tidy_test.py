"""Style that a program can check: sizes, banned calls (with what to use instead), and what must not be in the tree."""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = ["compression", "inter", "diloco", "intra", "wan-sim", "apps"]
COLUMNS_MAX = 100

BANNED = {
    r"\bsleep_for\b|\busleep\s*\(|\bnanosleep\s*\(": "wait on a timer or a condition with a deadline",
    r"\bstd::rand\b|[^_a-z]rand\(\)|\bsrand\(": "a seeded engine given by the caller",
    r"\basio::detached\b|\.detach\(\)": "give the coroutine or thread an owner that joins it",
    r"\bwhile\s*\(!?co_await\b": "a variable that is set in the loop: GCC 12 miscompiles co_await in its condition",
    r"\bFIXME\b|\bXXX\b|\bTODO\b": "do it, or file an issue",
    r"\bsystem\s*\(\s*\"": "apps/run/region/process.h",
    r"#\s*ifndef\s+\w+_H_?\b": "#pragma once",
}
# getaddrinfo and sigwait cannot be ended: whoever joined their threads would wait for a name server that is gone, or
# for a signal that nobody sends.
ALLOWED = {("inter/mesh/resolve.cc", ".detach()"), ("apps/run/region/own_process.cc", ".detach()")}


# Why the largest are as large as they are. By file; a function by its file and name, a class by its name.
REASONS = {
    # files
    "diloco/round/decider.cc": "the list of a round and the wait for the others are one decision",
    "diloco/coordinator/worker_side.cc": "every event of a worker's session, in its order",
    "diloco/coordinator/coordinator.cc": "opening, running and closing of one process",
    "inter/blob/spool.cc": "the files of one directory: their names, room and removal",
    "inter/mesh/session.cc": "one state machine",
    "diloco/log/raft.cc": "the paper's rules",
    "diloco/round/round_protocol.cc": "one answer for each event",
    "diloco/follow/follower_server.cc": "the conversation with a follower, from the door to its last weights",
    "diloco/worker/worker_server.cc": "one message for each thing that rank 0 says or is told",
    "intra/worker/region_worker.cc": "a region's worker: its gatherings, its steps, and what it shows",
    "intra/worker/round_driver.cc": "the worker's side of each order",
    "intra/worker/worker.cc": "the calls of a program, and the trainer that its rounds ask",
    "python/causeway/torch/run.py": "what a program sees of a run, and one round of it",
    "intra/outer/outer_round.cc": "what a round encodes, and what it applies",
    "intra/outer/state_file.cc": "one file, written, read and checked",
    # functions
    "diloco/files/fault_point.cc:kStates": "a table",
    "tests/fuzz/frame_fuzz.cc:decode": "one case for each frame",
    "inter/mesh/session.cc:on_control": "one case for each frame",
    "apps/main.cc:main": "one line for each subcommand, and one catch for each exit code",
    "tests/compression/codecs/specs.h:kSpecs": "a table",
    "tests/diloco/cluster/cluster_handling.cc:execute": "one case for each action",
    "apps/run/config/config_schema_data.cc:add_data_keys": "a table",
    # classes
    "MeshCore": "its parts share the peers, and live in a file each",
    "RoundProtocol": "one answer for each event, and the questions of the coordinator",
    "SpoolIndex": "one sentence for each thing that can happen to a blob",
    "CatchUp": "the questions that other machines ask of it, and what it does about them",
    "RoundDriver": "the worker's side of each order",
    "Raft": "the paper's rules",
    "Decider": "as its file",
    "Transformer": "a layer's steps, forward and back",
    "Session": "as its file",
    "WorkerSide": "as its file",
    "DeviceTransformerOf": "a layer's steps, forward and back",
}


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def code_files():
    # Golden files are numbers that a script wrote.
    return [p for p in tracked() if p.suffix in {".h", ".cc", ".cu", ".cuh"} and "golden" not in p.parts]


def without_raw_strings(text):
    """Text for a page or a file is wrapped as its readers need it."""
    return re.sub(r'R"\w*\((.|\n)*?\)\w*"', lambda match: "\n" * match.group().count("\n"), text)


def functions(path):
    """Name and length of each body at namespace level: a line that ends in '{' up to a '}' in column 0."""
    start = None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if start is None and re.match(r"\S.*\{$", line) and not re.match(
                r"(namespace|class|struct|enum|union|extern|template <)", line):
            start, name = number, re.search(r"(\w+)(?:\W*$|\(|\[|\{| =)", line).group(1)
        elif start is not None and line.startswith("}"):
            yield name, number - start + 1
            start = None


def without_comments_and_strings(text):
    text = re.sub(r'R"(\w*)\((.|\n)*?\)\1"', '""', text)
    text = re.sub(r"//[^\n]*|/\*(.|\n)*?\*/", "", text)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"'(\\.|[^'\\\n])'", "' '", text)


def declarations(text, opening):
    """Of the class whose body opens there: what ends with ';' or with a body of its own, at its own level."""
    depth, own = 0, ""
    for character in text[opening:]:
        if character == "}":
            depth -= 1
            if depth == 0:
                break
            own += ";" if depth == 1 else ""
        elif depth == 1 and character != "{":
            own += character
        if character == "{":
            depth += 1
            own += "{}" if depth == 2 else ""
    return own.split(";")


def is_method(declaration):
    """Also constructors, destructors, operators and templates; not members whose type has parentheses."""
    text = re.sub(r"\b(public|private|protected)\s*:", "", declaration).strip()
    while (shorter := re.sub(r"<[^<>()]*(\([^()<>]*\))?[^<>()]*>", "", text)) != text:
        text = shorter
    if re.match(r"(using|friend|static_assert|typedef|enum|class|struct|union|template\s*(class|struct))\b", text):
        return False
    return re.match(r"[^=]*?(operator\s*\S+?|~?\w+)\s*\(", text) is not None


def classes(path):
    """Name and number of methods of each class and struct."""
    text = without_comments_and_strings(path.read_text())
    for match in re.finditer(r"\b(?:class|struct)\s+([\w:]+)[^;{}()=]*\{", text):
        yield match.group(1), sum(map(is_method, declarations(text, match.end() - 1)))


def has_our_clang_format():
    """Versions differ in what they make of the same style."""
    try:
        told = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return "version 14." in told.stdout


def tell_largest(what, usual_max, unit, sizes):
    """What is above the usual size has a reason in REASONS, or a warning."""
    print(f"largest {what}, in {unit} (at most {usual_max} is usual):")
    for size, name in sorted(sizes, key=lambda s: -s[0])[:10]:
        reason = REASONS.get(str(name), "WARNING: no reason is given")
        print(f"  {size:5} {name}" + (f": {reason}" if size > usual_max else ""))


class Tidy(unittest.TestCase):
    def check(self, problems):
        self.assertEqual(problems, [], "\n" + "\n".join(map(str, problems)))

    def test_the_largest_are_told(self):
        """Only told, with the reason: nothing is split to stay below a number, and the reader of a change sees growth."""
        programs = [p for p in tracked() if p.suffix == ".py" and "golden" not in p.parts]
        tell_largest("files", 300, "lines", [(len(p.read_text().splitlines()), p.relative_to(ROOT))
                                        for p in code_files() + programs])
        tell_largest("functions", 40, "lines", [(length, f"{p.relative_to(ROOT)}:{name}")
                                            for p in code_files() for name, length in functions(p)])
        tell_largest("classes", 25, "methods", [(methods, name) for p in code_files()
                                            if p.relative_to(ROOT).parts[0] in CODE for name, methods in classes(p)])

    @unittest.skipUnless(has_our_clang_format(), "needs clang-format 14, which is Debian 12's")
    def test_code_is_formatted(self):
        told = subprocess.run(["clang-format", "--dry-run", *code_files()], capture_output=True, text=True, check=True)
        self.check([line for line in told.stderr.splitlines() if "[-Wclang-format-violations]" in line])

    def test_lines_fit(self):
        self.check([f"{p.relative_to(ROOT)}:{n}: {len(line)} columns" for p in code_files()
                    for n, line in enumerate(without_raw_strings(p.read_text()).splitlines(), 1)
                    if len(line) > COLUMNS_MAX])

    def test_no_banned_calls(self):
        problems = []
        for path in code_files():
            for number, line in enumerate(path.read_text().splitlines(), 1):
                for pattern, instead in BANNED.items():
                    found = re.search(pattern, line)
                    if found and (str(path.relative_to(ROOT)), found.group()) not in ALLOWED:
                        problems.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}: use: {instead}")
        self.check(problems)

    def test_no_absolute_paths_of_a_machine(self):
        pattern = re.compile(r"(/root/|/home/\w|/work/|/tmp/\w)")
        problems = []
        for path in tracked():
            if path == pathlib.Path(__file__).resolve() or path.suffix in {".png"}:
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if pattern.search(line):
                    problems.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
        self.check(problems)

    def test_every_source_file_is_built(self):
        lists = "\n".join(p.read_text() for p in tracked()
                          if p.name == "CMakeLists.txt" or p.suffix == ".cmake")
        self.check([str(p.relative_to(ROOT)) for p in code_files()
                    if p.suffix in {".cc", ".cu"} and p.name not in lists])

    def test_no_large_or_generated_files(self):
        self.check([str(p.relative_to(ROOT)) for p in tracked()
                    if p.stat().st_size > 1 << 20 or p.name.endswith((".pb.cc", ".pb.h", ".o"))])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
