"""Test groups against published critical values, brute force, and known populations."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from geoveil.analyst.statistics.groups import GroupEstimates
from geoveil.gp import ParameterError
from geoveil.gp.limits import Limits


def groups_of(values: dict[str, float], errors: dict[str, float]) -> GroupEstimates:
    """Return groups of different people."""
    return GroupEstimates(
        labels=tuple(values),
        values=np.array([*values.values()]),
        covariance=np.diag(np.square([*errors.values()])),
    )


def test_the_band_of_groups_holds_all_means_at_once():
    """Against Šidák for different people; narrower where errors go together."""
    apart = replace(
        groups_of(dict.fromkeys("abcd", 0.5), dict.fromkeys("abcd", 0.01)),
        limits=Limits((0, 1), (0, 1)),
    )
    low, high = apart.band()
    sidak = norm.ppf((1 + 0.95 ** (1 / 4)) / 2)
    assert (high - low) / 2 == pytest.approx(np.full(4, sidak * 0.01), rel=0.01)
    alike = replace(apart, covariance=np.full((4, 4), 1e-4))
    assert alike.band()[1] == pytest.approx(np.full(4, 0.5 + 1.96 * 0.01), rel=1e-4)
    row = apart.rows()[0]
    assert row["band_low"] < row["ci_low"] < row["ci_high"] < row["band_high"]


TRUE_MEANS = np.array([0.02, 0.3, 0.3, 0.5, 0.5])
NAMES = ("a", "b", "c", "d", "e")


def drawn_groups(rng: np.random.Generator, people: int) -> GroupEstimates:
    """Return groups of unlike sizes, of 0 and 1 with the noise of randomised response."""
    n = np.array([1.0, 0.5, 2.0, 1.0, 0.3]) * people
    values, errors = {}, {}
    for name, mean, size in zip(NAMES, TRUE_MEANS, n.astype(int), strict=True):
        y = np.where(rng.random(size) < 0.2 + 0.6 * mean, 0.8, -0.2) / 0.6
        values[name] = y.mean()
        errors[name] = y.std(ddof=1) / math.sqrt(size)
    return groups_of(values, errors)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("against", [None, "b"])
def test_differences_hold_all_at_once_and_single_ones_do_not(against):
    """300 tables of groups, α = 0.05: 95 % ± 1.3 % of sampling error; bounds at 2.5 of them.

    Control: intervals that hold one by one hold all at once far less often.
    """
    rng = np.random.default_rng(7)
    held = alone = wrong = 0
    equal = {("c", "b"), ("e", "d")}
    for _ in range(300):
        d = drawn_groups(rng, 1_000).differences(against)
        truth = np.array(
            [TRUE_MEANS[NAMES.index(i)] - TRUE_MEANS[NAMES.index(j)] for i, j in d.pairs]
        )
        held += bool(((d.low <= truth) & (truth <= d.high)).all())
        alone += bool((np.abs(d.values - truth) <= 1.96 * d.standard_errors).all())
        same = [pair in equal for pair in d.pairs]
        wrong += bool((d.p_values[same] < 0.05).any())
    assert 0.917 <= held / 300 <= 0.983
    assert alone / 300 < 0.88
    assert wrong / 300 < 0.083


def test_intervals_are_tukeys_and_dunnetts():
    """For five groups with one error the published critical values are 2.728 and 2.442."""
    groups = groups_of(dict.fromkeys(NAMES, 0.0), dict.fromkeys(NAMES, 1.0))
    named = replace(groups, question="above 100,000")
    assert named.title == "Estimates by group: above 100,000"
    for against, critical in ((None, 3.858 / math.sqrt(2)), ("a", 2.442)):
        d = groups.differences(against)
        assert d.high[0] / d.standard_errors[0] == pytest.approx(critical, rel=0.004)
    shifted = replace(groups, values=np.array([0, 0, 0, 0, 2.728 * math.sqrt(2)]))
    assert shifted.differences().p_values.min() == pytest.approx(0.05, rel=0.05)


def test_covariance_between_groups_counts():
    """Two estimates of one variance: their difference by brute force over correlated draws."""
    covariance = np.array([[0.04, 0.03], [0.03, 0.04]])
    groups = GroupEstimates(labels=("a", "b"), values=np.zeros(2), covariance=covariance)
    drawn = np.random.default_rng(3).multivariate_normal(np.zeros(2), covariance, 200_000)
    spread = (drawn[:, 1] - drawn[:, 0]).std()
    d = groups.differences()
    assert d.standard_errors[0] == pytest.approx(spread, rel=0.01)
    assert d.high[0] == pytest.approx(1.96 * spread, rel=0.01)
    whole = groups.post_stratify({"a": 1, "b": 1})
    assert whole.standard_error == pytest.approx(drawn.mean(axis=1).std(), rel=0.01)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda g: g.post_stratify({"a": 1}), "groups of the sizes must be"),
        (lambda g: g.post_stratify({"a": 1, "b": 0}), r"sizes\['b'\] must be"),
        (lambda g: g.differences("c"), "against must be one of 'a', 'b'"),
    ],
)
def test_what_groups_can_not_do_is_refused(call, expected):
    with pytest.raises(ParameterError, match=expected):
        call(groups_of({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.1}))


def test_results_are_rows():
    groups = groups_of({"a": 0.1, "b": 0.2}, {"a": 0.1, "b": 0.1})
    for result in (groups, groups.differences(), groups.post_stratify({"a": 1, "b": 2})):
        told = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert told["rows"]
        assert told["notes"]
    assert "hold at once" in groups.differences().notes[1]
