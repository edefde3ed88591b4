"""Aim a soft threshold with what is public: where its band lies, and how wide it is.

A soft threshold misjudges the share above the hard one; with many people that is most of the error.
Incomes are reported in round numbers: one household in a hundred has exactly 100,000 dollars, which
is not above 100,000 and yet counts one half. Somebody who knows an earlier survey can do better:
for each width, put the centre of the band where that survey's soft share is its hard share, and
take the width of the least expected error [MATH §8]. The choice uses public numbers only, so it
costs no privacy.

The survey here is a stand-in for an earlier year's: `SURVEY_SIZE` households drawn from the
population. What it happens to get wrong stays in the bias of the aimed query; results are means
over `SURVEYS` such surveys.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from geoveil.analyst.planner import Reports
from geoveil.gp import DebiasedLaplace, Query, Threshold
from geoveil.simulation.comparison import Setting
from geoveil.simulation.experiments.contestants import STUDENT_T, Array
from geoveil.simulation.populations import household_incomes

SURVEY_SIZE = 100_000
"""Households in a public survey; the real one has 141,199."""
SURVEYS = 5
"""Surveys that might have been made."""
PEOPLE = 1_600_000
"""Number of people for whom the width is best: the middle of the paper's."""
WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Widths that are tried, in widths of the paper's band."""
_HALVINGS = 40


@lru_cache(maxsize=SURVEYS)
def incomes_in(survey: int) -> tuple[Array, Array]:
    """Return the distinct incomes of a survey, and the share of it at each.

    Args:
        survey: its number, which fixes who is in it.
    """
    incomes = household_incomes().sample(SURVEY_SIZE, np.random.default_rng(survey))
    values, counts = np.unique(incomes, return_counts=True)
    return values, counts / SURVEY_SIZE


@lru_cache(maxsize=128)
def aimed(setting: Setting, survey: int) -> Setting:
    """Return the setting with its soft threshold aimed by a survey, for DebiasedLaplace.

    Args:
        setting: `soft` is a smoothstep `Threshold`.
        survey: the number of the survey.
    """
    soft = _aimed(setting.soft, lambda q: DebiasedLaplace(q, setting.privacy), survey)
    return replace(setting, soft=soft)


@lru_cache(maxsize=128)
def aimed_seed(setting: Setting, survey: int) -> Setting:
    """Return the setting with the paper's threshold aimed, for the paper's Student-t mechanism.

    Args:
        setting: `seed` is a linear `Threshold`.
        survey: the number of the survey.
    """
    seed = _aimed(setting.seed, lambda q: STUDENT_T(replace(setting, seed=q)), survey)
    return replace(setting, seed=seed)


def _aimed(query: Query, build: Callable[[Threshold], Reports], survey: int) -> Threshold:
    assert isinstance(query, Threshold)
    choices = [_centred(query, factor * query.width, survey) for factor in WIDTHS]
    return min(choices, key=lambda q: _expected(q, query.at, build(q), survey))


def _centred(query: Threshold, width: float, survey: int) -> Threshold:
    """Return the threshold of this width whose soft share of the survey is the hard share."""
    x, shares = incomes_in(survey)
    target = shares[x > query.at].sum()
    low, high = query.at - width, query.at + width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        candidate = Threshold(middle, width, profile=query.profile)
        if np.sum(shares * candidate.value(x)) > target:
            low = middle  # the soft share falls as the centre rises
        else:
            high = middle
    return Threshold(high, width, profile=query.profile)


def _expected(candidate: Threshold, at: float, answer: Reports, survey: int) -> float:
    """Return the mean squared error to expect, up to the bias that the survey can see."""
    x, shares = incomes_in(survey)
    misjudged = float(np.sum(shares * np.square(candidate.value(x) - (x > at))))
    noise = float(np.sum(shares * answer.variance(x)))
    return (noise + misjudged) / PEOPLE + misjudged / SURVEY_SIZE
