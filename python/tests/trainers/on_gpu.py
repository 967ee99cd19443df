"""A region on a GPU or a CPU: on_gpu.py HOW DEVICE TYPE DIRECTORY STORE. HOW is plain, ddp or fsdp: of one rank, which meets over NCCL on a
GPU. TYPE is float32, bfloat16, or float16: float32 that is multiplied as float16, with gradients that are scaled as small ones need. Some of
the model's hidden numbers pass a dropout. Prints the loss before and after.
CAUSEWAY_TEST_DIE_AT: the schedule step before which the process kills itself.
"""
import os
import signal
import sys

import torch
import torch.distributed as dist

from causeway.torch import Run

how, device, type_name, directory, store = sys.argv[1:]
BATCH, WIDTH = 64, 32
half = type_name == "float16"
dtype = torch.float32 if half else getattr(torch, type_name)
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Tanh(), torch.nn.Dropout(0.1),
                            torch.nn.Linear(4 * WIDTH, WIDTH)).to(device, dtype)
wrapped = model
if how != "plain":
    dist.init_process_group("nccl" if device == "cuda" else "gloo", init_method=f"file://{store}", rank=0, world_size=1)
if how == "ddp":
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
elif how == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    wrapped = fully_shard(model, mesh=init_device_mesh(device, (1,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-4)
scaler = torch.amp.GradScaler(device, enabled=half)


def loss_of(number):
    chance = torch.Generator().manual_seed(number)
    inputs = torch.randn(BATCH, WIDTH, generator=chance).to(device, dtype)
    with torch.autocast(device, torch.float16, enabled=half):
        outputs = wrapped(inputs)
    return (outputs.float() - inputs.float().flip(1)).square().mean()


def held_out_loss():
    model.eval()
    with torch.no_grad():
        loss = loss_of(2**40).item()
    model.train()
    return loss


print(f"loss before {held_out_loss():.4f}", flush=True)
die_at = int(os.environ.get("CAUSEWAY_TEST_DIE_AT", -1))
with Run(model, optimizer, directory=directory, samples_per_step=BATCH, tokens_per_step=BATCH, save_rounds=1,
         also={"scaler": scaler} if half else {}) as run:
    for step in run:
        if step.sample // BATCH == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = loss_of(step.sample * step.parts + step.part)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        run.report(loss)
print(f"loss after {held_out_loss():.4f}, on {next(model.parameters()).device}", flush=True)
if how != "plain":
    dist.destroy_process_group()
    os._exit(0)  # docs/python.md, "Gloo at the end"
