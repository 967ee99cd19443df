"""What a trainer needs to go on exactly where it stopped, beside the parameters, which the worker keeps: optimizer, random
numbers, and whatever else has state_dict() and load_state_dict()."""
import os
import pathlib
import re

import torch

from .divided import DTensor

KEPT = 2  # a worker that is killed goes on from the last position or the one before
LOCAL = "causeway: this rank's part of a divided tensor"


def own_parts(value):
    """Of nested state: each divided tensor replaced by the part of this rank, which needs no mesh to be read again."""
    if isinstance(value, DTensor):
        return {LOCAL: value.to_local()}
    if isinstance(value, dict):
        return {key: own_parts(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(own_parts, value))
    return value


def divided_again(value, parameter):
    """The reverse: divided as the parameter that the state is of."""
    if isinstance(value, dict) and LOCAL in value:
        local = value[LOCAL].to(parameter.to_local().device)
        return DTensor.from_local(local, parameter.device_mesh, parameter.placements, run_check=False,
                                  shape=parameter.shape, stride=parameter.stride())
    if isinstance(value, dict):
        return {key: divided_again(one, parameter) for key, one in value.items()}
    return value


class TrainerState:
    """Files in the region's checkpoints/: one for each rank and each position in the region's samples."""

    def __init__(self, directory, ranks, optimizer, also):
        self.directory = pathlib.Path(directory) / "checkpoints"
        self.ranks, self.optimizer, self.also = ranks, optimizer, dict(also)
        if optimizer is not None:
            self.also["optimizer"] = optimizer

    def file(self, sample):
        return self.directory / f"trainer-{sample}-rank-{self.ranks.rank}-of-{self.ranks.world}.pt"

    def positions(self):
        """Samples of this rank's files, in order; also refuses files of another number of ranks."""
        found = []
        for path in self.directory.glob("trainer-*-rank-*-of-*.pt"):
            match = re.fullmatch(r"trainer-(\d+)-rank-(\d+)-of-(\d+)\.pt", path.name)
            if match and int(match[3]) != self.ranks.world:
                raise ValueError(f"{path} was written by {match[3]} ranks, and this region has {self.ranks.world} now: "
                                 "start as many as before, or delete the trainer-*.pt there to begin the optimizer anew")
            if match and int(match[2]) == self.ranks.rank:
                found.append(int(match[1]))
        return sorted(found)

    def save(self, sample):
        if not self.also:
            return
        state = {name: own_parts(one.state_dict()) for name, one in self.also.items()}
        state["random"] = torch.get_rng_state()
        if torch.cuda.is_available():
            state["random of the device"] = torch.cuda.get_rng_state()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self.file(sample).with_suffix(".unfinished")
        with open(unfinished, "wb") as out:
            torch.save(state, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, self.file(sample))
        for old in self.positions()[:-KEPT]:
            self.file(old).unlink(missing_ok=True)

    def resume(self, sample):
        """From the last position that is not after `sample`. Positions after it are of work that was lost: removed."""
        positions = self.positions() if self.also else []
        for lost in (one for one in positions if one > sample):
            self.file(lost).unlink(missing_ok=True)
        usable = [one for one in positions if one <= sample]
        if not usable:
            return None
        # It holds what the objects of this program make of their state, and nobody else writes there.
        state = torch.load(self.file(usable[-1]), map_location="cpu", weights_only=False)
        missing = sorted(set(self.also) - set(state))
        if missing:
            raise ValueError(f"{self.file(usable[-1])} has no state of {', '.join(missing)}: give Run the same optimizer and "
                             "`also` as before, or delete the file to begin them anew")
        for name, one in self.also.items():
            one.load_state_dict(self.placed(state[name]) if name == "optimizer" else state[name])
        torch.set_rng_state(state["random"])
        if torch.cuda.is_available() and "random of the device" in state:
            torch.cuda.set_rng_state(state["random of the device"])
        return usable[-1]

    def placed(self, state):
        """An optimizer numbers its parameters in the order of its groups."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        return {**state, "state": {number: divided_again(one, parameters[number])
                                   for number, one in state["state"].items()}}
