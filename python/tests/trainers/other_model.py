"""A region whose model begins as its arguments say: other_model.py DIRECTORY RESULT SEED WIDTH. Saves its final state to RESULT."""
import sys

import torch

from causeway.torch import Run


def main(directory, result, seed, width):
    torch.set_num_threads(1)
    torch.manual_seed(int(seed))
    model = torch.nn.Sequential(torch.nn.Linear(8, int(width)), torch.nn.Tanh(), torch.nn.Linear(int(width), 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Run(model, optimizer, directory=directory) as run:
        for step in run:
            inputs = torch.randn(8, 8, generator=torch.Generator().manual_seed(step.schedule_step))
            optimizer.zero_grad()
            loss = (model(inputs) - inputs).square().mean()
            loss.backward()
            optimizer.step()
            run.report(loss)
    torch.save(model.state_dict(), result)


if __name__ == "__main__":
    main(*sys.argv[1:])
