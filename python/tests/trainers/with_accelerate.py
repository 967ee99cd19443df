"""A region whose model and optimizer Accelerate prepared: Run takes them as they are."""
import hashlib

import accelerate
import torch
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run

WIDTH, BATCH = 32, 16


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    accelerator = accelerate.Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=3e-3))
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH) as run:
        for step in run:
            rows = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step.sample * step.parts + step.part))
            loss = F.mse_loss(model(rows), rows.flip(1))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            run.report(loss)
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
