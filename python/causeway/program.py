"""The program `causeway`, which the wheel carries."""
import os
import pathlib
import sys


def path() -> pathlib.Path:
    """Where the program is."""
    return pathlib.Path(__file__).parent / "bin" / "causeway"


def main() -> None:
    """Becomes the program: signals and the exit code are its own."""
    os.execv(path(), ["causeway", *sys.argv[1:]])
