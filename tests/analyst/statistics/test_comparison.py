"""Test differences, ratios and trends against Monte Carlo, and their joint test.

2,000 campaigns know a standard error within 1.6 % (one of its own); 3 % is asked of the mean of
what is stated, and of 400 campaigns 8 %.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from geoveil.analyst.simultaneous import correlations_of, critical_value, scores_of
from geoveil.analyst.statistics.comparison import compare, holm
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.trends import trend
from geoveil.gp import ParameterError, Range, Threshold
from geoveil.gp.limits import UNLIMITED, Limits

from .populations import campaigns, incomes, joint_of, poor, truth

pytestmark = pytest.mark.usefixtures("few_draws")

QUERIES = [
    Threshold(60_000.0, 24_000.0, "smoothstep"),
    Threshold(80_000.0, 24_000.0, "smoothstep"),
    Range(20_000.0, 50_000.0, 20_000.0, "smoothstep"),
]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize(("count", "within"), [(400, 0.08), (2_000, 0.03)])
def test_errors_of_differences_and_ratios_are_those_of_monte_carlo(count, within):
    """Errors that take the two estimates as independent must fail for both."""
    made = [joint_of(QUERIES, points) for points in campaigns(incomes(), 1_000, count)]
    for kind in ("difference", "ratio"):
        found = [getattr(one, kind)(1, 0) for one in made]
        spread = np.std([one.value for one in found])
        assert np.mean([one.standard_error for one in found]) == pytest.approx(spread, rel=within)
        alone = [replace(one, covariance=np.diag(np.diag(one.covariance))) for one in made[:100]]
        wrong = np.mean([getattr(one, kind)(1, 0).standard_error for one in alone])
        assert wrong != pytest.approx(spread, rel=0.15)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("count", [60, 500])
def test_differences_between_campaigns_are_all_held_at_once(count):
    """Where nothing changed, Holm's rule finds a change in 5 % or less; p alone must not."""
    both = campaigns(incomes(), 1_000, 2 * count)
    inside, holm_wrong, alone_wrong = [], [], []
    for first, second in zip(both, both, strict=True):
        made = compare(joint_of(QUERIES, first), joint_of(QUERIES, second), people="different")
        inside.append(bool(((made.low <= 0) & (made.high >= 0)).all()))
        holm_wrong.append(bool((made.adjusted <= 0.05).any()))
        alone_wrong.append(bool((made.p_values <= 0.05).any()))
    assert sum(holm_wrong) <= sum(alone_wrong)
    if count < 100:
        assert sum(inside) >= 52
    else:
        assert 0.94 <= np.mean(inside) <= 0.98
        assert np.mean(holm_wrong) <= 0.06
        assert np.mean(alone_wrong) > 0.08


def test_three_periods_are_one_family_with_the_covariances_of_neighbours():
    three = [joint_of(QUERIES, points) for points in campaigns(incomes(), 2_000, 3)]
    made = compare(*three, people="different", names=["May", "June", "July"])
    assert made.labels[0] == "June − May: q0"
    assert len(made.labels) == 6
    for row, (a, b) in enumerate(pairwise(three)):
        block = slice(3 * row, 3 * row + 3)
        assert made.values[block] == pytest.approx(b.values - a.values)
        error = np.sqrt(np.diag(a.covariance) + np.diag(b.covariance))
        assert made.standard_errors[block] == pytest.approx(error)
    half = (made.high - made.low)[0] / 2 / made.standard_errors[0]
    assert 2.3 < half < 2.7  # Šidák for six: 2.63
    first = compare(*three, people="different", to_first=True)
    assert first.values[3:] == pytest.approx(three[2].values - three[0].values)


def test_the_same_people_may_err_by_the_sum():
    a, b = (joint_of(QUERIES, points) for points in campaigns(incomes(), 2_000, 2))
    made = compare(a, b, people="same")
    assert made.standard_errors == pytest.approx(a.standard_errors + b.standard_errors)
    different = compare(a, b, people="different")
    assert (made.low < different.low).all()
    assert (made.p_values > different.p_values).all()
    assert "at most" in made.notes[2]
    again = compare(a, a, people="same")  # the very same reports: nothing differs
    assert (again.p_values == 1).all()


