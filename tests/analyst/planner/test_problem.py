"""Test that a plan finds where a question varies from its methods, not from names of fields."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from geoveil.analyst.planner import (
    HardQuestion,
    HardRange,
    HardThreshold,
    HistogramPrior,
    LogNormalPrior,
    SamplePrior,
    compare_allocations,
)
from geoveil.analyst.planner.problem import Nodes, SoftQuestion, mesh, nodes_near
from geoveil.gp import (
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    Linear,
    Query,
    Radial,
    Range,
    Threshold,
)
from geoveil.gp.arithmetic import FLOAT
from tests.analyst.planner.plans import plan

PRIVACY = GeoPrivacy(1.0, per=8_000.0)
EVEN = HistogramPrior([0.0, 1e6], [50_000])
KINDS = ("LaplacePareto", "PowerLaw", "DebiasedLaplace", "LipschitzMechanism")


@dataclass(frozen=True)
class Twin(Query):
    """A query from outside the library: the same function, and not one field of the same name."""

    inner: Query

    @property
    def dimension(self) -> int:
        return self.inner.dimension

    @property
    def profile(self) -> Any:
        return self.inner.profile

    def signed_distance(self, x, ops=FLOAT):
        return self.inner.signed_distance(x, ops)


class Bare(Query):
    """A query with no fields at all: the share above 100,000."""

    dimension = 1
    profile = Threshold(0.0, 16_000.0).profile

    def signed_distance(self, x, ops=FLOAT):
        return x - ops.constant(100_000.0)


def step_far_out(u, ops):
    """Varies two scales from its own 0, over a hundredth of one."""
    t = ops.clip((u - 2) * 100, ops.constant(0), ops.constant(1))
    return t * t * (3 - 2 * t)


LINE = [
    Threshold(100_000.0, 16_000.0),
    Threshold(100_000.0, 400_000.0, "smoothstep"),
    Range(40_000.0, 90_000.0, 20_000.0, "smoothstep"),
    GaussianKernel(300_000.0, 9_000.0),
    Linear(FormulaProfile(step_far_out, scale=80_000.0), direction=-2.0, offset=-500_000.0),
    Radial(FormulaProfile(step_far_out, scale=80_000.0), center=500_000.0),
]
SPACE = [
    Disc((1.0, 2.0), 3.0, 1.0, "smoothstep"),
    GaussianKernel((1.0, 2.0), 1.0),
    Linear(FormulaProfile(step_far_out, scale=1.0), direction=(3.0, -1.0), offset=0.5),
    Radial(FormulaProfile(step_far_out, scale=1.0), center=(1.0, 2.0)),
    Disc((1.0, 2.0, 0.0), 3.0, 1.0, "smoothstep"),
    GaussianKernel((1.0, 2.0, 0.0), 1.0),
    Linear(FormulaProfile(step_far_out, scale=1.0), direction=(3.0, -1.0, 2.0)),
    Radial(FormulaProfile(step_far_out, scale=1.0), center=(1.0, 2.0, 0.0)),
]


def noise_of(query: Query, privacy: GeoPrivacy, prior: Any) -> dict[str, float]:
    found = plan(query, privacy, prior, 50_000, kinds=KINDS)
    return {a.kind: a.prediction.noise for a in found.alternatives}


@pytest.mark.deep(keep=7)
@pytest.mark.parametrize("query", LINE, ids=lambda q: type(q).__name__)
@pytest.mark.parametrize("prior", [EVEN, LogNormalPrior(11.5, 0.8)], ids=["even", "log-normal"])
def test_a_query_of_ones_own_is_planned_like_the_librarys(query, prior):
    assert noise_of(Twin(query), PRIVACY, prior) == noise_of(query, PRIVACY, prior)


def test_a_query_without_fields_is_planned_like_a_threshold():
    assert noise_of(Bare(), PRIVACY, EVEN) == noise_of(LINE[0], PRIVACY, EVEN)


@pytest.mark.parametrize("query", SPACE, ids=lambda q: f"{type(q).__name__}-{q.dimension}")
def test_so_it_is_in_the_plane_and_in_space(query):
    points = np.random.default_rng(3).normal(size=(3_000, query.dimension), scale=3.0)
    prior, privacy = SamplePrior(points), GeoPrivacy(1.0, per=1.0)
    assert noise_of(Twin(query), privacy, prior) == noise_of(query, privacy, prior)


@pytest.mark.parametrize("query", LINE, ids=lambda q: type(q).__name__)
def test_the_variance_of_a_plan_is_that_of_the_reports(query):
    """The oracle: 200,000 values spread evenly over the prior's one bracket."""
    best = plan(Twin(query), PRIVACY, EVEN, 50_000, kinds=KINDS).choice
    x = 5 * np.arange(200_000) + 2.5
    assert best.prediction.noise == pytest.approx(best.reports.variance(x).mean(), rel=1e-4)


