"""A PyTorch program whose region divides the model over its ranks with FSDP2 (fully_shard).

Regions may divide it in different ways, or not at all. To try it in three regions of two ranks on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'torchrun --standalone --nproc-per-node 2 examples/pytorch/fsdp.py'
"""
import hashlib
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from causeway.torch import Run, Step

WIDTH, BATCH = 32, 16


def batch(step: Step, rank: int, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's share: the rows to be given back in reverse."""
    chance = torch.Generator().manual_seed(step.sample * step.parts + step.part)
    rows = torch.randn(BATCH, WIDTH, generator=chance)[rank::ranks]
    return rows, rows.flip(1)


def main() -> None:
    torch.manual_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH) as run:
        for step in run:
            rows, wanted = batch(step, dist.get_rank(), dist.get_world_size())
            loss = F.mse_loss(model(rows), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)
    values = b"".join(parameter.full_tensor().detach().numpy().tobytes() for parameter in model.parameters()
                      if isinstance(parameter, DTensor))
    if dist.get_rank() == 0:
        print(f"ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # with Gloo, a Python that ends by itself may abort (docs/python.md, "Gloo at the end")


if __name__ == "__main__":
    main()