def test_differences_do_not_collapse_where_hardly_anybody_is():
    """Nobody in either sample: neither interval is 0 wide, and nothing is significant."""
    rare = [Threshold(90_000.0, 24_000.0, "smoothstep")]
    nobody = [joint_of(rare, np.full(50, 10_000.0)) for _ in range(2)]
    made = compare(*nobody, people="different")
    assert made.standard_errors.tolist() == [0]
    assert made.low[0] < 0 < made.high[0]
    assert made.adjusted.tolist() == [1]
    assert truth(rare, poor())[0] < made.high[0]


@pytest.mark.parametrize(("farthest", "most"), [(2.1, 10), (9.3, 31)])
def test_scores_take_only_the_margins_that_reach_the_values(farthest, most):
    """Margins are normal ones, 0.1 wide; those of curves by group take 0.2 s at each confidence."""
    asked = []

    def margins(confidence):
        asked.append(confidence)
        return np.full((2, 3), 0.1 * stats.norm.ppf((1 + confidence) / 2))

    scores = scores_of(np.array([0.1, -0.1 * farthest, 0.0]), margins)
    assert scores == pytest.approx([1, farthest, 0], abs=1e-3)
    assert len(asked) == most


def test_holm_is_the_rule_by_its_definition():
    """Against closed testing: each p is the largest of Bonferroni's over all sets that hold it."""
    p = np.random.default_rng(3).uniform(0.02, 0.9, 6)
    sets = [[i for i in range(6) if mask >> i & 1] for mask in range(1, 64)]
    for i, found in enumerate(holm(p).tolist()):
        closed = max(len(s) * min(p[s]) for s in sets if i in s)
        assert found == pytest.approx(min(closed, 1.0))


def line(values: list[float], error: float = 0.01) -> list[JointEstimates]:
    (one,) = (joint_of(QUERIES[:1], points) for points in campaigns(incomes(), 1_000, 1))
    return [
        replace(one, values=np.array([value]), covariance=np.array([[error**2]]))
        for value in values
    ]


def test_trends_are_lines_of_weighted_least_squares():
    """Against NumPy's of each mean by itself, with margins that differ; and Cochran's Q of each."""
    rng, times = np.random.default_rng(5), [0.0, 1.0, 3.0, 4.0]
    values = 0.2 + 0.03 * np.arange(4)[:, None] * [1, 2, 0] + rng.normal(0, 0.02, (4, 3))
    errors = rng.uniform(0.01, 0.03, (4, 3))
    errors[1] = [0.1, 0.01, 0.01]
    (of,) = (joint_of(QUERIES, points) for points in campaigns(incomes(), 1_000, 1))
    given = [
        replace(of, values=row, covariance=np.diag(error**2))
        for row, error in zip(values, errors, strict=True)
    ]
    level = float(1 - 2 * stats.norm.sf(1))
    spreads = np.array([of.margins_at(level).max(axis=0) for of in given])
    assert spreads == pytest.approx(errors, rel=0.05)
    usual = np.median(spreads, axis=0)  # by as many people each
    weighed, spreads = np.maximum(spreads / 3, usual), np.maximum(spreads, usual)
    assert (weighed > usual).any()
    made = trend(*given, people="different", times=times)
    assert made.title == "3 trends over 4 times"
    for mean in range(3):
        fitted = np.polyfit(times, values[:, mean], 1, w=1 / weighed[:, mean])
        assert made.values[mean] == pytest.approx(fitted[0])
        fitted = np.polyfit(times, values[:, mean], 1, w=1 / spreads[:, mean])
        away = (values[:, mean] - np.polyval(fitted, times)) / spreads[:, mean]
        assert made.bent[mean] == pytest.approx(stats.chi2.sf(away @ away, 2))
    # Rising times have their margin on the same side, falling ones on the other.
    at = np.array(times)
    middle = np.average(np.tile(at[:, None], 3), axis=0, weights=weighed**-2)
    of_each = (at[:, None] - middle) / weighed**2
    slopes = of_each / np.sum(of_each * at[:, None], axis=0)
    covariance = np.diag(np.sum((slopes * errors) ** 2, axis=0))
    assert made.standard_errors == pytest.approx(np.sqrt(np.diag(covariance)))
    critical = critical_value(correlations_of(covariance), 0.95)
    confidence = float(2 * stats.norm.cdf(critical) - 1)
    below, above = np.array([estimate.margins_at(confidence) for estimate in given]).swapaxes(0, 1)
    assert not np.allclose(below, above)
    low, high = np.where(slopes > 0, below, above), np.where(slopes > 0, above, below)
    assert made.low == pytest.approx(made.values - np.sqrt(np.sum((slopes * low) ** 2, axis=0)))
    assert made.high == pytest.approx(made.values + np.sqrt(np.sum((slopes * high) ** 2, axis=0)))
    assert made.first.tolist() == values[0].tolist()
    assert made.last.tolist() == values[-1].tolist()
    assert made.of_shares == (True, True, True)
    assert (made.n, made.counts) == (4_000, (1_000,) * 4)
    worst = trend(*line([0.2, 0.25, 0.33]), people="same")
    assert worst.standard_errors == pytest.approx(0.01)  # (0.01 + 0.01) / 2
    assert worst.title == "1 trend over 3 times"
    assert np.isnan(worst.bent).all()
    assert any("are taken as dependent at worst" in note for note in worst.notes)
    assert any("are taken as independent" in note for note in made.notes)


