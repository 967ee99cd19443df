"""Puts a PyTorch training loop into a run of Causeway.

    from causeway.torch import Run
    with Run(model, optimizer, directory="runs/x/eu") as run:   # all ranks of the region enter
        for step in run:                                        # ends with the run
            loss = train(batch(step.sample), lr(step.schedule_step))
            run.report(loss)

docs/python.md has the whole story.
"""
from .run import Run
from .steps import Step, steps_told

__all__ = ["Run", "Step", "steps_told"]
