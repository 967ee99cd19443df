"""A Lightning Trainer in a run.

    Trainer(max_steps=-1, callbacks=[RunCallback(samples_per_step=32)])

The run says when to stop. Lightning reads its own data in its own order, so give each region data of its own.
"""
import lightning

from .pushed import Pushed
from .run import Run


class RunCallback(lightning.Callback):
    """Takes a LightningModule with one optimizer through a run. The settings are those of causeway.torch.Run."""

    def __init__(self, **settings):
        self.settings = settings
        self._pushed, self._steps_taken = None, 0

    @property
    def step(self):
        """The causeway.torch.Step under way."""
        return self._pushed.step if self._pushed else None

    def on_train_start(self, trainer, module):
        if len(trainer.optimizers) != 1:
            raise ValueError(f"the module has {len(trainer.optimizers)} optimizers: a run takes one; hand the others' "
                             "parameters to it as further groups")
        self._pushed = Pushed(Run(module, trainer.optimizers[0], **self.settings))
        self._pushed.begin()
        self._steps_taken = trainer.global_step
        trainer.should_stop = self.step is None

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        return -1 if self.step is None else None  # skips what is left of the epoch

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self._steps_taken:
            return  # gradients are accumulated over batches
        self._steps_taken = trainer.global_step
        if not self._pushed.advance(outputs["loss"] if isinstance(outputs, dict) else outputs):
            trainer.should_stop = True

    def on_train_end(self, trainer, module):
        self._pushed.end()