@pytest.mark.parametrize(
    ("line", "people"),
    [
        (np.linspace(0.99, 0.001, 60), np.full(60, 300)),
        (np.linspace(0.01, 0.2, 60), np.full(60, 300)),
        (np.full(60, 0.05), np.geomspace(100, 1_000, 60).astype(int)),
    ],
)
def test_the_weights_of_a_trend_do_not_follow_the_errors_of_shares(line, people):
    """The shares of people are on a line; each is told twice, a standard error above it and one
    below it. The slope is within a tenth of its standard error of the line's. The control takes
    weights from the standard errors, of which none is less than the usual one."""
    times, n = np.linspace([0.0, 1e-6], [59.0, 59.000001], 60).ravel(), np.repeat(people, 2)
    error = np.sqrt(line * (1 - line) / people)
    (of,) = (joint_of(QUERIES[:1], points) for points in campaigns(incomes(), 300, 1))
    of = replace(of, limits=(Limits((0.0, 1.0), (0.0, 1.0)),))
    found = np.clip(np.stack([line + error, line - error], axis=1).ravel(), 1 / n, 1 - 1 / n)
    errors = np.sqrt(found * (1 - found) / (n - 1))
    told = zip(found, errors, n.tolist(), strict=True)
    given = [
        replace(of, values=np.array([m]), covariance=np.array([[e**2]]), n=k) for m, e, k in told
    ]
    made = trend(*given, people="different", times=times)
    true = (line[-1] - line[0]) / 59
    usual = np.median(errors * np.sqrt(n)) / np.sqrt(n) * (line[0] < 0.9)
    alone = np.polyfit(times, found, 1, w=1 / np.maximum(errors, usual))[0]
    assert abs(made.values[0] - true) < 0.1 * made.standard_errors[0]
    assert abs(alone - true) > 0.25 * made.standard_errors[0]


def test_few_equal_answers_hardly_move_a_trend():
    """Two at one time, 200 at four others, of unchanging people. Control: their error of 0."""
    (many,) = (joint_of(QUERIES[:1], points) for points in campaigns(incomes(), 200, 1))
    at, two = np.array([0.3]), {"n": 2, "covariance": np.zeros((1, 1))}
    given = [replace(many, values=at) for _ in range(5)]
    given[1] = replace(many, values=np.array([1.0]), **two)
    made = trend(*given, people="same")
    assert 0 < abs(made.values[0]) < 0.3 * many.standard_errors[0]
    weights = [1.0, 1_000.0, 1.0, 1.0, 1.0]
    assert abs(np.polyfit(range(5), [0.3, 1.0, 0.3, 0.3, 0.3], 1, w=weights)[0]) > 0.1
    # Without limits they say nothing, unless no two other times do.
    given = [replace(each, limits=(UNLIMITED,)) for each in given]
    assert trend(*given, people="same").values[0] == pytest.approx(0.0, abs=1e-12)
    assert trend(*given[:2], people="same").values[0] == pytest.approx(0.7)


