"""A region with BatchNorm and data of its own: batch_norm.py NUMBER DIRECTORY RESULT BUFFERS. Saves its final state to RESULT."""
import sys

import torch

from causeway.torch import Run

BATCH = 16


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.BatchNorm1d(12), torch.nn.Tanh(), torch.nn.Linear(12, 6))


def inputs_of(number, step):
    """Every region has another mean."""
    return torch.randn(BATCH, 6, generator=torch.Generator().manual_seed(1000 * number + step)) + 3.0 * number


def step_once(model, optimizer, number, step):
    inputs = inputs_of(number, step)
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.flip(1)).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def main(number, directory, result, buffers):
    torch.set_num_threads(1)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(model, optimizer, directory=directory, buffers=buffers) as run:
        for step in run:
            run.report(step_once(model, optimizer, int(number), step.schedule_step))
    torch.save(model.state_dict(), result)


if __name__ == "__main__":
    main(*sys.argv[1:])
