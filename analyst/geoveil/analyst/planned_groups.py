"""How large the errors of groups, and of differences between them, will be [MATH §8]."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.contamination import liars_in
from geoveil.analyst.planner.prediction import NORMAL_95
from geoveil.analyst.planning import PlannedQuestion, PlannedQuestions
from geoveil.analyst.statistics.groups import shares_of
from geoveil.analyst.statistics.labelled_groups import heaviest
from geoveil.analyst.statistics.simultaneous import critical_value
from geoveil.gp import ParameterError, RandomizedLabels

Array = NDArray[np.float64]


def planned_groups(
    planned: PlannedQuestion | PlannedQuestions,
    sizes: Mapping[str, float],
    epsilon: float | None = None,
    contamination: float = 0.0,
) -> list[dict[str, Any]]:
    """Return the error of each group's estimate, and of each difference, for each question.

    Within every group people are taken to be as the prior says of all. Where labels are sent with
    lies at times, what undoes them counts as well.

    Args:
        planned: a plan of which a campaign can be made.
        sizes: label of a group → its people, or its share of those who take part; two or more.
        epsilon: ε between any two labels; None: they are sent as they are.
        contamination: the fraction of the participants who may be liars, in [0, 1).

    Returns:
        For each question its groups, with half the width of each 95 % interval by itself, and the
        differences of all pairs, with that of intervals which hold all at once; of each also how
        far liars move it at most (`moved`), who may say that they are of any group.

    Raises:
        ParameterError: if there are not two groups, a size is not > 0 or ε is out of range.
        UnsupportedError: if campaigns cannot hold what was chosen.
    """
    labels = tuple(sizes)
    if len(labels) < 2:
        raise ParameterError("groups", labels, "at least two")
    shares = shares_of(sizes, labels)
    chosen = planned.chosen()
    sent, counted = _of_one_report(shares, epsilon)
    covariance = (counted * sent) @ counted.T
    errors = np.sqrt(np.diag(covariance))
    pairs = [(i, j) for j in range(len(labels)) for i in range(j + 1, len(labels))]
    contrasts = np.array([np.eye(len(labels))[i] - np.eye(len(labels))[j] for i, j in pairs])
    of_pairs = contrasts @ covariance @ contrasts.T
    apart = np.sqrt(np.diag(of_pairs))
    critical = critical_value(of_pairs / np.outer(apart, apart))
    rows = []
    liars = liars_in(planned, contamination)

    def moved(contrast: Array, column: int) -> float:
        weights = zip(sent.tolist(), heaviest(contrast[:, None] * counted).tolist(), strict=True)
        return replace(liars[column], weights=tuple(weights)).moved

    for column, (question, alternative) in enumerate(
        zip(planned.request.labels, chosen.alternatives, strict=True)
    ):
        prediction = alternative.prediction
        of_all = math.sqrt((prediction.noise + prediction.varied) * chosen.parts / planned.result.n)
        rows.append(
            {
                "question": question,
                "groups": [
                    {
                        "group": label,
                        "share": float(share),
                        "error_95": NORMAL_95 * of_all * error,
                        "moved": moved(contrast, column),
                    }
                    for label, share, error, contrast in zip(
                        labels, shares.tolist(), errors.tolist(), np.eye(len(labels)), strict=True
                    )
                ],
                "differences": [
                    {
                        "group": labels[i],
                        "other": labels[j],
                        "error_95": critical * of_all * error,
                        "moved": moved(contrast, column),
                    }
                    for (i, j), error, contrast in zip(
                        pairs, apart.tolist(), contrasts, strict=True
                    )
                ],
            }
        )
    return rows


def _of_one_report(shares: Array, epsilon: float | None) -> tuple[Array, Array]:
    """Return how often each label is sent, P(l), and what a report with it counts for each group.

    That is w(g, l)/s(g), w the inverse of the randomisation: so that groups' means from one report
    of variance 1 have the covariance Σ P(l) w(g, l) w(h, l)/(s(g) s(h)). Labels that are sent as
    they are have P = s and w the identity: 1/s(g), and 0 between groups.
    """
    channel = np.eye(len(shares))
    if epsilon is not None:
        truth = float(RandomizedLabels(len(shares), epsilon).truth)
        channel = np.full(channel.shape, (1 - truth) / (len(shares) - 1))
        np.fill_diagonal(channel, truth)
    return np.asarray(channel @ shares), np.asarray(np.linalg.inv(channel) / shares[:, None])
