"""The run's steps, for a library that lays out its schedule before the run is entered."""
from __future__ import annotations

import logging
import os
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import causeway

from .ranks import Group, Kind, Solo, ranks as ranks_of
from .steps import steps_told

log = logging.getLogger("causeway")

LOOK_EVERY_S = 0.2


def steps_awaited(settings: Mapping[str, Any]) -> int | None:
    """As steps_told() has them, with the settings of a Run. The coordinator on this host may be started together with the program: rank 0
    waits until it has written them down, and all ranks get the same. None: the run says so when it is entered."""
    ranks = ranks_of(settings.get("group"))
    if not ranks.leads:
        return ranks.hear()[1][0] or steps_told(settings.get("directory"))
    try:
        steps = look(settings, ranks)
    except BaseException as error:
        ranks.tell_error(error)
        raise
    ranks.tell(Kind.GO_ON, (steps or 0,))
    return steps


def look(settings: Mapping[str, Any], ranks: Solo | Group) -> int | None:
    given = settings.get("directory") or os.environ.get("CAUSEWAY_DIRECTORY")
    steps = steps_told(given)
    if steps is not None or settings.get("coordinator") or not given:
        return steps
    directory = pathlib.Path(given).absolute()
    if not directory.parent.is_dir():  # Run refuses it
        return None
    what = f"waiting for this region's coordinator: it has not written {directory / 'status.json'} yet. Start it, or set CAUSEWAY_STEPS"
    keep_waiting, told = settings.get("keep_waiting"), False
    while not (directory / "status.json").exists():
        if not told:
            log.warning("%s", what)
        told = True
        ranks.tell(Kind.WAITING)
        if keep_waiting is not None and not keep_waiting(what):
            raise causeway.Stopped(f"told to stop while {what}")
        time.sleep(LOOK_EVERY_S)
    return steps_told(directory)