@pytest.mark.deep(keep=0)
def test_many_queries_of_ones_own_are_compared_like_the_librarys():
    row = [Threshold(20_000.0 * k, 24_000.0, "smoothstep") for k in range(1, 16)]
    own, known = (
        compare_allocations(queries, PRIVACY, EVEN, 50_000)["partition"]
        for queries in ([SoftQuestion(Twin(query)) for query in row], list(map(SoftQuestion, row)))
    )
    assert own.kinds == known.kinds
    assert own.errors == known.errors


@dataclass(frozen=True)
class OwnRange(HardQuestion):
    """The share of values from `first` to `last`, said by its truth and its stand-ins alone."""

    first: float
    last: float

    @property
    def dimension(self):
        return 1

    @property
    def ends(self):
        return self.first, self.last

    def truth(self, points):
        return ((points > self.first) & (points <= self.last)).astype(float)

    def soft(self, width, step, inwards):
        return Range(self.first + inwards[0], self.last - inwards[0], width, step)


def test_a_hard_question_jumps_at_its_ends_within_reach_of_the_prior():
    points, weights = EVEN.nodes()
    for question, ends in (
        (HardThreshold(100_000.1), [100_000.1]),
        (HardRange(0.1, 0.3), [0.1, 0.3]),
        (OwnRange(777.7, 777.7000001), [777.7, 777.7000001]),
        (HardThreshold(5e6), []),
    ):
        assert Nodes(question, EVEN, points, weights).jumps.tolist() == ends
        for end in ends:
            around = np.array([end, np.nextafter(end, np.inf)])
            assert np.diff(question.truth(around)) != 0


def test_a_hard_question_of_ones_own_is_planned_on_its_jumps():
    question = OwnRange(50_000.0, 60_000.0)
    found = plan(question, PRIVACY, EVEN, 50_000, kinds=("DebiasedLaplace",)).choice
    share = found.prediction.bias + EVEN.expectation(question.truth, [50_000.0, 60_000.0])
    soft = EVEN.expectation(found.query.value, np.linspace(0, 1e6, 20_001).tolist())
    assert share == pytest.approx(soft, abs=1e-7)


def test_the_mesh_is_as_short_as_the_clearance_asks_everywhere():
    queries = [SoftQuestion(Twin(query)) for query in LINE]

    def clearance(x):
        return np.min([q.clearance(x) for q in queries], axis=0)

    edges = mesh(clearance, (-1e6, 2e6), near=800.0)
    inside = np.linspace(edges[:-1], edges[1:], 9)
    away = clearance(inside.ravel()).reshape(inside.shape).min(axis=0)
    assert (np.diff(edges) <= np.maximum(800.0, away) / 8).all()


@pytest.mark.parametrize("query", LINE, ids=lambda q: type(q).__name__)
def test_a_query_is_constant_within_its_clearance(query):
    """A twin sees to it that the contract's own answer is tested, whatever a class may say."""
    x = np.linspace(-3e5, 1.3e6, 4_001)
    room = Twin(query).clearance(x)
    assert (room > 0).any()
    for share in (-0.999, -0.5, 0.5, 0.999):
        assert np.abs(query.value(x + share * room) - query.value(x)).max() < 1e-8


def test_a_question_that_says_nothing_is_searched_everywhere():
    class Own(SoftQuestion):
        def clearance(self, points):
            return super(SoftQuestion, self).clearance(points)

    points, weights = nodes_near(Own(LINE[0]), EVEN, 8_000.0)
    assert weights.sum() == pytest.approx(1.0)
    assert np.diff(points).max() <= 8_000.0 / 16
