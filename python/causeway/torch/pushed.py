"""A run that is driven from outside: by a library that has the loop over steps, and calls back."""
import warnings


class Pushed:
    """Goes through a Run's steps one by one. `step` is the one to take now; None: the run is over."""

    def __init__(self, run):
        self.run, self.step, self._steps = run, None, None

    def begin(self):
        """Waits for the first step, for which the model is set."""
        self._steps = iter(self.run.__enter__())
        self.step = next(self._steps, None)

    def advance(self, loss=None):
        """The step is taken. False: it was the last one, and the model holds the run's result."""
        if loss is not None:
            self.run.report(loss)
        self.step = next(self._steps, None)
        return self.step is not None

    def end(self):
        if self.step is not None:
            warnings.warn("training ended before the run did: this region takes no further part until it is started "
                          "again. Set a number of steps that is never reached; the run says when to stop", stacklevel=3)
        self._steps = None
        self.run.__exit__(None, None, None)

    def schedule(self, scheduler):
        """Sets a learning rate scheduler to where the run is, which counts for all regions."""
        if scheduler is not None and self.step is not None and scheduler.last_epoch != self.step.schedule_step:
            scheduler.last_epoch = self.step.schedule_step - 1
            scheduler.step()
