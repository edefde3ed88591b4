"""Objects that take seconds to make, made by one process of a run for all."""

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

_Made = TypeVar("_Made")


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], _Made]) -> _Made:
    """Return what `make` returns, which one process of this run calls; it has to be pickled."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return make()
    file = factory.getbasetemp().parent / f"{name}.pickle"  # a folder of this run
    with open(f"{file}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(make()))
    made: _Made = pickle.loads(file.read_bytes())
    return made
