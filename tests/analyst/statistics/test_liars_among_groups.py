"""False reports that say of which group they are: against the worst liars, found by enumeration."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from geoveil.analyst import (
    Contaminated,
    GroupEstimates,
    JointEstimates,
    Means,
    Quantiles,
    ReportRows,
    Reports,
    compare,
    reports_of,
    trend,
)
from geoveil.analyst.contamination import at_most
from geoveil.analyst.statistics.labelled_groups import groups_of, heaviest
from geoveil.analyst.statistics.strata import weighted
from geoveil.campaign import PointQuestion, Strata
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.gp.estimation import Accumulator
from geoveil.gp.intervals import Limits
from geoveil.gp.labels import RandomizedLabels

from .populations import NOISE, PRIVACY, campaign

LABELS = ("north", "middle", "south")
LIMITS = Limits((-1.0, 2.0), (0.0, 1.0))
WIDTH = 3.0
ABOVE = Threshold(60_000.0, 24_000.0, "smoothstep")
QUESTION = PointQuestion("above", ABOVE)


def one(values: Any) -> JointEstimates:
    """Return the mean of reports between −1 and 2."""
    return JointEstimates(
        labels=("a",),
        values=np.array([np.mean(values)]),
        covariance=np.array([[np.var(values, ddof=1) / len(values)]]),
        n=len(values),
        confidence=0.95,
        limits=(LIMITS,),
        privacy=GeoPrivacy(1.0, per=1.0, unit="year"),
    )


@pytest.mark.parametrize("liars", [1, 2, 3, 5])
def test_the_worst_liars_move_a_weighted_mean_to_the_bound_and_no_further(liars: int) -> None:
    """All ways of so many liars among 12, 6 and 2 reports, whose honest mean is at the end."""
    counts, shares = (12, 6, 2), [0.3, 0.3, 0.4]
    worst, bound = 0.0, set()
    for lying in itertools.product(*(range(n + 1) for n in counts)):
        if sum(lying) != liars:
            continue
        told = [one([2.0] * k + [-1.0] * (n - k)) for n, k in zip(counts, lying, strict=True)]
        made = weighted(shares, told)
        assert isinstance(made, JointEstimates)
        worst = max(worst, float(made.values[0]) - -1.0)
        bound.add(round(float(replace(made, contamination=liars / 20).moved[0]), 12))
    assert len(bound) == 1
    assert worst == pytest.approx(bound.pop())
    assert worst > 1.5 * WIDTH * liars / 20  # the control: as if all reports counted the same


def test_what_reports_with_randomised_labels_count_is_the_worst_of_all() -> None:
    """Over all labels, ends of a report, and means of the groups."""
    rng = np.random.default_rng(1)
    for epsilon in (0.5, 2.0):
        towards = RandomizedLabels(3, epsilon).towards
        counted = rng.normal(size=3)[:, None] * towards
        for label, most in enumerate(heaviest(counted).tolist()):
            worst = max(
                abs(float(counted[:, label] @ (y - np.array(means))))
                for y in (-1.0, 2.0)
                for means in itertools.product((-1.0, 2.0), repeat=3)
            )
            assert WIDTH * most == pytest.approx(worst)


def test_all_reports_of_a_rare_group_may_be_false() -> None:
    assert at_most(0.1, ((0.05, 4.0), (0.95, 0.5))) == pytest.approx(0.05 * 4 + 0.05 * 0.5)
    assert at_most(0.0, ((1.0, 1.0),)) == 0.0


def held(rng: np.random.Generator, epsilon: float | None, counts: Any, lies: float) -> Reports:
    """Return reports of which a fraction says what moves "above" most, all of the last group."""
    of = campaign(strata=Strata(name="region", labels=LABELS, epsilon=epsilon))
    labels = np.repeat(np.arange(3), counts)
    x = rng.lognormal(11.0, 0.8, len(labels))
    points = x + rng.laplace(0.0, 1 / PRIVACY.rate, len(x))
    if epsilon is not None:
        truth = float(RandomizedLabels(3, epsilon).truth)
        told = rng.random(len(x)) < truth
        labels = np.where(told, labels, (labels + rng.integers(1, 3, len(x))) % 3)
    who = rng.permutation(len(x))[: round(lies * len(x))]
    points[who], labels[who] = WORST, 2
    sent = np.rint(points / of.point_mechanism.step).astype(np.int64)
    rows = ReportRows(np.zeros(len(x), np.uint32), None, (sent,), labels.astype(np.uint32))
    return reports_of(rows, of)


GRID = np.linspace(30_000.0, 90_000.0, 3_001)
WORST = GRID[np.argmax(NOISE.estimator(ABOVE, debias=True).value(GRID))]
TRUTH = float(ABOVE.value(np.random.default_rng(0).lognormal(11.0, 0.8, 2_000_000)).mean())
SIZES = {"north": 0.3, "middle": 0.3, "south": 0.4}
COUNTS, FRACTION = (1_200, 700, 100), 0.01


@pytest.mark.parametrize("epsilon", [None, 2.0])
@pytest.mark.parametrize("count", [12, pytest.param(120, marks=pytest.mark.deep)])
def test_intervals_hold_although_liars_choose_their_group(
    count: int, epsilon: float | None
) -> None:
    """At 95 %, less three standard errors; trusted, or all counted alike, they hold in few."""
    rng = np.random.default_rng(4)
    least = 0.95 - 3 * np.sqrt(0.05 * 0.95 / count)
    asked = Means([QUESTION])
    hits = dict.fromkeys(("weighted", "south", "table", "together", "trusted", "alike"), 0)
    for _ in range(count):
        counts = np.array(COUNTS) * (1 if epsilon is None else 4)
        reports = held(rng, epsilon, counts, FRACTION)
        doubted = reports.ask(Contaminated(asked, FRACTION), sizes=SIZES)
        south = reports.ask(Contaminated(asked, FRACTION), stratum="south")
        (table,) = reports.ask_by_group([QUESTION])
        together = table.contaminated(FRACTION).post_stratify(SIZES)
        low, high = table.contaminated(FRACTION).band()
        ends = {
            "weighted": doubted.intervals(),
            "south": south.intervals(),
            "table": (low, high),
            "together": ([together.ci_low], [together.ci_high]),
            "trusted": replace(south, contamination=0.0).intervals(),
            "alike": replace(south, weights=((1.0, 1.0),)).intervals(),
        }
        for name, (below, above) in ends.items():
            hits[name] += all(a <= TRUTH <= b for a, b in zip(below, above, strict=True))
    for name in ("weighted", "south", "table", "together"):
        assert hits[name] >= least * count, name
    assert hits["trusted"] <= 0.5 * count
    assert hits["alike"] <= 0.7 * count


def test_a_group_by_itself_has_its_part_of_the_reports() -> None:
    reports = held(np.random.default_rng(2), None, COUNTS, 0.0)
    south = reports.ask(Contaminated(Means([QUESTION]), FRACTION), stratum="south")
    width = np.diff(south.limits[0].reports)
    assert south.moved == pytest.approx(FRACTION * 2_000 / 100 * width)
    assert "count for 20 % here" in south.notes[-1]
    (table,) = reports.ask_by_group([QUESTION])
    (plain, doubted) = (t.differences().rows()[0] for t in (table, table.contaminated(FRACTION)))
    assert (plain["group"], plain["other"]) == ("middle", "north")
    most = FRACTION * 2_000 / 700 * float(width[0])
    assert doubted["ci_high"] - plain["ci_high"] == pytest.approx(most)
    assert plain["ci_low"] - doubted["ci_low"] == pytest.approx(most)
    assert doubted["p_value"] >= plain["p_value"]


@pytest.mark.deep
def test_medians_of_groups_and_their_differences_are_wider() -> None:
    reports = held(np.random.default_rng(2), None, COUNTS, 0.0)
    median = Quantiles(levels=[0.5])
    plain, doubted = (reports.ask_by_group(a) for a in (median, Contaminated(median, FRACTION)))
    for label in LABELS:
        (thin,), (wide,) = (found[label].rows() for found in (plain, doubted))
        assert wide["ci_low"] < thin["ci_low"]
        assert wide["ci_high"] > thin["ci_high"]
    (thin,), (wide,) = (found.differences() for found in (plain, doubted))
    assert (wide.ci_low < thin.ci_low).all()
    assert (wide.ci_high > thin.ci_high).all()
    assert "of any group" in wide.notes[-1]
    assert sum("of any group" in note for note in doubted.notes) == 1
    rare = reports.ask_by_group(Contaminated(median, 0.06))  # all of the south may be false
    assert rare["south"].rows()[0]["ci_high"] == np.inf
    assert np.isinf(rare.differences()[0].ci_high[1:]).all()


def test_a_ratio_with_liars_is_that_of_the_worst_of_them() -> None:
    """The union of the intervals over all that liars can have taken away, on a grid of it.

    A little more: how far an imagined report is from the mean does not change with what is taken.
    """
    c = np.array([[4e-4, 1e-4], [1e-4, 3e-4]])
    told: dict[str, Any] = {"labels": ("a", "b"), "covariance": c, "n": 1_000, "confidence": 0.95}
    signed = Limits((-2.0, 2.0), (-1.0, 1.0))
    told |= {"limits": (signed, signed), "privacy": GeoPrivacy(1.0, per=1.0, unit="year")}
    for values in ([0.3, 0.6], [0.001, 0.5], [-0.2, 0.5], [0.3, -0.6]):
        found = JointEstimates(values=np.array(values), **told, contamination=0.01)
        moved = found.moved[0]
        ends = []
        for off in itertools.product(np.linspace(-moved, moved, 5), repeat=2):
            honest = JointEstimates(values=np.array(values) + off, **told).ratio("a", "b")
            ends.append((honest.ci_low, honest.ci_high))
        made = found.ratio("a", "b")
        lowest, highest = min(low for low, _ in ends), max(high for _, high in ends)
        assert made.ci_low <= lowest + 1e-9
        assert made.ci_high >= highest - 1e-9
        assert made.ci_high - made.ci_low <= 1.001 * (highest - lowest)
    found = JointEstimates(values=np.array([0.3, 0.05]), **told, contamination=0.01)
    assert found.ratio("a", "b").ci_high == np.inf


def test_comparisons_and_trends_hold_with_liars_in_each() -> None:
    rng = np.random.default_rng(5)
    several = [one(rng.uniform(-1.0, 2.0, 400) + shift) for shift in (0.0, 0.2, 0.4)]
    doubted = [replace(found, contamination=0.02) for found in several]
    thin, wide = (compare(*found, people="different") for found in (several, doubted))
    assert thin.low - wide.low == pytest.approx([2 * 0.02 * WIDTH] * 2)
    assert wide.high - thin.high == pytest.approx([2 * 0.02 * WIDTH] * 2)
    assert (wide.p_values > thin.p_values).all()
    assert "2 % of the reports say anything" in wide.notes[-1]
    flat, doubtful = (trend(*found, people="same") for found in (several, doubted))
    weights = 1 / np.array([found.covariance[0, 0] for found in several])
    middle = weights @ [0, 1, 2] / weights.sum()
    slopes = weights * (np.arange(3) - middle)
    slopes /= slopes @ np.arange(3)
    assert flat.low - doubtful.low == pytest.approx(0.02 * WIDTH * np.abs(slopes).sum())


def test_what_nothing_bounds_is_refused() -> None:
    groups = GroupEstimates.independent({"a": 0.3, "b": 0.4}, {"a": 0.01, "b": 0.01})
    with pytest.raises(ParameterError, match="contamination"):
        groups.contaminated(0.01)
    sums = (Accumulator(20, 3, 30), Accumulator(30, 9, 40))
    table: Any = groups_of(Strata(name="r", labels=("a", "b")), sums, 0, limits=LIMITS)
    for fraction in (-0.1, 1.0):
        with pytest.raises(ParameterError, match="contamination"):
            table.contaminated(fraction)
