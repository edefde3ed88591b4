"""Test that means with a public range hold for everybody in it, and the note without one.

Campaigns of n people each, seeds 1 to R; the number whose interval holds the mean is compared with
a binomial at alpha = 1e-6. Student's interval, without the range, must fail.
"""

import numpy as np
import pytest
from scipy import stats

from geoveil.analyst import Contaminated, Gini, MeanValue, TopShare
from geoveil.analyst.statistics import statistic
from geoveil.gp import ParameterError
from tests.analyst.statistics.populations import PRIVACY, reports

ALPHA, CAMPAIGNS = 1e-6, 16
LOW, HIGH = 0.0, 10_000_000.0


def people():
    """Laws of values: (name, values of 100,000 people)."""
    rng = np.random.default_rng(37)
    rich = rng.uniform(20_000, 60_000, 100_000)
    rich[::1_000] = 9_000_000.0
    return {
        "one in a thousand holds most": rich,
        "pareto": np.minimum(20_000 * (1 + rng.pareto(1.3, 100_000)), HIGH),
        "log-normal": np.minimum(rng.lognormal(11, 0.8, 100_000), HIGH),
        "all equal": np.full(100_000, 40_000.0),
    }


def held(values, n, within, asked=MeanValue):
    """Return in how many campaigns the interval holds the truth, and whether any has no width."""
    count, truth = 0, float(values.mean())
    if asked is not MeanValue:
        ordered = np.sort(values)
        truth = float(ordered[-len(values) // 10 :].sum() / values.sum())
        if asked is Gini:
            above = 2 * np.arange(1, len(values) + 1) - len(values) - 1
            truth = float(above @ ordered / len(values) / values.sum())
    for seed in range(1, CAMPAIGNS + 1):
        rng = np.random.default_rng([seed, n])
        points = rng.choice(values, n) + rng.laplace(0.0, 1 / PRIVACY.rate, n)
        found = reports(points).ask(asked(within=within))
        assert found.ci_low < found.ci_high
        most = HIGH if asked is MeanValue else 1.0
        assert within is None or LOW <= found.ci_low <= found.ci_high <= most
        count += found.ci_low <= truth + 1e-9 and truth <= found.ci_high + 1e-9
    return count


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", people())
def test_it_holds_whoever_is_within(name):
    assert held(people()[name], 50, (LOW, HIGH)) >= stats.binom.ppf(ALPHA, CAMPAIGNS, 0.945)


@pytest.mark.deep
def test_students_interval_misses_whom_nobody_met():
    rich = people()["one in a thousand holds most"]
    assert held(rich, 50, None) < stats.binom.ppf(ALPHA, CAMPAIGNS, 0.945)


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("asked", [Gini, TopShare])
def test_inequality_holds_whoever_is_within(asked):
    """The control: without a range the intervals miss the rich whom nobody met."""
    least = stats.binom.ppf(ALPHA, CAMPAIGNS, 0.945)
    rich = people()["one in a thousand holds most"]
    assert held(rich, 50, (LOW, HIGH), asked) >= least
    assert held(people()["log-normal"], 500, (LOW, HIGH), asked) >= least
    assert held(rich, 50, None, asked) < least


@pytest.mark.deep
def test_inequality_counts_whom_nobody_met():
    """50 people rarely include the one in 1,000 who makes the coefficient .2, the share .28."""
    rng = np.random.default_rng(2)
    points = np.full(50, 40_000.0) + rng.laplace(0.0, 1 / PRIVACY.rate, 50)
    for asked, truth in ((Gini, 0.2), (TopShare, 0.28)):
        bare, sure = (reports(points).ask(asked(within=ends)) for ends in (None, (LOW, HIGH)))
        assert bare.ci_high < truth < sure.ci_high <= 1
        assert sure.value == bare.value
        assert any("nobody far out was missed" in note for note in bare.notes)
        assert any("all people with values from 0 to 1e+07" in note for note in sure.notes)


@pytest.mark.deep
def test_a_few_far_beyond_the_others_are_counted(monkeypatch):
    """Ten of 10,000 at 9,000,000: noise brings the share between to 0 in some campaigns.

    The control ends the search at the first share of 0. The noise of a mean is 113 here.
    """

    def farthest_off():
        off = []
        for seed in range(1, 9):
            rng = np.random.default_rng([seed, 10_000])
            values = rng.normal(40_000, 5_000, 10_000)
            values[:10] = 9_000_000.0
            points = values + rng.laplace(0.0, 1 / PRIVACY.rate, 10_000)
            off.append(abs(reports(points).ask(MeanValue()).value - values.mean()))
        return max(off)

    assert farthest_off() < 500
    monkeypatch.setattr(statistic, "span", lambda at, found: statistic.ends(at, found, 0.0))
    assert farthest_off() > 5_000


def test_what_is_assumed_is_said():
    rng = np.random.default_rng(1)
    points = rng.uniform(0, 90_000, 400) + rng.laplace(0.0, 1 / PRIVACY.rate, 400)
    bare, sure = (reports(points).ask(MeanValue(within=ends)) for ends in (None, (LOW, HIGH)))
    assert bare.value == sure.value
    assert "covers at 95 % if values have a finite variance" in bare.notes[-1]
    far = bare.value + 400 * bare.standard_error
    assert f"one of 400 people at {far:,.6g}" in bare.notes[-1]
    assert "The interval covers at 95 %." in sure.notes
    assert "all people with values from 0 to 1e+07" in sure.notes[-1]
    total = bare.scaled(1_000, "total")
    assert "finite variance" in total.notes[-1]
    # Liars can move a mean by what the range lets them say.
    with pytest.raises(ParameterError, match="contamination"):
        reports(points).ask(Contaminated(MeanValue(), 0.01))
    doubted = reports(points).ask(Contaminated(MeanValue(within=(LOW, HIGH)), 0.01))
    assert doubted.ci_high > sure.ci_high + 0.009 * HIGH


@pytest.mark.parametrize("within", [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (1.0,), "ab", 3])
def test_a_range_has_two_ends_in_order(within):
    with pytest.raises(ParameterError, match="within"):
        MeanValue(within=within)
