"""A Hugging Face Trainer in a run.

    Trainer(model, args, train_dataset=..., callbacks=[RunCallback(samples_per_step=32)])

Set args.max_steps to a number that is never reached: the run says when to stop. The Trainer reads its own data in its own
order, so give each region texts of its own, or another args.data_seed.
"""
import transformers

from .pushed import Pushed
from .run import Run


class RunCallback(transformers.TrainerCallback):
    """Takes the model of a Trainer through a run. The settings are those of causeway.torch.Run."""

    def __init__(self, **settings):
        self.settings = settings
        self._pushed = None

    @property
    def step(self):
        """The causeway.torch.Step under way."""
        return self._pushed.step if self._pushed else None

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **others):
        self._pushed = Pushed(Run(model, optimizer, **self.settings))
        self._pushed.begin()
        self._pushed.schedule(lr_scheduler)
        control.should_training_stop = self.step is None

    def on_step_end(self, args, state, control, lr_scheduler=None, **others):
        if not self._pushed.advance():
            control.should_training_stop = True
        self._pushed.schedule(lr_scheduler)

    def on_log(self, args, state, control, logs=None, **others):
        if logs and "loss" in logs and self._pushed:
            self._pushed.run.report(logs["loss"])

    def on_train_end(self, args, state, control, **others):
        self._pushed.end()
