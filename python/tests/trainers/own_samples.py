"""A region with data of its own: own_samples.py REGION_NUMBER DIRECTORY RESULT. Saves its final parameters to RESULT."""
import sys

import torch

from causeway.torch import Run


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))


def make_optimizer(parameters):
    return torch.optim.AdamW(parameters, lr=0.003)


def loss_of(model, region, step):
    inputs = torch.randn(8, 16, generator=torch.Generator().manual_seed(1000 * region + step))
    return (model(inputs) - inputs.flip(1)).square().mean()


def main(region, directory, result):
    torch.set_num_threads(1)
    model = make_model()
    optimizer = make_optimizer(model.parameters())
    with Run(model, optimizer, directory=directory) as run:
        for step in run:
            optimizer.zero_grad()
            loss = loss_of(model, int(region), step.schedule_step)
            loss.backward()
            optimizer.step()
            run.report(loss)
    torch.save(model.state_dict(), result)


if __name__ == "__main__":
    main(*sys.argv[1:])
