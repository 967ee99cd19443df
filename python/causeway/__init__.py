"""Takes part in a run of Causeway: one model, trained in regions that are far apart.

Worker is for any array library; causeway.torch.Run for PyTorch. docs/python.md has the whole story.
"""
from . import program_end as program_end  # it registers itself
from ._causeway import Steps, Stopped, Worker, WorkerError, __version__

__all__ = ["Steps", "Stopped", "Worker", "WorkerError", "__version__"]
