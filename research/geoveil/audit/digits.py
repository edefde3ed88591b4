"""Test whether digits, remainders and differences of released integers reveal anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.laws import Placed

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_EVEN = 1e-4
"""Relative difference of a digit's share from 1/16 that the law may have."""
_SHIFTS, _MODULI = np.arange(0, 60, 4), np.arange(3, 128)
_DIVISORS = np.arange(2, 1025)
_SURE = 64
"""Number of integers that share a divisor by chance with probability 2⁻⁶²."""
_CLOSE, _LONGEST = 1 << 24, 8
"""Rare integers closer than this have any distance; it is at least so many tested spacings."""
_DIRECTIONS = 8
"""Directions of which one is near that of any sum of waves."""


def digits(reports: list[Integers], where: list[Placed], halves: list[int], failure: float) -> str:
    """Return a digit or remainder that is not uniform at a point.

    Two reports of one person, from two generators, also differ by a multiple of m in 1/m of cases.
    Close ones have distances that are multiples of no other number either.
    """
    share = failure / 3
    fault = _at_points(reports, where, share) or _apart(reports, where, halves, share)
    return fault or _spaced(reports, where, share)


def _likely(once: Array, equal: Array) -> Array:
    """Bound the probability of any integer in each column, (c,): 1 in a column of options."""
    options = equal.max(axis=0, initial=0.0) > _EVEN
    others = once / np.where(options, equal, 1.0).prod(axis=1)
    alike = others.max(initial=0.0) ** (1 / max((~options).sum(), 1))
    return np.where(options, 1.0, alike)


def _at_points(reports: list[Integers], where: list[Placed], failure: float) -> str:
    from scipy.stats import binom

    tests = len(reports) * reports[0][0].size * (16 * len(_SHIFTS) + int(_MODULI.sum()))
    for every, place in zip(reports, where, strict=True):
        # Beside atoms, of the reports that are none, whose law is what is left of the whole.
        light = place.once <= _EVEN
        drawn = every[light]
        if len(drawn) < _SURE:
            continue
        likely = _likely(place.once[light], place.equal[light]) * len(every) / max(len(drawn), 1)
        for k, most in zip(drawn.reshape(len(drawn), -1).T, likely, strict=True):
            shifts = _SHIFTS[16 * 2.0**_SHIFTS * most <= _EVEN]
            moduli = _MODULI[_MODULI * most <= _EVEN]
            if not len(shifts):
                continue
            sizes = np.concatenate([np.full(len(shifts), 16), moduli])
            slack = np.concatenate([2.0**shifts, np.ones(len(moduli))]) * most
            starts = np.cumsum(sizes) - sizes
            apart = int(np.gcd.reduce(k - k[0]))
            if apart > 1:
                return f"integers of one person differ by multiples of {apart}"
            classes = np.concatenate([(k[:, None] >> shifts) & 15, k[:, None] % moduli], axis=1)
            counts = np.bincount((classes + starts).ravel(), minlength=int(sizes.sum()))
            # Of equally likely classes the smallest and the largest are the least likely ones.
            ends = [end.reduceat(counts, starts) for end in (np.minimum, np.maximum)]
            below = binom.cdf(ends[0], len(k), 1 / sizes - slack)
            chance = 2 * np.array([below, binom.sf(ends[1] - 1, len(k), 1 / sizes + slack)])
            if chance.min() * tests < failure:
                end, worst = divmod(int(np.argmin(chance)), len(sizes))
                what = "digit" if worst < len(shifts) else "remainder"
                same = ends[end][worst]
                return f"one {what} of integers is the same in {same} of {len(k)} reports"
    return ""


def _apart(reports: list[Integers], where: list[Placed], halves: list[int], failure: float) -> str:
    from scipy.stats import binom

    both = [r.reshape(len(r), -1) for r in reports]
    light = [_DIVISORS[-1] * _likely(place.once, place.equal) <= _EVEN for place in where]
    for column in range(both[0].shape[1]):
        every = zip(both, halves, light, strict=True)
        pairs = [r[:n, column] - r[n:, column] for r, n, use in every if use[column]]
        if not pairs:
            continue
        apart = np.concatenate(pairs)
        counts = np.array([np.count_nonzero(apart % m == 0) for m in _DIVISORS])
        chance = binom.sf(counts - 1, len(apart), (1 + _EVEN) / _DIVISORS)
        worst = int(np.argmin(chance))
        if chance[worst] * len(_DIVISORS) * both[0].shape[1] < failure:
            share = counts[worst] / len(apart)
            return f"{share:.1%} of reports of one person differ by multiples of {_DIVISORS[worst]}"
    return ""


def _spaced(reports: list[Integers], where: list[Placed], failure: float) -> str:
    """Return a number, whole or not, of which integers of one person are multiples apart.

    Every other distance of sorted integers, if it is small, is as likely as any. So m waves through
    them add up to more than √(mt) in one of 8 directions with at most e^(−t·cos²(π/8)) (Chernoff).
    """
    from scipy.fft import rfft

    columns = where[0].equal.shape[1]
    for column in range(columns):
        apart = []
        for every, place in zip(reports, where, strict=True):
            rare = len(every) * place.once ** (1 / columns) * _CLOSE < 1
            apart.append(np.diff(np.sort(every.reshape(len(every), -1)[rare, column]))[::2])
        near = np.concatenate(apart)
        near = near[(near > 0) & (near < _CLOSE)]
        if len(near) < _SURE:
            continue
        counts = np.bincount(near, minlength=_CLOSE).astype(np.float32)
        waves: Any = rfft(counts)[_LONGEST : _CLOSE // 4]
        power = (np.square(waves.real) + np.square(waves.imag)) / len(near)
        most = np.log(_DIRECTIONS * len(power) * columns / failure) / np.cos(np.pi / 8) ** 2
        if power.max() > most:
            spacing = _CLOSE / (_LONGEST + int(np.argmax(power > most)))
            return f"integers of one person differ by multiples of {spacing:.6g}"
    return ""
