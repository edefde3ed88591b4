"""A flag where the people changed faster than they used to: cohort beside cohort.

Each week's cohort tells how much it changed since its last epoch. While people drift as they did,
that is the mean change of the cohorts before; a shock shows in the first cohort that reads after
it. Of the same people's two answers, what people differ by drops out.
"""

import math

import numpy as np

from geoveil.gp import ParameterError, validation
from geoveil.simulation.epochs.curves import Curves
from geoveil.simulation.epochs.drift import WEEKS
from geoveil.simulation.populations.base import Array

FALSE_ALARMS = 0.01
"""The probability of a flag in a year in which people drift as they did."""
POWER = 0.9
"""The probability with which a shock is flagged within the stated delay."""
_WINDOWS = (1, 2, 4, 8, 13, 26, 52)


def windows(epoch: int) -> tuple[int, ...]:
    """Return the numbers of weeks whose cohorts are taken together, each week anew."""
    return tuple(length for length in _WINDOWS if length <= epoch)


def flagged(curves: Curves, false_alarms: float = FALSE_ALARMS) -> Array:
    """Return whether each week is flagged: NaN where too few weeks came before, else 0 or 1.

    The mean change of the last weeks' cohorts is compared with that of the epoch before them, for
    several numbers of weeks; the quantile is Bonferroni's for all that is compared in a year. The
    epoch before has earlier changes of the same people, who begin the later one where they ended
    the earlier: the two are correlated by −1/2 at most, so that its variance counts twice.

    Args:
        curves: of one run.
        false_alarms: the probability of a flag in a year without a shock, in (0, 1).

    Raises:
        ParameterError: if the epoch is a week long: then there is nothing to carry.
    """
    critical = _critical(curves.epoch, false_alarms)
    noise = curves.change_variance / curves.cohort_size
    changes, noises = (np.concatenate([[0.0], np.cumsum(c)]) for c in (curves.change, noise))
    found = np.full(len(curves.week), np.nan)
    for length in windows(curves.epoch):
        end = np.arange(length + curves.epoch, len(changes))
        start = end - length
        first = start - curves.epoch
        recent = (changes[end] - changes[start]) / length
        usual = (changes[start] - changes[first]) / curves.epoch
        error = (noises[end] - noises[start]) / length**2
        error += 2 * (noises[start] - noises[first]) / curves.epoch**2
        alarm = np.abs(recent - usual) > critical * np.sqrt(error)
        found[end - 1] = np.fmax(found[end - 1], alarm)
    return found


def delay(
    shift: float,
    change_variance: float,
    n: int,
    epoch: int,
    false_alarms: float = FALSE_ALARMS,
    power: float = POWER,
) -> int | None:
    """Return within how many weeks a shift of the mean is flagged; None: not within an epoch.

    Args:
        shift: of the mean of a query with values in [0, 1], at once.
        change_variance: of one person's change of answer from epoch to epoch, > 0, before. What
            the shock adds is at most |shift|, as nobody's query changes by more than 1.
        n: people, ≥ 1.
        epoch: in weeks, 2 or more.
        false_alarms: as of `flagged`.
        power: the probability with which it is flagged by then, in (0, 1).

    Example:
        >>> [delay(-0.0122, 0.066, n=100_000, epoch=weeks) for weeks in (52, 13)]
        [13, 4]
    """
    from scipy.special import ndtri

    validation.positive("change_variance", change_variance)
    validation.require_count("n", n)
    power = validation.between("power", power, 0, 1, low_open=True, high_open=True)
    needed = _critical(epoch, false_alarms) + float(ndtri(power))
    usual = change_variance / n
    recent = (change_variance + abs(shift)) * epoch / n
    enough = (
        length
        for length in windows(epoch)
        if abs(shift) >= needed * math.sqrt(recent / length + 2 * usual)
    )
    return next(enough, None)


def _critical(epoch: int, false_alarms: float) -> float:
    from scipy.special import ndtri

    if epoch < 2:
        raise ParameterError("epoch", epoch, "two weeks or more")
    share = validation.between(
        "false_alarms", false_alarms, 0, 1, low_open=True, high_open=True
    ) / (2 * WEEKS * len(windows(epoch)))
    return float(-ndtri(share))
