"""causeway.torch.Run with real PyTorch, real coordinators and real TLS, as `./check --python` runs it."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["CAUSEWAY_SOURCE"]
sys.path.append(os.path.join(SOURCE, "tests", "e2e"))
from harness import REGIONS, EndToEnd, free_port, read_json, wait_until  # noqa: E402

TRAIN = os.path.join(SOURCE, "examples", "pytorch", "train.py")
TORCHRUN = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 2 {TRAIN}"
CONFIG = """
[run]
name = "pytorch"
seed = 7
[train]
steps = {steps}
k = 10
[outer]
optimizer = "nesterov"
lr = 0.6
[codec]
matrix = "dense:int8,block=128"
[sync]
variant = "{variant}"
grace_min_s = 2
[wan]
profile = "{wan}"
[certificates]
directory = "{certificates}"
"""


class InARun(EndToEnd):
    def program_config(self, steps=60, variant="synchronous", addresses=None):
        text = CONFIG.format(steps=steps, variant=variant, wan=self.directory / "wan.toml",
                             certificates=self.directory / "certificates")
        for region in REGIONS:
            text += f'[[regions]]\nname = "{region}"\n'
            if addresses:
                text += f'listen = "{addresses[region]}"\nadvertise = "{addresses[region]}"\n'
        path = self.directory / "pytorch.toml"
        path.write_text(text)
        return path

    def region(self, name):
        return self.out / "regions" / name

    def simulate(self, config, command, *more, code=0, env=None):
        return self.finish(self.start("simulate", config, "--out", self.out, "--worker", command, *more, env=env), code)

    def end_of(self, log):
        """Loss and digest of the parameters."""
        found = re.search(r"ends with loss ([\d.]+|nan), parameters (\w+)", log.read_text(errors="replace"))
        self.assertTrue(found, log.read_text(errors="replace"))
        return float(found[1]), found[2]

    def check_end(self, loss_below=2.0):
        """One end for all regions; ln 10 = 2.30 untrained."""
        ends = [self.end_of(self.region(name) / "worker-0.log") for name in REGIONS]
        self.assertEqual(len({digest for _, digest in ends}), 1, ends)
        self.assertLess(ends[0][0], loss_below)
        return ends[0][1]


class Scripts(InARun):
    def test_a_script_trains_in_three_regions_and_the_run_is_verified(self):
        self.simulate(self.program_config(), f"{sys.executable} {TRAIN}")
        self.check_end()
        self.assertEqual(read_json(self.out / "summary.json")["rounds"], 6)
        self.assertIn("verified: one history", self.run_causeway("verify", self.out))

    def test_two_ranks_in_each_region_by_torchrun(self):
        self.simulate(self.program_config(steps=30), TORCHRUN)
        self.check_end(loss_below=2.3)

    def test_overlapping_variants_take_the_same_script(self):
        self.simulate(self.program_config(variant="delayed"), f"{sys.executable} {TRAIN}")
        self.check_end(loss_below=2.2)


MISTAKE = """
import torch
from causeway.torch import Run
model = torch.nn.Linear(4, 4)
with Run(model, torch.optim.SGD(model.parameters(), lr=0.1)) as run:
    for step in run:
        if step.round == 1:
            run.report(undefined_name)
        model(torch.ones(4)).sum().backward()
"""

LEAVES = """
import array, json, os, pathlib, causeway
directory = pathlib.Path(os.environ["CAUSEWAY_DIRECTORY"])
values = array.array("f", [0.0] * 8)
worker = causeway.Worker({"values": values}, region=os.environ["CAUSEWAY_REGION"], directory=directory)
while (steps := worker.next()) is not None and steps.round < 1:
    worker.done(steps.count, 1.0)
while json.loads((directory / "status.json").read_text()).get("version", 0) < 1:
    pass  # or it would seem to end before it took part
