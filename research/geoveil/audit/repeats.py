"""Numbers that repeat among simulated floats: single values that have a probability, and others.

A density lets numbers repeat only as often as floats are coarse.
"""

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.case import Case
from geoveil.audit.draws import at_least
from geoveil.audit.refinement import FAINT

Array = NDArray[np.float64]

OFTEN = 3
"""The least repeats of a number that count."""
_CHANCE = 1e-14
"""A float is an atom if the chance of as many repeats is less."""
OFF_GRID = (3 - 5**0.5) / 2
"""Place between two atoms of a grid where no other is."""
_ALIKE = 1e-3
"""The most by which log-densities of neighbouring floats differ, where one of them is no atom."""
_BESIDE, _GRADUAL = OFF_GRID * 2.0 ** -np.arange(0, 25, 8), 0.05
"""Places between a repeated number and its neighbours, and the most by which log-densities differ
there in a density."""
_RANDOM, _CLASSES = 2.0**-50, 2048
"""The probability of a number made of a random one of 53 bits, and how many powers of two doubles
have."""
_UNDERFLOW, _SIDES, _DIVERGES = 2.0**-1022, np.array([-1.0, 1.0]), 35.0
"""The least normal float, and the rise of a log-density towards it, over a factor of 2¹⁰⁰, above
which its integral diverges at 0: that of 1/√y rises by 34.7."""


def repeated(case: Case, points: Array, first: Array, second: Array, failure: float) -> str:
    """Return where repeated numbers have a share other than the stated one; '' if nowhere."""
    from scipy.special import bdtr, bdtrc  # the binomial law, faster than `scipy.stats`

    n = second.shape[1]
    for start, drawn in zip(points, first, strict=True):
        atoms = atoms_of(case, start, drawn)
        if not len(atoms):
            continue
        for point, others in zip(points, second, strict=True):
            masses = np.exp(logs_at(case, atoms, point))
            at = np.minimum(np.searchsorted(atoms, others), len(atoms) - 1)
            hits = np.bincount(at[atoms[at] == others], minlength=len(atoms))
            # With a slack, an atom of one point may have a density at another.
            most = masses + _cells(case, atoms, point)
            if getattr(case.mechanism.privacy, "delta", 0.0) > 0:
                masses = np.where(np.isin(atoms, single_values(case, atoms, point)), masses, 0.0)
            # Each of them separately, and all together.
            both = masses, most
            k, stated, most = (np.append(every, every.sum()) for every in (hits, *both))
            least, most = np.minimum(stated, 1.0), np.minimum(most, 1.0)
            chance = 2 * np.minimum(bdtr(k, n, least), bdtrc(k - 1, n, most))
            if stated[-1] > 1 + 1e-6:
                return f"at {text_of(point)}, numbers repeat more often than the density lets them"
            worst = int(np.argmin(chance))
            if chance[worst] >= failure / (4 * len(points) ** 2 * len(k)):
                continue
            of = "repeated numbers" if worst == len(atoms) else f"{atoms[worst]:.6g}"
            return (
                f"at {text_of(point)}, {k[worst] / n:.2%} of reports are {of}, where"
                f" exp(log_density) is {stated[worst]:.3g}"
            )
    for point, drawn, others in zip(points, first, second, strict=True):
        alike = int((drawn == others).sum())
        if not alike:
            continue
        atoms = np.union1d(atoms_of(case, point, drawn), single_values(case, drawn, point))
        mass = _cells(case, drawn, point)
        mass += np.where(np.isin(drawn, atoms), np.exp(logs_at(case, drawn, point)), 0.0)
        if at_least(alike, np.minimum(mass, 1.0)) < failure / (4 * len(points)):
            return f"at {text_of(point)}, two generators draw {alike / n:.2%} of the reports alike"
    return _repeated_in_a_density(case, points, first, second, failure / 4)


