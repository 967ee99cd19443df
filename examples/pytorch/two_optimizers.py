"""Two optimizers of one model, as one region of a run of Causeway: Muon steps the matrices and AdamW all else.

Run is given a list, and keeps the state of each, so a restart goes on with both. Networks that train against each other work in the same
way: put them into one module, and give the optimizer of each. To try it in three regions on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/two_optimizers.py'
"""
import hashlib

import torch
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run

WIDTH, BATCH = 32, 16


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.Muon([p for p in model.parameters() if p.dim() == 2], lr=0.02),
        torch.optim.AdamW([p for p in model.parameters() if p.dim() != 2], lr=3e-3),
    ]
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizers, samples_per_step=BATCH) as run:
        for step in run:
            rows = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step.sample * step.parts + step.part))
            loss = F.mse_loss(model(rows), rows.flip(1))
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            run.report(loss)
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