def test_trends_of_shares_and_amounts_are_told_in_few_figures():
    risen = [0.20123, 0.25345, 0.33456]
    shares = trend(*line(risen), people="different")
    assert str(shares.sentences[0]) == (
        "“q0” rose from 20.1 % to 33.5 % over 3 periods, by 6.7 % points a period"
        " (5.3 to 8; p < 0.001)."
    )
    fallen = trend(*line(risen[::-1]), people="different")
    assert "fell from 33.5 % to 20.1 % over 3 periods, by -6.7 % " in str(fallen.sentences[0])
    amounts = [
        replace(of, values=of.values * 1e5, covariance=of.covariance * 1e10, limits=(UNLIMITED,))
        for of in line([0.20123, 0.25345, 0.23456])
    ]
    assert str(trend(*amounts, people="different").sentences[0]) == (
        "“q0” rose from 20,100 to 23,500 over 3 periods, by 1,700 a period"
        " (280 to 3,100; p = 0.019)."
    )
    just = replace(shares, adjusted=np.array([1 - 0.95]))
    assert "“q0” rose from 20.1 % to 33.5 % " in str(just.sentences[0])
    unsure = replace(shares, adjusted=np.array([0.0501]))
    assert "“q0” went from 20.1 % to 33.5 % " in str(unsure.sentences[0])
    assert str(unsure.sentences[0]).endswith(", which may be chance).")
    (row,) = shares.rows()
    assert (row["slope"], row["p_line"]) == (shares.values[0], shares.bent[0])


def test_what_does_not_lie_on_a_line_is_said_to_be_bent():
    assert trend(*line([0.2, 0.3, 0.4, 0.5]), people="different").bent[0] == pytest.approx(1)
    assert trend(*line([0.2, 0.5, 0.5, 0.2]), people="different").bent[0] < 1e-9
    for value in np.linspace(0.1, 0.9, 20).tolist():
        assert np.isnan(trend(*line([0.2, value]), people="different").bent[0])


def test_the_slopes_of_trends_are_all_held_at_once():
    """100 times four periods of one population: at least 88 of 100 hold (chance: 1 in 300)."""
    all_ = [joint_of(QUERIES, points) for points in campaigns(incomes(), 500, 400)]
    held = 0
    for start in range(0, 400, 4):
        made = trend(*all_[start : start + 4], people="different")
        held += bool(((made.low <= 0) & (made.high >= 0)).all())
    assert held >= 88


def test_what_cannot_be_compared_is_refused():
    a, b = (joint_of(QUERIES, points) for points in campaigns(incomes(), 100, 2))
    with pytest.raises(ParameterError, match="two or more"):
        compare(a, people="different")
    with pytest.raises(ParameterError, match="labels"):
        compare(a, replace(b, labels=("x", "y", "z")), people="different")
    with pytest.raises(ParameterError, match="confidence"):
        compare(a, replace(b, confidence=0.9), people="different")
    with pytest.raises(ParameterError, match="'different', 'same'"):
        compare(a, b, people="others")
    with pytest.raises(ParameterError, match="names"):
        compare(a, b, people="same", names=["one"])
    with pytest.raises(ParameterError, match="times"):
        trend(a, b, b, people="same", times=[0.0, 1.0, 1.0])
    with pytest.raises(ParameterError, match="labels"):
        trend(a, replace(b, labels=("x", "y", "z")), people="different")


def test_a_trend_holds_with_the_most_false_reports_of_any_time():
    first, second = line([0.2, 0.3])
    half = (Limits((-1.0, 2.0), (0.0, 0.5)),)
    made = trend(first, replace(second, contamination=0.01, limits=half), people="different")
    assert any(note.startswith("Intervals hold also if 1 % ") for note in made.notes)
    assert made.of_shares == (True,), "as at the first time"
