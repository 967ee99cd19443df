"""One call of one process fails, once: the run goes on to its end, and a log names the cause.

All runs go on side by side. To try another cell, add a row.
"""
import errno
import os
import subprocess
import sys
import typing
import unittest

from harness import REGIONS, EndToEnd, read_json

VICTIM = REGIONS[1]


class Cell(typing.NamedTuple):
    process: str
    call: str
    file: str
    error: int
    restarts: int  # of processes
    says: str = ""  # a log, in place of the error's text


CELLS = (
    # The worker waits for what was to be sent.
    Cell("coordinator", "sendmsg", "", errno.ENOBUFS, 0),
    Cell("worker", "sendmsg", "", errno.ENOBUFS, 0, says="workers attached"),  # it tries again
    # What concerns the disk passes while the process stays.
    Cell("coordinator", "fsync", "ledger/records", errno.EIO, 0),
    Cell("coordinator", "write", "ledger/records", errno.ENOSPC, 0),
    Cell("coordinator", "renameat", "contributions", errno.ENOSPC, 0),
    Cell("worker", "renameat", "state.safetensors", errno.ENOSPC, 0),
    # Or the process ends, in a way that has it started again.
    Cell("coordinator", "open", "config.toml", errno.EMFILE, 1),
    Cell("coordinator", "stat", "ledger/raft", errno.EIO, 1),
    Cell("worker", "stat", "final/vocab.json", errno.EIO, 1),
    Cell("worker", "renameat", "result.json", errno.EDQUOT, 1),
)


@unittest.skipIf(os.environ.get("CAUSEWAY_SANITIZE"), "sanitizers want to be loaded first")
class FailOnce(EndToEnd):
    def start_cell(self, config, number, cell):
        token = self.directory / f"token-{number}"
        token.touch()
        env = {"LD_PRELOAD": str(self.directory / "fail_once.so"), "FAIL_ONCE_TOKEN": str(token),
               "FAIL_ONCE_PROCESS": f" {cell.process} ,--region {VICTIM} ", "FAIL_ONCE_CALL": cell.call,
               "FAIL_ONCE_FILE": cell.file, "FAIL_ONCE_ERROR": str(cell.error)}
        out = self.directory / f"run-{number}"
        return out, token, self.start("simulate", config, "--out", out, "--no-baseline", "--sample-tokens", "0",
                                      "--set", "train.timed_step_ms=10", env=env)

    def check_cell(self, cell, out, token, child):
        self.finish(child)
        self.assertFalse(token.exists(), "nothing failed")
        summary = read_json(out / "summary.json")
        self.assert_identical(summary)
        self.assertEqual(summary["restarts"], cell.restarts, self.logs())
        logs = "".join(path.read_text() for path in (out / "regions" / VICTIM).glob("*.log"))
        self.assertIn(cell.says or os.strerror(cell.error), logs)
        self.run_causeway("verify", out, "--certificates", out / "certificates")

    def build(self):
        source = f"{os.environ['CAUSEWAY_SOURCE']}/tests/e2e/fail_once.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "fail_once.so", source], cwd=self.directory, check=True)

    def test_verify_takes_no_read_error_for_a_difference(self):
        self.build()
        self.simulate(self.config(), "--no-baseline", "--sample-tokens", "0")
        token = self.directory / "token"
        verify = ("verify", self.out, "--certificates", self.out / "certificates")
        cells = [("open", "snapshot.safetensors", "cannot be opened"), ("fstat", "snapshot.safetensors", "cannot be examined"),
                 ("pread", "snapshot.safetensors", "cannot be read")]
        cells += [("open", path.name, "") for path in (self.out / "regions" / VICTIM / "spool").iterdir()]
        for call, file, what in cells:
            token.touch()
            env = {"LD_PRELOAD": str(self.directory / "fail_once.so"), "FAIL_ONCE_TOKEN": str(token),
                   "FAIL_ONCE_PROCESS": " verify ", "FAIL_ONCE_CALL": call, "FAIL_ONCE_FILE": file,
                   "FAIL_ONCE_ERROR": str(errno.EIO)}
            said = self.finish(self.start(*verify, env=env), code=1)
            self.assertRegex(said, f"UNREAD: .*{file}.*{what}.*Input/output error")
            self.assertIn("NOT verified", said)
        self.run_causeway(*verify)

    def test_the_run_goes_on_and_a_log_names_the_cause(self):
        self.build()
        config = self.config()
        cells = [(cell, *self.start_cell(config, number, cell)) for number, cell in enumerate(CELLS)]
        for cell, *running in cells:
            with self.subTest(cell):
                self.check_cell(cell, *running)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
