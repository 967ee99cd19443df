"""The package's types, and its examples, as strict checkers read them."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CAUSEWAY_SOURCE"])
EXAMPLES = [*map(str, sorted((SOURCE / "examples/pytorch").glob("*.py")))]


def needs(library):
    return unittest.skipIf(importlib.util.find_spec(library) is None, f"not installed: {library}")


class Types(unittest.TestCase):
    def check(self, *command):
        done = subprocess.run([sys.executable, "-m", *command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "MYPYPATH": str(SOURCE / "python")}, cwd=SOURCE)
        self.assertEqual(done.returncode, 0, done.stdout)

    @needs("mypy")
    def test_mypy_finds_nothing_in_the_package(self):
        self.check("mypy", "--strict", "--cache-dir", os.devnull, str(SOURCE / "python/causeway"))

    @needs("mypy")
    def test_mypy_finds_nothing_in_the_examples(self):
        for example in EXAMPLES:  # one by one: each is a program
            self.check("mypy", "--strict", "--allow-untyped-calls", "--cache-dir", os.devnull, "--follow-imports=silent", example)

    @needs("pyright")
    def test_pyright_finds_nothing_that_the_package_could_mend(self):
        """Of libraries that leave types out, it says so wherever they are used: that is not ours."""
        unknown = ("MemberType", "VariableType", "ArgumentType", "ParameterType", "LambdaType")
        settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(SOURCE / "python")],
                    **{f"reportUnknown{one}": False for one in unknown},
                    "reportMissingModuleSource": False, "reportMissingTypeStubs": False}
        with tempfile.TemporaryDirectory() as directory:
            settings["include"] = [os.path.relpath(SOURCE / "python/causeway", directory)]  # absolute ones are ignored
            file = pathlib.Path(directory) / "pyrightconfig.json"
            file.write_text(json.dumps(settings))
            self.check("pyright", "--project", str(file), "--pythonpath", sys.executable)


if __name__ == "__main__":
    unittest.main()
