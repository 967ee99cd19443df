"""DiLoCo in plain PyTorch, all regions in one process: what a run of Causeway must come out as. Dense, fp32.

Each of the regions takes K steps of AdamW from the same parameters. The mean of what their steps changed is the outer
gradient of SGD with Nesterov momentum.
"""
import copy

import torch


class PlainDiLoCo:
    def __init__(self, model, regions, outer_lr, momentum, inner):
        """inner: makes an optimizer of parameters; each region keeps its own from round to round."""
        self.model, self.outer_lr, self.momentum = model, outer_lr, momentum
        self.models = [copy.deepcopy(model) for _ in range(regions)]
        self.optimizers = [inner(one.parameters()) for one in self.models]
        self.velocity = [torch.zeros_like(p) for p in model.parameters()]

    def round(self, steps, loss_of):
        """loss_of(model, region, step): the loss of one inner step."""
        for region, (model, optimizer) in enumerate(zip(self.models, self.optimizers)):
            model.load_state_dict(self.model.state_dict())
            for step in steps:
                optimizer.zero_grad()
                loss_of(model, region, step).backward()
                optimizer.step()
        self.outer_step()

    @torch.no_grad()
    def outer_step(self):
        parts = zip(self.model.parameters(), self.velocity, *(one.parameters() for one in self.models))
        for parameter, velocity, *reached in parts:
            gradient = sum(parameter - one for one in reached) / len(reached)
            velocity.mul_(self.momentum).add_(gradient)
            parameter.sub_(self.outer_lr * (gradient + self.momentum * velocity))
