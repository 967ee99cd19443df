"""Optimizers around another one, as libraries have them."""
import torch


class Sam(torch.optim.Optimizer):
    """As programs have it: its state_dict() knows nothing of what the one in it keeps."""

    def __init__(self, parameters, base):
        super().__init__(parameters, {"rho": 0.05})
        self.base_optimizer = base(self.param_groups, lr=0.1)
        self.param_groups = self.base_optimizer.param_groups

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            self.state[p]["old_p"] = p.detach().clone()
        self.base_optimizer.step()

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.base_optimizer.param_groups = self.param_groups


class Around(Sam):
    """It keeps both, in a form of its own."""

    def state_dict(self):
        return {"base": self.base_optimizer.state_dict(), "own": 3}

    def load_state_dict(self, state):
        self.base_optimizer.load_state_dict(state["base"])
        self.param_groups = self.base_optimizer.param_groups


class Delegates(Around):
    """All state is that of the one in it."""

    def step(self, closure=None):
        self.base_optimizer.step()


def step(model, optimizer, value=1.0):
    optimizer.zero_grad()
    (model(torch.ones(1, 2, dtype=next(model.parameters()).dtype)).sum() * value).backward()
    optimizer.step()
