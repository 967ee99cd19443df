"""One rank of a region, whose ranks divide the model: parallel.py HOW SAMPLES DIRECTORY STORE RANK RANKS.

HOW is one (a process with the whole model), fsdp, or pipeline: the first half of the layers on rank 0, the second on rank 1. Four
ranks are two such pipelines, and FSDP2 divides each stage over two of them. Ranks that read different samples average their
gradients. SAMPLES is a number: regions with the same one read the same samples.
Prints a digest of each parameter that the rank holds after the steps of every round and at the end, and the loss on samples that
nobody trains on, before and after.
CAUSEWAY_TEST_BF16, CAUSEWAY_TEST_DIE_AT: as in same_samples.py.
CAUSEWAY_TEST_NO_WHOLE: the ranks whose Run is not given the whole model.
CAUSEWAY_TEST_SHORT_NAMES: a stage's parameters have names that begin anew.
CAUSEWAY_TEST_BATCH_NORM: there is one at the end of the first stage; the text is what Run is to do with buffers.
"""
import datetime
import hashlib
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from causeway.torch import Run

how, samples, directory, store = sys.argv[1:5]
rank, ranks = map(int, sys.argv[5:])
BATCH, WIDTH, LAYERS, MICROBATCHES = 12, 16, 4, 2
HELD_OUT = -1
dtype = torch.bfloat16 if os.environ.get("CAUSEWAY_TEST_BF16") else torch.float32
batch_norm = os.environ.get("CAUSEWAY_TEST_BATCH_NORM")


class Model(torch.nn.Module):
    """`layers`: the numbers of those that it has; their names are those of the whole model."""

    def __init__(self, layers=range(LAYERS)):
        super().__init__()
        torch.manual_seed(1)
        every = {str(number): torch.nn.Linear(WIDTH, WIDTH, dtype=dtype) for number in range(LAYERS)}
        self.layers = torch.nn.ModuleDict({str(number): every[str(number)] for number in layers})
        self.norm = torch.nn.BatchNorm1d(WIDTH) if batch_norm and 0 in layers else torch.nn.Identity()

    def forward(self, values):
        for number, layer in self.layers.items():
            values = layer(values)
            if int(number) == LAYERS // 2 - 1:
                values = self.norm(values)
            values = values if int(number) == LAYERS - 1 else torch.tanh(values)
        return values


def batch(number):
    chance = torch.Generator().manual_seed(1_000_000 * int(samples) + number if number >= 0 else 2**40)
    inputs = torch.randn(BATCH, WIDTH, generator=chance).to(dtype)
    return inputs, inputs.float().flip(1)


def loss_of(outputs, wanted):
    return (outputs.float() - wanted).square().mean()


class Whole:
    """All layers, also if FSDP2 divides their values."""

    def __init__(self):
        self.model = Model()
        if how == "fsdp":
            mesh = init_device_mesh("cpu", (ranks,))
            for layer in self.model.layers.values():
                fully_shard(layer, mesh=mesh)
            fully_shard(self.model, mesh=mesh)

    def losses(self, number, backward):
        """In microbatches, as a pipeline takes them, each of them divided over the ranks."""
        losses = []
        for inputs, wanted in zip(*(part.chunk(MICROBATCHES) for part in batch(number))):
            losses.append(loss_of(self.model(inputs[rank::ranks]), wanted[rank::ranks]))
            if backward:
                (losses[-1] / MICROBATCHES).backward()
        return losses


class Pipeline:
    """Two stages."""

    def __init__(self):
        mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("data", "stages"))
        self.pipeline, self.pipelines, self.stage = mesh.get_local_rank("data"), ranks // 2, mesh.get_local_rank("stages")
        self.group = mesh.get_group("stages")
        half = LAYERS // 2
        self.model = Model(range(self.stage * half, (self.stage + 1) * half))
        if os.environ.get("CAUSEWAY_TEST_SHORT_NAMES"):
            self.model = torch.nn.Sequential(*self.model.layers.values())
        if self.pipelines > 1:
            fully_shard(self.model, mesh=mesh["data"])
        stage = PipelineStage(self.model, self.stage, 2, torch.device("cpu"), group=self.group)
        self.schedule = ScheduleGPipe(stage, n_microbatches=MICROBATCHES, loss_fn=loss_of)

    def losses(self, number, backward):
        """The last stage has them: the first, which reports the region's, is told."""
        inputs, wanted = (part[self.pipeline::self.pipelines] for part in batch(number))
        losses = []
        run = self.schedule.step if backward else self.schedule.eval
        if self.stage == 0:
            run(inputs)
        else:
            run(target=wanted, losses=losses)
        told = torch.stack(losses).detach() if losses else torch.empty(MICROBATCHES)
        dist.broadcast(told, dist.get_global_rank(self.group, 1), self.group)
        return list(told)


def held_out_loss(trained):
    """Of the whole batch, whose shares are equal."""
    was = trained.model.training
    trained.model.eval()
    with torch.no_grad():
        loss = torch.stack(trained.losses(HELD_OUT, backward=False)).mean()
    trained.model.train(was)
    if how != "one":
        dist.all_reduce(loss)
        loss /= ranks
    return float(loss)


def say(when, model):
    """One write: ranks share nothing, and lines stay whole."""
    lines = []
    for name, parameter in model.named_parameters():
        full = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        digest = hashlib.sha256(full.detach().float().contiguous().numpy().tobytes()).hexdigest()[:16]
        lines.append(f"{when}: {name} {digest}\n")
    sys.stdout.write("".join(lines))
    sys.stdout.flush()


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if how != "one":
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=60))
    trained = Pipeline() if how == "pipeline" else Whole()
    model = trained.model
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    print("held-out loss at first", held_out_loss(trained), flush=True)
    whole = None
    if how == "pipeline" and str(rank) not in os.environ.get("CAUSEWAY_TEST_NO_WHOLE", ""):
        with torch.device("meta"):
            whole = Model()
    with Run(model, optimizer, directory=directory, save_rounds=1, samples_per_step=BATCH, stage_of=whole,
             buffers=batch_norm or "average") as run:
        for step in run:
            if str(step.schedule_step) == os.environ.get("CAUSEWAY_TEST_DIE_AT"):
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            losses = trained.losses(step.schedule_step, backward=True)
            optimizer.step()
            run.report(torch.stack([loss.detach() for loss in losses]).mean())
            if step.index + 1 == step.count:
                say(f"round {step.round}", model)
    say("end", model)
    print("held-out loss at last", held_out_loss(trained), flush=True)
    if how != "one":
        dist.destroy_process_group()
        os._exit(0)  # docs/python.md, "Gloo at the end"


if __name__ == "__main__":
    try:
        main()
    except ValueError as refused:
        print(f"refused: {refused}", file=sys.stderr, flush=True)
        os._exit(1)  # Gloo's threads may abort a process that ends while another rank is gone
