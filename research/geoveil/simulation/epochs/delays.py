"""The delay of flags: how many cohorts it takes to detect a sudden change [MATH §13]."""

import math

from geoveil.analyst import FALSE_ALARMS, windows
from geoveil.gp import validation
from geoveil.simulation.epochs.curves import WEEKS

POWER = 0.9
"""The probability with which a shift is flagged within the delay."""


def delay(shift: float, change_variance: float, n: int, epoch: int) -> int | None:
    """Return the number of cohorts within which a shift is flagged; None if more than an epoch.

    Args:
        shift: the sudden change of the mean of a query with values in [0, 1].
        change_variance: the variance of one person's change of answer from epoch to epoch before
            the shock, > 0. The shock adds at most |shift|, as no answer changes by more than 1.
        n: people, ≥ 1.
        epoch: cohorts in an epoch, 2 or more.

    Example:
        >>> [delay(-0.0122, 0.066, n=100_000, epoch=weeks) for weeks in (52, 13)]
        [13, 4]
    """
    from scipy.special import ndtri

    validation.positive("change_variance", change_variance)
    lengths = windows(epoch)
    needed = -float(ndtri(FALSE_ALARMS / (2 * WEEKS * len(lengths))) + ndtri(1 - POWER))
    usual = change_variance / n
    recent = (change_variance + abs(shift)) * epoch / n
    enough = (
        length
        for length in lengths
        if abs(shift) >= needed * math.sqrt(recent / length + 2 * usual)
    )
    return next(enough, None)
