"""Nested state with divided tensors, as one rank keeps it in its file: its own part of each."""
from __future__ import annotations

from typing import Any

from .divided import DTensor
from .nested import like

LOCAL = "causeway: this rank's part of a divided tensor"


def own_parts(value: Any) -> Any:
    """Of nested state: each divided tensor replaced by the part of this rank, which needs no mesh to be read again. NumPy's
    numbers are plain ones, which need no code of others to be read."""
    if isinstance(value, DTensor):
        return {LOCAL: value.to_local()}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, dict):
        return {key: own_parts(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return like(value, map(own_parts, value))
    return value


def divided_again(value: Any, parameter: Any) -> Any:
    """The reverse: divided as the parameter that the state is of."""
    if isinstance(value, dict) and LOCAL in value:
        local = value[LOCAL].to(parameter.to_local().device)
        return DTensor.from_local(local, parameter.device_mesh, parameter.placements, run_check=False,
                                  shape=parameter.shape, stride=parameter.stride())
    if isinstance(value, dict):
        return {key: divided_again(one, parameter) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return like(value, (divided_again(one, parameter) for one in value))
    return value
