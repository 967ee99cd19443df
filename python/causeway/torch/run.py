"""Run: a PyTorch model in a run of Causeway."""
from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import pathlib
import signal
import warnings
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn, SupportsFloat

import torch
import torch.distributed as dist

import causeway
from causeway.program_end import program_end

from . import arguments, first_round, forks, frozen as frozen_parameters
from .buffers import KINDS
from .marks import HandedOut, Marks
from .optimizers import Begun, tell_unsuited
from .parameters import Parameters, told_spoiled
from .ranks import Group, Kind, LeaderStopped, Solo, decided_by_leader, done_by_leader, led, ranks_told
from .steps import Step, Told
from .still_steps import StillSteps
from .stop_signals import StopSignals
from .trainer_state import TrainerState

log = logging.getLogger("causeway")

ONE_LOOP = ("`for step in run` and after_step() are two ways to count steps, and each step would count twice: in a loop over the run "
            "leave after_step() out, and give the loss to report()")

STOPS_TRIED = 8  # orders of steps that a region that is told to stop gives back

atexit.register(program_end.come)  # once more: before what torch has registered, and logging

# Runs of this process that are entered, by directory and region. A region's second worker here would take the first one's place.
entered_here: weakref.WeakValueDictionary[tuple[pathlib.Path, str], "Run"] = weakref.WeakValueDictionary()
# Those that this process has trained to the end.
ended_here: set[tuple[pathlib.Path, str]] = set()


