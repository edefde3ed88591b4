"""An optional constant-time floor under a release."""

import math
import time
from collections.abc import Callable
from typing import TypeVar

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError

_Released = TypeVar("_Released")

_SPIN_S = 5e-4
"""The end of a wait, in seconds, that is spent looking at the clock: a sleep may end so late."""
_LONGEST_S = 3600.0


def paced(
    release: Callable[[], _Released],
    seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], object] = time.sleep,
) -> _Released:
    """Return what `release` returns, at a whole multiple of `seconds` after the call.

    `release` takes a little longer for some points than for others. Whoever can time a single call,
    but can't look into the process, learns from a paced one only how many times `seconds` it took:
    once, if the floor is well above all that a release ever takes. An error is paced as well.

    It hides how long the work took, and nothing else: not the load of the processor while it works,
    nor what it leaves in the caches, nor the energy that it draws. If the machine is busy the end
    may be late, by a time that is the machine's and not the point's.

    Args:
        release: what to do, for example `lambda: mechanism.release(x)`.
        seconds: the floor, in (0, 3600]; if the work takes longer, the end is the next multiple.
        clock: monotonic, in seconds.
        sleep: waits for so many seconds, perhaps a little more; the last half millisecond before
            the end is spent looking at the clock instead.

    Raises:
        ParameterError: if an argument is out of range.

    Example:
        >>> from geoveil.gp import GeoPrivacy, LipschitzMechanism, SeededSource, Threshold
        >>> m = LipschitzMechanism(Threshold(at=0, width=2), GeoPrivacy(1.0, per=1.0), step=0.25)
        >>> start = time.perf_counter()
        >>> paced(lambda: m.release(0.3, SeededSource(1)), 0.002)
        -1
        >>> time.perf_counter() - start >= 0.002
        True
    """
    for name, function in (("release", release), ("clock", clock), ("sleep", sleep)):
        if not callable(function):
            raise ParameterError(name, function, "a function")
    floor = validation.between("seconds", seconds, 0, _LONGEST_S, low_open=True)
    start = clock()
    try:
        return release()
    finally:
        # Counted, not looped: the number of steps here does not depend on the work.
        periods = max(1, math.ceil((clock() - start) / floor))
        _wait_until(start + periods * floor, clock, sleep)


def _wait_until(end: float, clock: Callable[[], float], sleep: Callable[[float], object]) -> None:
    rest = end - clock() - _SPIN_S
    if rest > 0:
        sleep(rest)
    while clock() < end:
        pass
