"""A classifier with BatchNorm as one region of a run of Causeway.

Its running means and variances cross with every round, as `buffers` of Run says ("average" is the default), so the same weights
evaluate to the same accuracy in every region. To try it in three regions on this machine:

    causeway init --trainer pytorch
    causeway simulate causeway.toml --worker 'python examples/pytorch/batch_norm.py'
"""
import hashlib

import torch
import torch.nn.functional as F
from torch import nn

from causeway.torch import Run, Step

CLASSES, WIDTH, BATCH = 5, 16, 32


def samples(seed: int, count: int, shift: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around one centre for each class, all moved by `shift`: the regions' data differ."""
    chance = torch.Generator().manual_seed(seed)
    classes = torch.randint(0, CLASSES, (count,), generator=chance)
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(0))
    return centres[classes] + 0.5 * torch.randn(count, WIDTH, generator=chance) + shift, classes


def batch(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    return samples(1 + step.sample * step.parts + step.part, BATCH, 2.0 * step.part)


def main() -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss = torch.tensor(float("nan"))  # unless there is a step left to take
    with Run(model, optimizer, samples_per_step=BATCH, buffers="average") as run:
        for step in run:
            inputs, classes = batch(step)
            loss = F.cross_entropy(model(inputs), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss)
    model.eval()
    with torch.no_grad():
        inputs, classes = samples(0, 1000, 2.0)
        accuracy = (model(inputs).argmax(1) == classes).float().mean().item()
    values = b"".join(value.numpy().tobytes() for value in model.state_dict().values())
    print(f"accuracy {accuracy:.3f}; ends with loss {loss.item():.4f}, parameters {hashlib.sha256(values).hexdigest()[:12]}", flush=True)


if __name__ == "__main__":
    main()
