"""How large the errors of groups, and of differences between them, will be [MATH §8]."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.kinds import PointReports
from geoveil.analyst.planning import PlannedQuestion, PlannedQuestions
from geoveil.analyst.statistics.groups import shares_of
from geoveil.analyst.statistics.simultaneous import critical_value
from geoveil.campaign import Allocation
from geoveil.gp import ParameterError
from geoveil.gp.labels import RandomizedLabels

Array = NDArray[np.float64]

_NORMAL_95 = 1.959963984540054


def planned_groups(
    planned: PlannedQuestion | PlannedQuestions,
    sizes: Mapping[str, float],
    epsilon: float | None = None,
) -> list[dict[str, Any]]:
    """Return the error of each group's estimate, and of each difference, for each question.

    Within every group people are taken to be as the prior says of all. Where labels are sent with
    lies at times, what undoes them counts as well.

    Args:
        planned: a plan of which a campaign can be made.
        sizes: label of a group → its people, or its share of those who take part; two or more.
        epsilon: ε between any two labels; None: they are sent as they are.

    Returns:
        For each question its groups, with half the width of each 95 % interval by itself, and the
        differences of all pairs, with that of intervals which hold all at once.

    Raises:
        ParameterError: if there are not two groups, a size is not > 0 or ε is out of range.
        UnsupportedError: if campaigns cannot hold what was chosen.
    """
    labels = tuple(sizes)
    if len(labels) < 2:
        raise ParameterError("groups", labels, "at least two")
    shares = shares_of(sizes, labels)
    chosen = planned.chosen()
    of_points = all(isinstance(one.reports, PointReports) for one in chosen.asked)
    parts = len(chosen.asked) if chosen.allocation is Allocation.PARTITION and not of_points else 1
    covariance = _of_one_report(shares, epsilon)
    errors = np.sqrt(np.diag(covariance))
    pairs = [(i, j) for j in range(len(labels)) for i in range(j + 1, len(labels))]
    contrasts = np.array([np.eye(len(labels))[i] - np.eye(len(labels))[j] for i, j in pairs])
    of_pairs = contrasts @ covariance @ contrasts.T
    apart = np.sqrt(np.diag(of_pairs))
    critical = critical_value(of_pairs / np.outer(apart, apart))
    rows = []
    for question, asked in zip(planned.request.labels, chosen.asked, strict=True):
        found = asked.prediction
        one = math.sqrt((found.noise + found.varied) * parts / planned.found.n)
        rows.append(
            {
                "question": question,
                "groups": [
                    {"group": label, "share": float(share), "error_95": _NORMAL_95 * one * error}
                    for label, share, error in zip(
                        labels, shares.tolist(), errors.tolist(), strict=True
                    )
                ],
                "differences": [
                    {"group": labels[i], "other": labels[j], "error_95": critical * one * error}
                    for (i, j), error in zip(pairs, apart.tolist(), strict=True)
                ],
            }
        )
    return rows


def _of_one_report(shares: Array, epsilon: float | None) -> Array:
    """Return the covariance of groups' means from one report of variance 1, (groups, groups).

    A label l is sent with probability P(l); the report counts w(g, l)/s(g) for group g, w the
    inverse of the randomisation, so that it is Σ P(l) w(g, l) w(h, l)/(s(g) s(h)). Labels that are
    sent as they are have P = s and w the identity: 1/s(g), and 0 between groups.
    """
    told = np.eye(len(shares))
    if epsilon is not None:
        truth = float(RandomizedLabels(len(shares), epsilon).truth)
        told = np.full(told.shape, (1 - truth) / (len(shares) - 1))
        np.fill_diagonal(told, truth)
    undone = np.linalg.inv(told)
    found = (undone * (told @ shares)) @ undone.T
    return np.asarray(found / np.outer(shares, shares))
