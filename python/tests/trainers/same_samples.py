"""A region that reads the same samples as every other, on one process or on two: same_samples.py HOW DIRECTORY STORE RANK.

HOW is one, ddp or fsdp. With two, each takes half of a batch; one process takes both halves by turns and adds what they
give, so that the gradients have the same bits. Prints a digest of the parameters after the steps of every round.
CAUSEWAY_TEST_DIE_AT: the schedule step before which the process kills itself. CAUSEWAY_TEST_DIE_AFTER_S: the time after
which a signal kills it, wherever it is. CAUSEWAY_TEST_DIE_SAVING: the schedule step after which rank 1 kills itself when it is
about to finish its next file.
"""
import hashlib
import os
import signal
import sys

import torch
import torch.distributed as dist

from causeway.torch import Run

how, directory, store, rank = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
dtype = torch.bfloat16 if os.environ.get("CAUSEWAY_TEST_BF16") else torch.float32
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16)).to(dtype)
if os.environ.get("CAUSEWAY_TEST_DROPOUT"):
    model.insert(2, torch.nn.Dropout(0.1))
world = 1
if how != "one":
    world = 2
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
wrapped = model
if how == "ddp":
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
elif how == "fsdp":
    from torch.distributed.fsdp import fully_shard
    wrapped = fully_shard(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def half(sample, which):
    chance = torch.Generator().manual_seed(2 * sample + which)
    inputs = torch.randn(8, 16, generator=chance).to(dtype)
    return (wrapped(inputs).float() - inputs.float().flip(1)).square().mean()


def step_once(sample):
    optimizer.zero_grad()
    if how == "one":  # as two ranks average: each half's gradient is halved, then they are added
        loss = half(sample, 0)
        (loss / 2).backward()
        (half(sample, 1) / 2).backward()
    else:
        loss = half(sample, rank)
        loss.backward()
    optimizer.step()
    return loss


def digest():
    whole = hashlib.sha256()
    for parameter in model.parameters():
        full = parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter
        whole.update(full.detach().float().contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


if "CAUSEWAY_TEST_DIE_AFTER_S" in os.environ:
    signal.setitimer(signal.ITIMER_REAL, float(os.environ["CAUSEWAY_TEST_DIE_AFTER_S"]))
with Run(wrapped, optimizer, directory=directory, save_rounds=1) as run:
    for step in run:
        if str(step.schedule_step) == os.environ.get("CAUSEWAY_TEST_DIE_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 1 and str(step.schedule_step) == os.environ.get("CAUSEWAY_TEST_DIE_SAVING"):
            os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
        run.report(step_once(step.schedule_step))
        if step.index + 1 == step.count:
            print("round", step.round, digest(), flush=True)
print("end", digest(), flush=True)
if world > 1:
    dist.destroy_process_group()
    os._exit(0)  # docs/python.md, "Gloo at the end"
