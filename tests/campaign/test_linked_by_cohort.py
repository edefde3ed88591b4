"""Test how well an outsider with all reports of two years can link them by cohort.

10,000 devices, seed 33: incomes that stay, a reading a quarter, eight campaigns. Whoever links a
report of the first year to one of the second takes the nearest point with the same cohorts.
"""

from datetime import timedelta

import numpy as np
import pytest

from geoveil.campaign.readings import ORIGIN, Readings

DEVICES, QUARTERS, PARTS = 10_000, 8, 4
EVERY = timedelta(days=91)
START = ORIGIN + timedelta(days=20_454)
Array = np.ndarray


def labels(begins: Array, every: timedelta, parts: int) -> Array:
    """One for each device and quarter; a device's epochs follow without a gap."""
    readings = Readings(every=every, cohorts=parts)
    return np.array(
        [
            [readings.cohort(START + float(b) * EVERY + k * EVERY) for k in range(QUARTERS)]
            for b in begins
        ]
    )


def linked(first: Array, second: Array, one: Array, other: Array) -> float:
    """The share of devices whose report of the first year is linked to theirs of the second."""
    right = 0
    for label in np.unique(one, axis=0):
        mine = np.flatnonzero((one == label).all(axis=1))
        theirs = np.flatnonzero((other == label).all(axis=1))
        theirs = theirs[np.argsort(second[theirs])]
        at = np.searchsorted(second[theirs], first[mine]).clip(1, len(theirs) - 1)
        left = first[mine] - second[theirs[at - 1]] < second[theirs[at]] - first[mine]
        right += int((theirs[np.where(left, at - 1, at)] == mine).sum())
    return right / len(first)


@pytest.mark.deep
def test_labels_of_two_years_link_no_better_than_one_of_them() -> None:
    """A label of four parts makes a device one of four, however many campaigns it answers.

    Control: campaigns with epochs of their own, which a policy refuses, make devices one of a kind.
    """
    rng = np.random.default_rng(33)
    begins = -rng.random(DEVICES)
    income = np.exp(rng.normal(11, 0.7, DEVICES))
    first, second = (income + rng.laplace(0, 8_000, DEVICES) for _ in range(2))
    seen = np.concatenate([labels(begins, EVERY, parts) for parts in (PARTS, 2)], axis=1)
    assert len(np.unique(seen, axis=0)) == PARTS
    by_points = linked(first, second, 0 * seen, 0 * seen)
    by_labels = linked(first, second, seen[:, :4], seen[:, 4:8])
    by_one = linked(first, second, seen[:, :1], seen[:, 7:8])
    assert by_labels == by_one
    assert by_points * PARTS * 0.5 < by_labels
    assert by_labels < by_points * PARTS + 5 * np.sqrt(by_points * PARTS / DEVICES)
    # Labels alone: one in so many of those who share them.
    guesses = rng.permutation(DEVICES)
    same = (seen[:, 0] == seen[guesses, 7]).mean()
    assert abs(same - 1 / PARTS) < 5 * np.sqrt(1 / PARTS / DEVICES)
    own = [labels(begins, timedelta(days=days), 16) for days in (83, 97)]
    of_one_kind = np.concatenate(own, axis=1)
    assert len(np.unique(of_one_kind, axis=0)) > 20 * PARTS
    assert linked(first, second, of_one_kind, of_one_kind) > 5 * by_labels
