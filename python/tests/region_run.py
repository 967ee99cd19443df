"""Runs with real coordinators, in which regions are trained by PyTorch: here in this process, or by a script of trainers/."""
import os
import pathlib
import sys

import causeway.program

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("CAUSEWAY", str(causeway.program.path()))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

from harness import DEADLINE_S, REGIONS, EndToEnd, free_port, read_json, wait_until  # noqa: E402 (it reads CAUSEWAY)

TRAINERS = pathlib.Path(__file__).parent / "trainers"


class RegionRun(EndToEnd):
    """Coordinators of the first `regions` of REGIONS; every test starts with them up."""
    regions = 1
    run_text = "[sync]\n"  # in place of this line of the configuration
    settings = dict(steps=12, k=4, codec="dense:fp32", optimizer="nesterov", outer_lr=0.7)

    def setUp(self):
        super().setUp()
        self.names = REGIONS[:self.regions]
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *self.names)
        self.coordinators = self.start_coordinators()

    def start_coordinators(self, out="run", **settings):
        addresses = {name: f"127.0.0.1:{free_port()}" for name in self.names}
        config = self.config(workers=(1,) * self.regions, addresses=addresses, name=f"{out}.toml",
                             **{**self.settings, **settings})
        # However late a busy machine starts a region, it is listed in every round.
        config.write_text(config.read_text().replace("grace_min_s = 2", "grace_min_s = 60")
                          .replace("[sync]\n", 'vector = "dense:fp32"\n' + self.run_text))
        return [self.start("coordinator", config, "--region", name, "--directory", self.region(name, out),
                           "--found" if name == self.names[0] else "--join") for name in self.names]

    def region(self, name=REGIONS[0], out="run"):
        path = self.directory / out / name
        path.parent.mkdir(exist_ok=True)
        return path

    def trainer(self, script, *arguments, env=None):
        return self.start_program(sys.executable, TRAINERS / script, *arguments,
                                  env={"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **(env or {})})

    def finish_coordinators(self):
        for coordinator in self.coordinators:
            self.finish(coordinator)
