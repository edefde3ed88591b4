"""Counts of reports, at one point or of several together, and the places where they crowd.

A report that is almost a fixed number makes a narrow crowd that no interval of fixed shares shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CROWDS = 8, 16, 32, 64, 128
"""The numbers of chosen reports in a crowd, multiples of the number of its parts."""
_AROUND = 3
"""The number of crowds on each side of one, which show how narrow it is."""
_RESOLVED = 1024
"""The number of floats in a place below which rounding changes its share."""
_ABOUT = 2.0 ** -np.arange(4, 32, 2)
"""Distances from the answer without noise, in interquartile ranges of the reports."""
_NARROWER = 2.0 ** -np.arange(48)
"""Relative ends of the parts of such a place, which resolve a peak at the answer."""
_EQUAL = np.arange(1, 64) / 64
"""Shares of its reports below the ends of its other parts, which resolve a peak elsewhere."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of independent reports in several places, and bounds of those expected, (places,)."""

    reports: int
    drawn: Array
    least: Array
    most: Array

    @classmethod
    def of(cls, reports: int, drawn: Array, stated: Array, again: Array, missed: float) -> Counts:
        """Bound the expected counts by two quadratures of the shares, and what both may miss."""
        both, off = np.array([stated, again]), np.abs(again - stated) + missed
        least, most = both.min(axis=0) - off, both.max(axis=0) + off
        return cls(reports, drawn, least * reports, most * reports)

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both together, in the same places."""
        return Counts(
            self.reports + other.reports,
            self.drawn + other.drawn,
            self.least + other.least,
            self.most + other.most,
        )

    def shares(self) -> tuple[Array, Array]:
        """Return the bounds of the shares that are expected."""
        least, most = (
            np.clip(np.nan_to_num(count / self.reports, nan=unknown), 0, 1)
            for count, unknown in ((self.least, 0.0), (self.most, 1.0))
        )
        return least, most

    def chances(self) -> Array:
        """Bound the chances of counts at least as far from those expected, (places,).

        Reports of different laws keep within a binomial law of their mean share (Hoeffding, 1956).
        """
        from scipy.stats import binom

        least, most = self.shares()
        below = binom.cdf(self.drawn, self.reports, least)
        return np.asarray(2 * np.minimum(below, binom.sf(self.drawn - 1, self.reports, most)))


def crowds(
    chosen: Array,
    others: Array,
    answer: float,
    shares: Callable[[Array], Array],
    missed: float,
) -> Counts:
    """Return the counts of others where a few chosen reports are closest, and about an answer.

    `shares` integrates the density over parts whose ends are (bins, parts + 1), and may miss
    as much of it as `missed`.
    """
    y = np.sort(chosen)
    spread = float(np.subtract(*np.quantile(y, [0.75, 0.25])))
    places = [_closest(y, size) for size in _CROWDS]
    places += [_about(y, answer, spread * share) for share in _ABOUT]
    rows = np.zeros((3, len(places)))
    for i, (parts, other_parts) in enumerate(places):
        low, high = parts[0], parts[-1]
        if high - low > _RESOLVED * np.spacing(max(abs(low), abs(high))):
            rows[0, i] = ((others > low) & (others <= high)).sum()
            rows[1:, i] = shares(parts[None])[0], shares(other_parts[None])[0]
    drawn, stated, again = rows
    return Counts.of(len(others), drawn, stated, again, missed)


def crowds_of_atoms(atoms: Array, below: Array, others: Array, answer: float) -> Counts:
    """Return the counts of others about an answer, where only atoms have a share.

    `below` are the probabilities up to each of them. There are as many places as in `crowds`.
    """
    places = np.searchsorted(below, np.array([0.25, 0.75]) * below[-1])
    wide = float(np.ptp(atoms[places])) * np.concatenate([0 * np.array(_CROWDS), _ABOUT])[:, None]
    drawn = (np.abs(others - answer) < wide).sum(axis=1)
    stated = (np.abs(atoms - answer) < wide) @ np.diff(below, prepend=0.0)
    return Counts.of(len(others), drawn, stated, stated, 0.0)


def _about(y: Array, answer: float, width: float) -> tuple[Array, Array]:
    """Return the ends of parts of a place about an answer: ever narrower, and of equal shares."""
    ends = answer + width * np.concatenate([-_NARROWER, [0.0], _NARROWER[::-1]])
    inside = y[(y > ends[0]) & (y < ends[-1])]
    if not len(inside):
        return ends, ends[[0, -1]]
    return ends, np.concatenate([ends[:1], np.quantile(inside, _EQUAL), ends[-1:]])


def _closest(y: Array, size: int) -> tuple[Array, Array]:
    """Return parts of the place where so many sorted numbers are closer than those around them."""
    beside = _AROUND * size
    most = len(y) - size - beside
    if most <= beside:
        return y[:1], y[:1]
    width = y[beside + size : most + size] - y[beside:most]
    around = y[2 * beside + size :] - y[: most - beside]
    floats = np.spacing(np.maximum(np.abs(y[beside:most]), np.abs(y[beside + size : most + size])))
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = np.where(width > _RESOLVED * floats, width / around, np.inf)
    at = int(np.argmin(narrow)) + beside
    return y[at : at + size + 1 : size // 8], np.linspace(y[at], y[at + size], 5)