def _repeated_in_a_density(
    case: Case, points: Array, first: Array, second: Array, failure: float
) -> str:
    """Return how many numbers repeat, in whatever unit, where only a density is stated.

    A report with a probability of at most p repeats one of i such with at most i·p: r repeats have
    at most λ^r/r!. Numbers of a density have the p of a float. A law of a grid may state its
    log-probabilities between its values, too; these say also how many of the second half of the
    reports are any of the first half.
    """
    from scipy.special import bdtr, gammaln

    n, repeats, dense, likely = second.shape[1], 0, _RANDOM, 0.0
    for point, drawn in zip(points, first, strict=True):
        values, counts = np.unique(drawn, return_counts=True)
        at = np.flatnonzero(counts[1:-1] > 1) + 1
        at = at[_amid_a_density(case, point, values, at)] if len(at) else at
        if len(at):
            repeats += int((counts[at] - 1).sum())
            dense = max(dense, float(_cells(case, values[at], point).max()))
            likely = max(likely, float(np.exp(logs_at(case, values[at], point).max())))
    least, pairs = np.log(failure / _CLASSES), len(points) * n * (n - 1) / 2

    def impossible(most: float) -> bool:
        return bool(repeats * np.log(pairs * most) - gammaln(repeats + 1) < least)

    if not repeats or not impossible(dense):
        return ""
    if not impossible(likely):
        of_others = [np.unique(np.delete(first, i, axis=0)) for i in range(len(points))]
        for compared in ([*map(np.unique, first)], of_others):
            chances = [
                np.exp(logs_at(case, y, x)).sum() for y, x in zip(compared, points, strict=True)
            ]
            hits = sum(np.isin(drawn, y).sum() for drawn, y in zip(second, compared, strict=True))
            if bdtr(hits, second.size, np.minimum(chances, 1.0).mean()) < failure / 2:
                break
        else:
            return ""
    return f"{repeats} of {first.size} reports at {len(points)} points repeat one within a density"


def _amid_a_density(
    case: Case, point: Array, values: Array, at: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Return whether log-densities are alike on both sides of some of the values, up to others."""
    here, alike = logs_at(case, values[at], point), np.ones(len(at), dtype=np.bool_)
    for side in (-1, 1):
        gap = values[at + side] - values[at]
        for share in _BESIDE:
            away = logs_at(case, values[at] + share * gap, point)
            alike &= np.abs(np.fmax(away, FAINT) - here) < _GRADUAL
        beside = logs_at(case, np.nextafter(values[at], side * np.inf), point)
        alike &= np.abs(np.fmax(beside, FAINT) - here) < _GRADUAL
    return alike


def atoms_of(case: Case, point: Array, drawn: Array) -> Array:
    """Return the numbers that repeat more often than rounding to floats makes them."""
    from scipy.stats import binom

    values, counts = np.unique(drawn, return_counts=True)
    often = counts >= (OFTEN if (counts == OFTEN - 1).sum() < OFTEN else OFTEN - 1)
    if not often.any():
        return values[often]
    chance = binom.sf(counts[often] - 1, len(drawn), _cells(case, values[often], point))
    return np.asarray(values[often][chance < _CHANCE])


def logs_at(case: Case, values: Array, point: Array) -> Array:
    """Return the log-density at each value, or its log-probability if it is an atom."""
    return case.mechanism.log_density(values[:, None], point[None])[:, 0]


def _cells(case: Case, values: Array, point: Array) -> Array:
    """Return an upper bound of the probability that a density gives each float, by rounding.

    If the density diverges at 0, nothing bounds the probability of the numbers that underflow.
    """
    width = 2 * np.spacing(np.maximum(np.abs(values), 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        at = logs_at(case, values, point)
        ends = (logs_at(case, np.nextafter(values, end), point) for end in (-np.inf, np.inf))
        cells = np.minimum(width * np.exp(np.fmax.reduce([at, *ends])), 1.0)
        near, far = (logs_at(case, y * _UNDERFLOW, point) for y in (_SIDES, _SIDES * 2.0**100))
        open_ended = np.isneginf(at) | (near - far > _DIVERGES).any()
    return np.where((np.abs(values) < _UNDERFLOW) & open_ended, 1.0, cells)


def single_values(case: Case, values: Array, point: Array) -> Array:
    """Return the values whose log-density is not that on both sides: atoms, however rare."""
    ends = values, np.full_like(values, -np.inf), np.full_like(values, np.inf)
    at, low, high = (
        np.fmax(logs_at(case, np.nextafter(values, end), point), FAINT) for end in ends
    )
    return np.asarray(values[(np.abs(low - high) < _ALIKE) & (np.abs(at - low) > _ALIKE)])


def text_of(point: Array) -> str:
    """Return the coordinates of a point in words."""
    return ", ".join(f"{coordinate:.6g}" for coordinate in np.ravel(point))