"""


class Mistakes(InARun):
    def test_an_exception_that_comes_twice_at_one_place_ends_the_run_with_its_traceback(self):
        script = self.directory / "script.py"
        script.write_text(MISTAKE)
        said = self.simulate(self.program_config(), f"{sys.executable} {script}", code=2)
        self.assertIn("twice in a row for the same exception", said)
        self.assertIn(f"{script}, line 8: NameError: name 'undefined_name' is not defined", said)
        self.assertIn("run.report(undefined_name)", said)
        restarts = (self.out / "restarts.jsonl").read_text().splitlines()
        self.assertLessEqual(len(restarts), len(REGIONS), restarts)  # once for each region at most

    def test_so_does_one_after_which_a_library_aborts_the_program(self):
        script = self.directory / "script.py"
        script.write_text("import atexit, os\natexit.register(os.abort)\n" + MISTAKE)
        said = self.simulate(self.program_config(), f"{sys.executable} {script}", code=2)
        self.assertIn("twice in a row for the same exception", said)

    def test_a_program_that_leaves_the_run_at_the_same_round_each_time_ends_it(self):
        script = self.directory / "script.py"
        script.write_text(LEAVES)
        said = self.simulate(self.program_config(), f"{sys.executable} {script}", code=2)
        self.assertIn("ended with exit code 0 before the run was over, 3 times in a row without a round in between", said)
        self.assertIn("the saved state is kept", said)

    def test_a_signal_is_no_mistake(self):
        """The example is killed twice at the same place and started again."""
        script = self.directory / "script.py"
        script.write_text(MISTAKE.replace("run.report(undefined_name)", """import os, pathlib, signal
            lives = pathlib.Path(os.environ["CAUSEWAY_DIRECTORY"]) / "lives"
            count = len(lives.read_text()) if lives.exists() else 0
            lives.write_text("x" * (count + 1))
            if count < 2:
                os.kill(os.getpid(), signal.SIGKILL)"""))
        self.simulate(self.program_config(), f"{sys.executable} {script}")
        self.assertEqual(read_json(self.out / "summary.json")["rounds"], 6)


class ByHand(InARun):
    """Coordinators and scripts are started one by one, so that they can be stopped one by one."""

    def setUp(self):
        super().setUp()
        self.addresses = {region: f"127.0.0.1:{free_port()}" for region in REGIONS}
        self.run_causeway("certs", "--directory", "certificates", "init")
        self.run_causeway("certs", "--directory", "certificates", "add-region", *REGIONS)

    def start_coordinators(self, config):
        return [self.start("coordinator", config, "--region", region, "--directory", self.region(region),
                           "--found" if region == REGIONS[0] else "--join") for region in REGIONS]

    def start_script(self, region):
        return self.start_program(sys.executable, TRAIN, env={"CAUSEWAY_REGION": region, "OMP_NUM_THREADS": "1",
                                                              "CAUSEWAY_DIRECTORY": str(self.region(region))})

    def check_that_it_comes_back(self, end_one):
        """One region's script is ended after two rounds and started again; all end with the same parameters."""
        coordinators = self.start_coordinators(self.program_config(steps=200, addresses=self.addresses))
        scripts = [self.start_script(region) for region in REGIONS]
        wait_until(lambda: self.status(REGIONS[0]).get("version", 0) >= 2, "two rounds", coordinators[0])
        end_one(scripts[0])
        self.assertNotEqual(scripts[0].wait(120), 0, scripts[0].log.read_text())
        scripts[0] = self.start_script(REGIONS[0])
        for child in scripts + coordinators:
            self.finish(child)
        ends = [self.end_of(script.log) for script in scripts]
        self.assertEqual(len({digest for _, digest in ends}), 1, ends)

    def test_a_killed_script_comes_back_and_all_end_alike(self):
        self.check_that_it_comes_back(lambda script: script.kill())

    def test_a_stopped_script_comes_back_and_all_end_alike(self):
        self.check_that_it_comes_back(lambda script: script.send_signal(signal.SIGINT))


DIFFERENT_RANK = """
import os, sys, torch, torch.distributed as dist
from causeway.torch import Run
directory, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2)
try:
    Run(torch.nn.Linear(2 + rank, 2), directory=directory).__enter__()
except ValueError as error:
    print(error, flush=True)
dist.destroy_process_group()
os._exit(0)  # docs/python.md, "Gloo at the end"
"""


def wait(what):
    raise LookupError("it waits: " + what)


