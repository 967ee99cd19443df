"""A PyTorch program that keeps its own loop: epochs over a DataLoader, as one region of a run of Causeway.

The lines marked with # <- are about Causeway: the run is asked whether a step is left, and told after each. Where a restart goes on in the
data, the sampler says (causeway.torch.data); `also` keeps the learning rate's schedule. To try it in three regions on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/epochs.py'
"""
import hashlib

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from causeway.torch import Run  # <-
from causeway.torch.data import Samples  # <-

WIDTH, BATCH = 32, 16


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    rows = torch.randn(1000, WIDTH)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH) as run:  # <-
        loader = DataLoader(TensorDataset(rows), BATCH, sampler=Samples(run, len(rows), BATCH),  # <-
                            generator=torch.Generator())
        while not run.over:  # <- waits for the first step; the model is set
            for (batch,) in loader:
                for group in optimizer.param_groups:
                    group["lr"] = 3e-3 * (1 - 0.9 * run.progress)
                loss = F.mse_loss(model(batch), batch.flip(1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if not run.after_step(loss):  # <- that was the last one
                    break
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
