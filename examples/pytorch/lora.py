"""Trains low-rank adapters (LoRA) of a frozen model as one region of a run of Causeway.

Only the adapters have requires_grad, so only they cross between regions: here 1,152 numbers of 13,184.

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/lora.py'
"""
import hashlib

import torch
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run, Step

WIDTH, BATCH, RANK = 64, 32, 3


class Adapted(nn.Module):
    """A linear layer that stays as it is, plus a product of two thin matrices."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        kept: torch.Tensor = self.base(values)
        return kept + F.linear(F.linear(values, self.down), self.up)


def batch(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    """What the adapted model is to do: give back its input with the first half negated."""
    chance = torch.Generator().manual_seed(step.sample * step.parts + step.part)
    inputs = torch.randn(BATCH, WIDTH, generator=chance)
    return inputs, torch.cat([-inputs[:, : WIDTH // 2], inputs[:, WIDTH // 2 :]], dim=1)


def main() -> None:
    torch.manual_seed(1)  # all regions begin with the same model
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    for place in (0, 2, 4):
        base = model[place]
        assert isinstance(base, nn.Linear)
        model[place] = Adapted(base, RANK)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH) as run:
        for step in run:
            inputs, wanted = batch(step)
            loss = F.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)
    values = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(f"ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