class WrongUse(unittest.TestCase):
    """One sentence each."""

    def refused(self, sentence, model, **settings):
        from causeway.torch import Run
        with self.assertRaisesRegex(ValueError, sentence):
            with Run(model, **{"directory": ".", **settings}):
                pass

    def test_what_cannot_be_trained_is_named(self):
        import torch
        self.refused("is on the meta device", torch.nn.Linear(2, 2, device="meta"))
        self.refused("float64, and a run takes .*: call model.float", torch.nn.Linear(2, 2, dtype=torch.float64))
        expanded = torch.nn.Linear(2, 2)
        expanded.bias = torch.nn.Parameter(torch.zeros(1).expand(2))
        self.refused("bias shows one element in several places", expanded)
        for sparse in (torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()):
            expanded.bias = torch.nn.Parameter(sparse)
            self.refused(f"bias is {sparse.layout}: a run takes dense ones", expanded)
        frozen = torch.nn.Linear(2, 2).requires_grad_(False)
        self.refused("no parameter with requires_grad", frozen)
        broken = torch.nn.Linear(2, 2)
        torch.nn.init.constant_(broken.weight, float("nan"))
        self.refused("weight is NaN or infinite before", broken)

    def test_a_directory_that_is_not_there_is_named(self):
        import torch
        self.refused("nor the directory above it", torch.nn.Linear(2, 2), directory="/nowhere/at/all")
        self.refused("no directory was given", torch.nn.Linear(2, 2), directory="")

    def test_arguments_that_cannot_be_meant_are_named(self):
        import torch
        model = torch.nn.Linear(2, 2)
        for name in ("samples_per_step", "tokens_per_step", "save_rounds"):
            for value in (-4, 0, 2.5, "32", True, *([None] if name != "tokens_per_step" else [])):
                self.refused(f"{name} is {value!r}: it must be a whole number, 1 or more", model, **{name: value})
        self.refused(r"also\['s'\] is 3, which has no state_dict", model, also={"s": 3})
        self.refused("also has the name 3", model, also={3: model})
        for name in ("optimizer", "optimizer 0", "optimizer 12"):
            self.refused(rf"also\['{name}'\] has a name that Run uses", model, also={name: model})
        self.refused("also is 7", model, also=7)
        self.refused("the optimizer has none of the model's parameters", model,
                     optimizer=torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1))
        own = torch.optim.SGD(model.parameters(), lr=0.1)
        self.refused("optimizer 1 of the list is a str", model, optimizer=[own, "adam"])
        self.refused("the optimizer is a Parameter", model, optimizer=model.weight)
        self.refused("buffers is 'mean': it must be 'average' or 'local' or 'lowest'", model, buffers="mean")
        self.refused("keep_waiting is 3: it must be a function", model, keep_waiting=3)
        self.refused("the model is a dict", {})

    def test_a_loss_that_is_none_is_named(self):
        import torch
        from causeway.torch import Run
        run = Run(torch.nn.Linear(2, 2), directory=".")
        for wrong in ("loss", None, [1.0], torch.zeros(2)):
            with self.assertRaisesRegex(ValueError, "report\\(\\) was given"):
                run.report(wrong)
        run.report(torch.zeros(1))
        run.report(3)

    def test_fp16_whose_scale_a_restart_would_lose_is_named(self):
        import torch
        from causeway.torch import Run
        half = torch.nn.Linear(2, 2, dtype=torch.float16)
        optimizer = torch.optim.SGD(half.parameters(), lr=0.1)
        sentence = "weight is float16, and a restart would lose the scale"
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        self.refused(sentence, half, optimizer=optimizer, also={"schedule": schedule})
        scaler = torch.amp.GradScaler("cpu")
        with self.assertRaisesRegex(LookupError, "waits"):  # it gets as far as the coordinator, which is not there
            with tempfile.TemporaryDirectory() as directory, Run(half, optimizer, directory=directory, keep_waiting=wait,
                                                                 also={"scaler": scaler}):
                pass

    def test_ranks_with_different_models_are_named_on_all(self):
        with tempfile.TemporaryDirectory() as directory:
            ranks = [subprocess.Popen([sys.executable, "-c", DIFFERENT_RANK, directory, str(rank)],
                                      stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
            told = [rank.communicate(timeout=120)[0] for rank in ranks]
        for one in told:
            self.assertRegex(one, r"the ranks of this region have different models: rank 0 has .*\(2, 2\).*"
                                  r"rank 1 has .*\(2, 3\)")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
