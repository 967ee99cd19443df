"""Run: a PyTorch model in a run of Causeway."""
import dataclasses
import logging
import os
import pathlib
import warnings

import torch

import causeway

from .parameters import Parameters
from .ranks import Kind, ranks as ranks_of
from .trainer_state import TrainerState

log = logging.getLogger("causeway")


@dataclasses.dataclass(frozen=True)
class Step:
    """One inner step to take."""
    sample: int  # the region's sample number of the step's first sample; no number that counts is given twice
    schedule_step: int  # position in the schedule (of learning rates) that all regions share
    part: int  # read part `part` of `parts` equal parts of the data; they change when regions join or leave
    parts: int
    pass_number: int  # how often the data was read before
    pass_begin: int  # the region's first sample number of this pass
    round: int
    index: int  # in the round's steps at hand, from 0
    count: int  # of them


def from_environment(given, variable, what):
    value = given if given is not None else os.environ.get(variable)
    if not value:
        raise ValueError(f"no {what} was given: pass {what}=..., or set {variable}")
    return value


class Run:
    """A model that takes part in a run, as (a process of) one region.

    model: a torch.nn.Module. Its parameters with requires_grad cross between regions; buffers do not. Wrap it (DDP,
        fully_shard, torch.compile) and move it to its device before. All regions have the same names and shapes; types,
        devices, wrappers and meshes may differ. Initial values are the same in every region (torch.manual_seed).
    optimizer: a torch.optim.Optimizer, or None. Given, its state is kept in the directory, so that a stopped region goes
        on with the same bits; and its fp32 master weights are used, if it has them.
    directory: the region's own; on the coordinator's host the one that the coordinator uses. Default: CAUSEWAY_DIRECTORY.
    region: the region's name in the configuration. Default: CAUSEWAY_REGION, or the last part of the directory.
    samples_per_step, tokens_per_step: what one step of the whole region reads, over all ranks.
    save_rounds: rounds between states on disk. With 1, a region that is killed resumes with the same bits, too.
    also: names to further objects with state_dict() and load_state_dict() (schedulers, scalers, data loaders), kept with
        the optimizer's state. With an optimizer of fp16 parameters, the scaler of the loss must be among them.
    coordinator, certificates: HOST:PORT of a coordinator on another host, and the directory of the region's certificates.
    group: the process group of the region. Default: all processes of torch.distributed, if it is initialised.
    seed: of stochastic rounding, which bf16 and fp16 parameters without master weights are set with.
    evaluate: for a run with sync.k = "auto", which judges K by held-out loss. Called on all ranks with a number of
        samples, between rounds, when the model holds what all regions agreed on; returns the mean loss of rank 0's, in
        the units of report(), over so many samples that nobody trains on, the same each time.
    keep_waiting: called on rank 0 at least every second of a wait, with a sentence. False ends it with causeway.Stopped.

    Raises ValueError with one sentence for wrong use, causeway.WorkerError for what the run refuses.
    """

    def __init__(self, model, optimizer=None, *, directory=None, region=None, samples_per_step=1, tokens_per_step=1,
                 save_rounds=10, also=(), coordinator="", certificates="", group=None, seed=0, evaluate=None, keep_waiting=None):
        self.model, self.optimizer = model, optimizer
        self.directory = pathlib.Path(from_environment(directory, "CAUSEWAY_DIRECTORY", "directory"))
        self.region = region or os.environ.get("CAUSEWAY_REGION") or self.directory.resolve().name
        self.save_rounds = save_rounds
        self._settings = dict(samples_per_step=samples_per_step, tokens_per_step=tokens_per_step,
                              save_rounds=save_rounds, coordinator=coordinator, certificates=str(certificates),
                              validates=evaluate is not None)
        self._group, self._seed, self._also = group, seed, dict(also)
        self._evaluate, self._user_keep_waiting = evaluate, keep_waiting
        self._worker = self._parameters = None
        self._loss, self._sample, self._said = float("nan"), None, None

    def __enter__(self):
        if not self._settings["coordinator"] and not self.directory.parent.is_dir():
            raise ValueError(f"{self.directory} is not there, nor the directory above it: give the directory that the "
                             "region's coordinator was started with")
        self._ranks = ranks_of(self._group)
        self._parameters = Parameters(self.model, self.optimizer, self._ranks, self._seed)
        self._parameters.agree(self._lost_scale())
        self._state = TrainerState(self.directory, self._ranks, self.optimizer, self._also)
        self._led(self._attach)
        return self

    def __exit__(self, *failure):
        self._worker = self._parameters = None

    def __iter__(self):
        if self._parameters is None:
            raise RuntimeError("enter the run first: with Run(...) as run")
        while (steps := self._next()) is not None:
            taken = 0
            while taken < steps.count and not (taken and self._called_back()):
                yield self._step(steps, taken)
                taken += 1
            self._done(steps, taken)

    def _lost_scale(self):
        """fp16 steps are scaled, and a restart that begins with another scale ends with other bits."""
        scaled = any(hasattr(one, "get_scale") or name == "scaler" for name, one in self._also.items())
        half = next((one.name for one in self._parameters.exchanged if one.parameter.dtype == torch.float16), None)
        if half is None or scaled or self.optimizer is None:
            return None
        return (f"the parameter {half} is float16, and a restart would lose the scale of its loss: give "
                "also={\"scaler\": scaler}, or use bfloat16")

    def report(self, loss):
        """The loss of the last step, in nats; for displays. A number or a tensor, which is read at the round's end."""
        self._loss = loss.detach() if torch.is_tensor(loss) else loss

    # ---- One round; every rank goes through the same calls ----

    def _next(self):
        try:
            while (told := self._led(self._ask)[1]) is not None and told.validation_samples:
                self._validate(told)
        except BaseException:
            # Told to stop: the worker saved its state, and this belongs to it.
            if self._sample is not None:
                self._state.save(self._sample)
            raise
        if told is None:
            self._parameters.give(-1)
            return None
        first, self._sample = self._sample is None, told.first_sample
        if first:  # before the parameters: an optimizer's master weights are among its state
            self._resume(told.first_sample)
        self._parameters.give(told.round)
        return told

    def _done(self, steps, taken):
        self._parameters.take()
        if self._agreed(lambda: self._parameters.not_finite() is not None):
            self._begin_anew(steps.round, taken)
        self._sample = steps.first_sample + taken * self._settings["samples_per_step"]
        if (steps.round + 1) % self.save_rounds == 0:
            self._state.save(self._sample)
        loss = float(self._loss)
        self._led(lambda: (Kind.GO_ON, self._worker.done(taken, loss)))

    def _validate(self, told):
        self._parameters.give(told.round)
        loss = float(self._evaluate(told.validation_samples))
        self._led(lambda: (Kind.GO_ON, self._worker.validated(loss)))

    def _resume(self, sample):
        if (position := self._state.resume(sample)) not in (None, sample):
            log.warning("the optimizer goes on from its state at sample %d; the region is at sample %d", position, sample)

    def _begin_anew(self, round_number, taken):
        """What was NaN led to what is NaN: moments that hold it would spoil every step to come."""
        if self.optimizer is not None:
            self.optimizer.state.clear()
        warnings.warn(f"round {round_number}: the parameters are NaN or infinite after {taken} steps. This region sits the "
                      "round out, follows the other regions, and begins its optimizer anew", stacklevel=4)

    def _step(self, steps, index):
        return Step(sample=steps.first_sample + index * self._settings["samples_per_step"],
                    schedule_step=steps.schedule_step + index, part=steps.part, parts=steps.parts,
                    pass_number=steps.pass_number, pass_begin=steps.pass_begin, round=steps.round, index=index,
                    count=steps.count)

    def _called_back(self):
        return self._agreed(lambda: self._worker.called_back())

    # ---- Rank 0 speaks; the others hear ----

    def _led(self, work):
        """What rank 0's `work` gives, a kind and steps or None, on every rank. What it raises is raised by all."""
        if not self._ranks.leads:
            kind, numbers = self._ranks.hear()
            return kind, Told(*numbers[:len(TOLD)]) if kind == Kind.STEPS else None
        try:
            kind, steps = work()
        except BaseException as error:
            self._ranks.tell_error(error)
            raise
        self._ranks.tell(kind, [getattr(steps, name) for name in TOLD] if kind == Kind.STEPS else ())
        return kind, steps

    def _agreed(self, question):
        """Rank 0's answer, yes or no, on every rank."""
        return self._led(lambda: (Kind.YES if question() else Kind.NO, None))[0] == Kind.YES

    def _attach(self):
        self._worker = causeway.Worker(self._parameters.hosts(), region=self.region, directory=str(self.directory),
                                       keep_waiting=self._keep_waiting, **self._settings)
        return Kind.GO_ON, None

    def _ask(self):
        steps = self._worker.next()
        return (Kind.OVER, None) if steps is None else (Kind.STEPS, steps)

    def _keep_waiting(self, what):
        self._ranks.tell(Kind.WAITING)
        if what != self._said:
            self._said = what
            log.info("%s", what)
        return self._user_keep_waiting is None or self._user_keep_waiting(what)


TOLD = ("round", "count", "first_sample", "schedule_step", "part", "parts", "pass_number", "pass_begin",
        "validation_samples")
Told = dataclasses.make_dataclass("Told", TOLD, frozen=True)
