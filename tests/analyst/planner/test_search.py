"""Test screening against an exhaustive search with exact moments."""

import numpy as np
import pytest

from geoveil.analyst.planner import (
    KINDS,
    DoubtedPrior,
    HardDisc,
    HardPolygon,
    HardRange,
    HardThreshold,
    LogNormalPrior,
    SamplePrior,
)
from geoveil.analyst.planner.coarse import NARROWEST, WIDEST, width
from geoveil.analyst.planner.problem import PlanningProblem
from geoveil.analyst.planner.search import Search
from geoveil.gp import GeoPrivacy, UnsupportedError
from geoveil.gp.queries.indicator import PROFILES
from tests.analyst.planner.plans import plan

UNIT = GeoPrivacy(1.0, per=1.0)
TRIED = ("DebiasedLaplace", "LaplacePareto", "PowerLaw", "LipschitzMechanism")
VALUES = np.random.default_rng(1).lognormal(2.0, 0.6, 1_500)
HEAPED = SamplePrior(np.where(VALUES % 1 < 0.5, np.round(VALUES / 5) * 5, VALUES), size=20_000)
PLACES = SamplePrior(np.random.default_rng(2).normal(scale=6.0, size=(1_200, 2)), size=50_000)
SQUARE = HardPolygon([(-5.0, -4.0), (6.0, -4.0), (6.0, 5.0), (0.0, 7.0), (-5.0, 5.0)])
DOUBTED = DoubtedPrior(HEAPED, {"less": HEAPED.scaled(0.9), "more": HEAPED.scaled(1.1)})
ELSEWHERE = DoubtedPrior(PLACES, {"west": SamplePrior(PLACES.values - [2.0, 0.0], size=50_000)})
LAW = LogNormalPrior(2.0, 0.6)
SETTINGS = [
    (HardThreshold(10.0), HEAPED, 500),
    (HardThreshold(10.0), HEAPED, 500_000),
    (HardThreshold(6.0), LAW, 20_000),
    (HardRange(5.0, 12.0), HEAPED, 20_000),
    (HardDisc((1.0, 0.0), 6.0), PLACES, 20_000),
    (SQUARE, PLACES, 20_000),
    (HardThreshold(10.0), DOUBTED, 20_000),
    (HardRange(5.0, 12.0), DOUBTED, 20_000),
    (HardDisc((1.0, 0.0), 6.0), ELSEWHERE, 20_000),
]


def least(question, prior, n):
    """Return the least error of all bands that the planner might choose, exactly, as it counts.

    What takes more than half from the prior is chosen only where all bands do.
    """
    search = Search(PlanningProblem.of(question, UNIT, prior))
    errors = []
    for name_of_step in PROFILES:
        for index in range(NARROWEST, WIDEST + 1):
            query = search.aimed(width(index), name_of_step)
            for name in TRIED if query is not None else ():
                for parameters in KINDS[name].options:
                    try:
                        reports = KINDS[name].build(query, UNIT, parameters)
                    except UnsupportedError:
                        break
                    predicted = search.problem.predict(reports)
                    repeats = search.problem.repeated(predicted) > 0.5
                    errors.append((repeats, predicted.expected_error(n)))
    return min(errors)[1]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(
    ("question", "prior", "n"),
    SETTINGS,
    ids=[f"{type(q).__name__}-{type(p).__name__}-{n}" for q, p, n in SETTINGS],
)
def test_the_choice_is_within_a_hundredth_of_the_best_of_all(question, prior, n):
    chosen = plan(question, UNIT, prior, n, kinds=TRIED).choice
    best = least(question, prior, n)
    error = chosen.prediction.expected_error(n)
    assert best <= error <= 1.01 * best


def test_another_rate_uses_what_stays_true():
    """Plans for a problem under another guarantee are those that are made anew."""
    for question, prior in ((HardThreshold(10.0), HEAPED), (SQUARE, PLACES)):
        first, other = PlanningProblem.of(question, UNIT, prior), GeoPrivacy(1.0, per=2.0)
        Search(first).best("DebiasedLaplace", lambda p: p.expected_error(100))
        again, anew = first.under(other), PlanningProblem.of(question, other, prior)
        aimed = Search(again).aimed(4.0, "smoothstep")
        assert aimed is not None
        assert aimed == Search(anew).aimed(4.0, "smoothstep")
        assert np.array_equal(again.nodes.points, anew.nodes.points)