class Run:
    """A model that takes part in a run, as (a process of) one region.

    model: a torch.nn.Module. Its parameters with requires_grad cross between regions, and its buffers as `buffers` says.
        Wrap it (DDP, fully_shard, torch.compile) and move it to its device before. All regions have the same names and
        shapes; types, devices, wrappers and meshes may differ. If their initial values differ, run.initial decides.
    optimizer: a torch.optim.Optimizer, a list of them, or None. Given, its state is kept in the directory, so that a stopped
        region goes on with the same bits; and its fp32 master weights are used, if it has them.
    directory: the region's own; on the coordinator's host the one that the coordinator uses. Default: CAUSEWAY_DIRECTORY.
    region: the region's name in the configuration. Default: CAUSEWAY_REGION, or the last part of the directory.
    samples_per_step, tokens_per_step: what one step of the whole region reads, over all ranks. Regions count by their tokens; without
        them a sample is one.
    save_rounds: rounds between states on disk. With 1, a region that is killed resumes with the same bits, too.
    also: names to further objects with state_dict() and load_state_dict() (schedulers, scalers, data loaders), kept with
        the optimizer's state. With an optimizer of fp16 parameters, the scaler of the loss must be among them.
    buffers: what becomes of the buffers that state_dict() has, with every round. "average": their mean over the regions,
        weighted as the parameters are; whole numbers are those of the first region that the round lists. "lowest": all are
        that region's. "local": each region keeps its own. Those that hold infinities before the first step, as masks do, stay as they are.
    frozen: parameters without requires_grad, which stay as the program makes them. "same": regions that hold others are refused.
        "local": each region has its own; all regions say so.
    coordinator, certificates: HOST:PORT of a coordinator on another host, and the directory of the region's certificates.
    stage_of: with pipeline parallelism, where `model` is this rank's stage and `optimizer` is of its parameters: the whole model,
        whose names the stage's parameters have. It is not trained, and may be on the meta device.
    group: the process group of the region. Default: all processes of torch.distributed, if it is initialised.
    seed: of the stochastic rounding by which bf16 and fp16 parameters without master weights are set.
    evaluate: for a run with sync.k = "auto", which judges K by held-out loss. Called on all ranks with a number of
        samples, between rounds, when the model holds what all regions agreed on. It returns the mean loss, in the units of
        report(), over this many samples, which nobody trains on and which are the same each time. Rank 0's loss counts.
    keep_waiting: called on rank 0 at least every second of a wait, with a sentence that says for what. If it returns False,
        the wait ends with causeway.Stopped.

    Raises ValueError with one sentence for wrong use, causeway.WorkerError for what the run refuses.
    """

    def __init__(self, model: torch.nn.Module, optimizer: arguments.Optimizers = None, *,
                 directory: str | os.PathLike[str] | None = None, region: str | None = None, samples_per_step: int = 1,
                 tokens_per_step: int | None = None, save_rounds: int = 10, also: arguments.Also = (), buffers: str = "average", frozen: str = "same",
                 stage_of: torch.nn.Module | None = None, coordinator: str = "", certificates: str | os.PathLike[str] = "",
                 group: dist.ProcessGroup | None = None, seed: int = 0, evaluate: arguments.Evaluate | None = None,
                 keep_waiting: arguments.KeepWaiting | None = None) -> None:
        self.model = arguments.model(model)
        self.optimizers = arguments.optimizers(optimizer, model)
        # The program may go elsewhere.
        self.directory = pathlib.Path(arguments.from_environment(directory, "CAUSEWAY_DIRECTORY", "directory")).absolute()
        self.region: str = region or os.environ.get("CAUSEWAY_REGION") or self.directory.resolve().name
        self._samples_per_step = arguments.count("samples_per_step", samples_per_step)
        self._save_rounds = arguments.count("save_rounds", save_rounds)
        self._settings: dict[str, Any] = dict(
            samples_per_step=self.samples_per_step,
            tokens_per_step=0 if tokens_per_step is None else arguments.count("tokens_per_step", tokens_per_step),
            save_rounds=self.save_rounds, coordinator=coordinator, certificates=str(certificates), validates=evaluate is not None)
        self._group, self._seed, self._also = group, seed, arguments.also(also)
        self._buffers = arguments.one_of("buffers", buffers, KINDS)
        self._frozen = arguments.one_of("frozen", frozen, frozen_parameters.KINDS)
        self._stage_of = None if stage_of is None else arguments.model(stage_of, "stage_of")
        self._evaluate = arguments.function("evaluate", evaluate)
        self._user_keep_waiting = arguments.function("keep_waiting", keep_waiting)
        self._worker: causeway.Worker | None = None
        self._entered: Parameters | None = None
        self._ranks: Solo | Group = Solo()
        me = weakref.ref(self)  # a handler of signals keeps no run alive
        self.stop_signals = StopSignals(lambda: (run := me()) is not None and run._entered is not None)
        self._process = forks.Entered()
        self._forget_steps()

    def _forget_steps(self) -> None:
        self._loss: torch.Tensor | float = float("nan")
        self._sample: int | None = None
        self._said: str | None = None
        self._told: Told | None = None
        self._steps: Iterator[Step] | None = None
        self._step: Step | None = None
        self._iterated = False  # the program counts its steps by `for step in run`
        self._handed_out: HandedOut | None = None
        self._reported = False  # a loss of the step under way
        self._ended_by: str | None = None  # an error; no step can follow
        self._before: Marks | None = None  # the parameters as the first round found them

    def __enter__(self) -> Run:
        if not self._settings["coordinator"] and not self.directory.parent.is_dir():
            raise ValueError(f"{self.directory} is not there, nor the directory above it: give the directory that the "
                             "region's coordinator was started with")
        self._forget_steps()  # of a time before
        self._process.note()
        self._ranks = ranks_told(self._group)
        self._entered = Parameters(self.model, self.optimizers, self._ranks, self._seed, self._buffers, self._stage_of,
                                   self._frozen, self.directory)
        self._entered.agree(self._lost_scale())
        self._state = TrainerState(self.directory, self._ranks, self.optimizers, self._also, self.region)
        self._begun = [Begun(one) for one in self.optimizers]
        self._still_steps = StillSteps(self.optimizers)
        with program_end.waits_for():
            done_by_leader(self._ranks, self._attach)
        if self._ranks.leads:
            self._tell_of_arguments()
            if self._entered.buffers.all or self._entered.buffers.left_out:
                log.info("%s", self._entered.buffers)
            if self._entered.frozen.count:
                log.info("%s", self._entered.frozen)
        self.stop_signals.listen()
        return self

    def _tell_of_arguments(self) -> None:
        for one in self.optimizers:
            tell_unsuited(one)
        arguments.tell_extra_state(self.model)
        arguments.tell_pruned(self.model)
        if self._settings["tokens_per_step"] == 0:
            arguments.tell_unit(self.model, self.samples_per_step)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        well = error is None or (isinstance(error, SystemExit) and not error.code)
        if well and self._process.is_here and self._step is not None:
            self._tell_of_early_end(self._step)
        self.leave()

    def _tell_of_early_end(self, step: Step) -> None:
        if not self._ranks.leads:
            log.warning("rank %d left Run in %s, before the run was over. If other ranks of the region go on, they fail as they wait for it: "
                        "give all of them equally many batches", self._ranks.rank, step.place)
            return
        log.warning("Run was left in %s, before the run was over: what was trained since the round before counts nowhere, and the "
                    "model holds this region's values, not the run's. Start the program again to go on", step.place)

    def leave(self) -> None:
        """As the end of `with`, without a word where the run is not over."""
        self.stop_signals.restore()
        self._worker = self._entered = self._steps = self._handed_out = None

    def __iter__(self) -> Iterator[Step]:
        self._iterated = True
        steps = self._begun_steps()
        # run.over or run.step asked for it; or zip(run, loader), which then found no batch for it.
        if self._step is not None and not self._is_taken():
            return itertools.chain((self._step,), steps)
        return steps

    def _is_taken(self) -> bool:
        return any(self._ranks.gather(self._reported or (self._handed_out is not None and self._handed_out.is_trained())))

    def _begun_steps(self) -> Iterator[Step]:
        self._parameters  # refuses a run that was not entered
        self._check_not_ended()
        if self._steps is None:
            self._steps = self._walk()
        return self._steps

    def __reduce__(self) -> NoReturn:
        raise TypeError(forks.NOT_SENT)

    def __copy__(self) -> Run:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        """A copy of a model, or of a Trainer's module, that knows its run."""
        return self

    def _check_not_ended(self) -> None:
        self._process.check()
        if self._ended_by is not None:
            raise RuntimeError(f"the run was ended by an error that the program caught ({self._ended_by}). No step can follow, and what "
                               "is trained now counts nowhere. Let such an error end the program, and start it again to go on")

    def _walk(self) -> Iterator[Step]:
        """All steps. An error in it ends the run: a generator that raised is over, and would look like a run that is."""
        try:
            yield from self._all_steps()
        except GeneratorExit:
            raise
        except BaseException as error:
            self._ended_by = f"{type(error).__name__}: {error}"  # as text: the error itself would keep this run alive
            raise

    def _all_steps(self) -> Iterator[Step]:
        first = True
        while True:
            with program_end.waits_for():
                steps = self._next()
            if steps is None:
                break
            taken = 0
            while taken < steps.count and not (taken and self._called_back()):
                self._step = steps.step(taken, self.samples_per_step)
                self._handed_out, self._reported = self._parameters.handed_out(), False
                yield self._step
                taken += 1
                if first:
                    self._state.check_after_a_step()
                first = False
            with program_end.waits_for():
                self._done(steps, taken)
        self._step = None
        self.stop_signals.restore()  # nothing is left to save
        self._note_end(trained=not first)

    def _note_end(self, trained: bool) -> None:
        if trained:
            ended_here.add(self._place)
        elif self._place in ended_here and self._ranks.leads:
            log.warning("this process has trained the run to its end before, so no step is left, and a loop over it now trains nothing. Train a "
                        "second phase in a run of its own (another configuration and directory), or make both phases one run: step.progress says "
                        "where it is")

    @property
    def _place(self) -> tuple[pathlib.Path, str]:
        return self.directory.resolve(), self.region

    # ---- A loop of the program's own ----

    @property
    def step(self) -> Step | None:
        """The step to take now. None: the run is over, and the model holds its result. Waits, the first time, until there is
        one."""
        self._check_not_ended()
        if self._steps is None:
            next(self._begun_steps(), None)
        return self._step

    def after_step(self, loss: torch.Tensor | SupportsFloat | None = None) -> bool:
        """The optimizer has stepped. False: that was the last step, and the model holds the run's result."""
        if self._iterated:
            raise RuntimeError(ONE_LOOP)
        self._check_not_ended()
        if self._steps is None:
            raise RuntimeError("after_step() came before the run was asked for a step, so the step was taken from values that are "
                               "not the run's: ask run.over, or run.step, before the first one")
        if self._step is None:
            raise RuntimeError("a step was taken that the run did not ask for: it is over, and the model does not hold its "
                               "result any more. End the loop when after_step() gives False, and begin none when run.over is "
                               "true")
        if loss is not None:
            self.report(loss)
        return next(self._steps, None) is not None

    # ---- Where the run stands ----

    @property
    def samples_per_step(self) -> int:
        """As it was given. It stays so: the worker counts by it, and the trainer's state on disk."""
        return self._samples_per_step

    @property
    def save_rounds(self) -> int:
        """As it was given: the worker saves by it, too."""
        return self._save_rounds

    @property
    def over(self) -> bool:
        """No step is left, and the model holds the run's result. Waits, as step does, the first time."""
        return self.step is None

    @property
    def run_steps(self) -> int | None:
        """Steps of the whole run, as Step.schedule_step counts. None: not known before the first step."""
        return self._told.run_steps if self._told is not None else None

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        if self._step is not None:
            self._process.check()
            return self._step.progress
        return 0.0 if self._told is None else 1.0

    def report(self, loss: torch.Tensor | SupportsFloat) -> None:
        """The loss of the last step, in nats; for displays. A number or a tensor, which is read at the round's end."""
        self._loss, self._reported = arguments.loss(loss), True

    def _lost_scale(self) -> str | None:
        """fp16 steps are scaled, and a restart that begins with another scale ends with other bits."""
        scaled = any(hasattr(one, "get_scale") or name == "scaler" for name, one in self._also.items())
        exchanged = self._parameters.exchanged
        half = next((one.name for one in exchanged if one.parameter.dtype == torch.float16), None)
        if half is None or scaled or not self.optimizers:
            return None
        return (f"the parameter {half} is float16, and a restart would lose the scale of its loss: give "
                "also={\"scaler\": scaler}, or use bfloat16")

    # ---- One round; every rank goes through the same calls ----

    @property
    def _parameters(self) -> Parameters:
        if self._entered is None:
            raise RuntimeError("enter the run first: with Run(...) as run")
        return self._entered

    @property
    def _attached(self) -> causeway.Worker:
        assert self._worker is not None  # rank 0 alone has it, while the run is entered
        return self._worker

    def _next(self) -> Told | None:
        if self._sample is None and self._told is None:
            self._parameters.check_as_entered()
        try:
            while (told := self._told_next()) is not None and told.validation_samples:
                self._validate(told)
        except BaseException as error:
            # Told to stop: the worker saved its state, and this belongs to it.
            if self._sample is not None:
                self._state.save_alone(self._sample)
            stopped = isinstance(error, (causeway.Stopped, LeaderStopped))
            if stopped:  # a launcher kills the others when the first has ended
                with contextlib.suppress(RuntimeError):  # of ranks that are gone
                    self._ranks.gather(None)
            if stopped and self.stop_signals.came:
                log.warning("%s: %s", signal.Signals(self.stop_signals.came).name, error)
                self.stop_signals.end(error)
            raise
        if told is None:
            self._parameters.give(-1)
            return None
        self._told = told
        first, self._sample = self._sample is None, told.first_sample
        if first:  # before the parameters: an optimizer's master weights are among its state
            self._resume(told.first_sample)
        self._parameters.give(told.round)
        if first:
            self._before = self._parameters.marks()
        return told

    def _told_next(self) -> Told | None:
        kind, numbers = led(self._ranks, self._ask)
        return Told.heard(numbers) if kind == Kind.STEPS else None

    def _resume(self, sample: int) -> None:
        if self._also:
            self._parameters.kept_through(lambda: self._state.resume(sample))
        else:
            self._state.resume(sample)

    def _done(self, steps: Told, taken: int) -> None:
        if self._ranks.leads and self.optimizers:
            self._still_steps.look(steps.round, taken, self._handed_out is not None and self._handed_out.is_trained())
        self._parameters.take()
        if self._before is not None:
            self._tell_first_round(self._before, steps.round, taken)
        spoiled: str | None = None

        def is_spoiled() -> bool:  # asked of rank 0, which alone finds the name
            nonlocal spoiled
            spoiled = self._parameters.not_finite()
            return spoiled is not None

        if decided_by_leader(self._ranks, is_spoiled):
            self._begin_anew(steps.round, taken, spoiled)
        self._sample = steps.first_sample + taken * self.samples_per_step
        if (steps.round + 1) % self.save_rounds == 0:  # before the region's state, which says that these steps were taken
            self._state.save(self._sample)
        loss = float(self._loss)
        done_by_leader(self._ranks, lambda: self._attached.done(taken, loss))

    def _validate(self, told: Told) -> None:
        self._parameters.give(told.round)
        loss = arguments.evaluated(self._evaluate(told.validation_samples))
        self._parameters.check_unchanged()
        done_by_leader(self._ranks, lambda: self._attached.validated(loss))

    def _tell_first_round(self, before: Marks, round_number: int, taken: int) -> None:
        self._before = None
        trained = any(self._ranks.gather(self._parameters.marks() != before))
        if self._ranks.leads:
            first_round.tell(round_number, taken, trained, self.optimizers)

    def _begin_anew(self, round_number: int, taken: int, spoiled: str | None) -> None:
        """What was NaN led to what is NaN: moments that hold it would spoil every step to come."""
        for begun in self._begun:
            begun.again()
        anew = ("begins its optimizer anew" if self.optimizers else "goes on with the optimizer of the program, which Run was not given: "
                "what is NaN in it spoils every round to come")
        warnings.warn(f"round {round_number}: {told_spoiled(spoiled)} NaN or infinite after {taken} steps. This region sits the "
                      f"round out, follows the other regions, and {anew}", stacklevel=5)

    def _called_back(self) -> bool:
        return decided_by_leader(self._ranks, lambda: bool(self.stop_signals.came) or self._attached.called_back())

    # ---- What rank 0 does, and waits for ----

    def _attach(self) -> None:
        self._claim()
        keep_waiting = weakref.WeakMethod(self._keep_waiting)  # a run that is dropped without __exit__ takes its worker along
        self._worker = causeway.Worker(self._parameters.hosts(), region=self.region, directory=str(self.directory),
                                       keep_waiting=lambda what: (ask := keep_waiting()) is None or ask(what), **self._settings)
        self._parameters.frozen.keep()

    def _claim(self) -> None:
        other = entered_here.get(self._place)
        if other is not None and other is not self and other._worker is not None:
            raise ValueError(f"this process already takes part as {self.region}: put both models into one ModuleDict and give one Run, "
                             "with a list of optimizers. If the other Run is of an earlier try, leave it first (its __exit__), or drop it")
        entered_here[self._place] = self

    def _ask(self) -> tuple[Kind, Sequence[int]]:
        steps = self._attached.next()
        for _ in range(STOPS_TRIED):
            if steps is None or not self.stop_signals.came:
                break
            self._attached.done(0, float("nan"))  # then the next call waits, and saves when the wait is ended
            steps = self._attached.next()
        if steps is None:
            return Kind.OVER, ()
        if self.stop_signals.came:
            raise causeway.Stopped("told to stop; the state could not be saved, so the next start goes on from the one before")
        return Kind.STEPS, Told.of(steps).numbers()

    def _keep_waiting(self, what: str) -> bool:
        self._ranks.tell(Kind.WAITING)
        if what != self._said:
            self._said = what
            log.info("%s", what)
        if self.stop_signals.came or self._entered is None:  # another thread has left the run
            return False
        return self._user_keep_waiting is None or bool(self._user_keep_waiting(what))
