"""Completion as somebody at a terminal meets it: bash, zsh and fish, each with a terminal of its own, in which Tab is pressed."""
import os
import pty
import re
import select
import shutil
import time
import unittest

from harness import DEADLINE_S, EndToEnd

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()=>][0-9A-Z]?|\x1b\][^\x07]*\x07|\r|\x07|.\x08")
# What is typed before Tab, and the words that the program then gets once the rest is typed, too.
TYPED = (("causeway simu", "", "simulate"),
         ("causeway certs add-r", "", "certs add-region"),
         ("causeway coordinator --aut", "", "coordinator --auto"),
         ("causeway simulate mine.to", "", "simulate mine.toml"),
         ("causeway simulate mine.toml --wan rel", "", "simulate mine.toml --wan relay"),
         ("causeway simulate mine.toml --wan=rel", "", "simulate mine.toml --wan=relay"),
         ("causeway simulate --set train.offl", "true", "simulate --set train.offload_outer_state=true"),
         ("causeway completion fi", "", "completion fish"))


class Terminal:
    """A shell with a terminal."""

    def __init__(self, directory, *command):
        self.text = ""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.execvpe(command[0], command, {**os.environ, "HOME": str(directory), "TERM": "vt100", "PS1": "$ "})

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def wait_for(self, expected):
        end = time.monotonic() + DEADLINE_S
        while expected not in self.text:
            if not select.select([self.descriptor], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"{expected!r} does not come in {self.text!r}")
            self.text = ESCAPES.sub("", self.text + os.read(self.descriptor, 65536).decode(errors="replace"))
        self.text = self.text.rpartition(expected)[2]

    def close(self):
        os.close(self.descriptor)
        os.waitpid(self.pid, 0)


class Completion(EndToEnd):
    def setUp(self):
        super().setUp()
        (self.directory / "mine.toml").touch()

    def written(self, shell, path):
        path = self.directory / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.run_causeway("completion", shell))
        return path

    def complete(self, begin, *command):
        """`begin` has the shell read the completion, and a function `causeway` that says what it got."""
        terminal = Terminal(self.directory, *command)
        self.addCleanup(terminal.close)
        terminal.type(begin)
        terminal.wait_for("up-42")
        for typed, rest, words in TYPED:
            with self.subTest(typed):
                terminal.type(typed + "\t")
                missing = words.removesuffix(rest)[len(typed) - len("causeway "):]
                terminal.wait_for(missing)
                terminal.type(rest + "\n")
                terminal.wait_for(f"got <{words}>")

    @unittest.skipUnless(shutil.which("bash"), "bash is not here")
    def test_bash_completes_commands_options_values_settings_and_files(self):
        file = self.written("bash", "causeway.bash")
        self.complete(f"source {file}; causeway() {{ echo \"got <$*>\"; }}; echo up-$((40 + 2))\n", "bash", "--norc", "--noprofile", "-i")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not here: ./check --launchers")
    def test_zsh_completes_the_same_from_a_directory_of_functions(self):
        file = self.written("zsh", "functions/_causeway")
        self.complete(f"fpath=({file.parent} $fpath); autoload -Uz compinit && compinit -u -D; causeway() {{ echo \"got <$*>\"; }}; echo up-$((40 + 2))\n", "zsh", "-f", "-i")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not here: ./check --launchers")
    def test_zsh_completes_the_same_when_the_file_is_sourced(self):
        file = self.written("zsh", "causeway.zsh")
        self.complete(f"autoload -Uz compinit && compinit -u -D; source {file}; causeway() {{ echo \"got <$*>\"; }}; echo up-$((40 + 2))\n", "zsh", "-f", "-i")

    @unittest.skipUnless(shutil.which("fish"), "fish is not here: ./check --launchers")
    def test_fish_completes_the_same(self):
        file = self.written("fish", "causeway.fish")
        self.complete(f"source {file}; function causeway; echo \"got <$argv>\"; end; echo up-(math 40 + 2)\n", "fish", "--no-config", "--interactive")


if __name__ == "__main__":
    unittest.main()
