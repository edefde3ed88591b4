"""Test that no score is rounded on input; scores by name; margins of counts."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

from geoveil.gp import ParameterError, PrivateValueError, SeededSource
from geoveil.selection import (
    ExponentialMechanism,
    LocalDampening,
    LocalUtilities,
    PermuteAndFlip,
    ReportNoisyMax,
    SmoothUtilities,
    StabilityMechanism,
    Utilities,
    count_margin,
)

BIG = 2**53 + 1
LOST: dict[str, Any] = {
    "integers": [BIG, 2**53],
    "an integer beside a fraction": [BIG, 0.5],
    "int64": np.array([BIG, 0]),
    "integers of two kinds": [np.uint64(2**63 + 1), np.int64(-1)],
    "beyond doubles": [10**400, 0],
    "a range": range(BIG, BIG + 2),
    "a buffer": np.array([BIG, 0]).data,
    "fractions": [Fraction(1, 3), 0],
    "truth values": [True, 0.5],
    "text": ["1", 0.5],
}
if np.finfo(np.longdouble).nmant > 52:
    LOST["long doubles"] = np.array([np.longdouble(1) + np.longdouble(2) ** -60, 0])
    LOST["long doubles in a list"] = [np.longdouble(1) / 3, 0]
KEPT: dict[str, Any] = {
    "integers": [2**60, 2**53 + 2],
    "large": [2**70, 0.5],
    "uint64": np.array([2**63, 0], dtype=np.uint64),
    "int64": np.array([-(2**63), 0]),
    "float32": np.array([0.1, 3], dtype=np.float32),
    "float32 in a list": [np.float32(0.1), 2],
    "fractions": [Fraction(1, 4), 3],
    "decimals": [Decimal("0.5"), 3],
    "long doubles": np.array([0.25, 3], dtype=np.longdouble),
    "a range": range(2),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_score_that_no_double_holds_is_refused(kind):
    values = LOST[kind]
    wide = [[v, v] for v in values]
    for use in (
        lambda: PermuteAndFlip(1.0, 1.0).select(values),
        lambda: ReportNoisyMax(1.0, 1.0).select(values, gap=True),
        lambda: ExponentialMechanism(1.0, 1.0).probabilities(values),
        lambda: PermuteAndFlip(1.0, 1.0).select(dict(enumerate(values))),
        lambda: SmoothUtilities(values, 1.0, beta=1.0),
        lambda: SmoothUtilities([1.0], next(iter(values)), beta=1.0),
        lambda: LocalUtilities([1.0, 2.0], wide),
        lambda: LocalDampening(1.0, 2.0**80).probabilities(
            LocalUtilities([1.0, 2.0], lambda _: values)
        ),
    ):
        with pytest.raises(PrivateValueError, match="hold") as caught:
            use()
        assert str(BIG) not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("kind", KEPT)
def test_a_score_that_a_double_holds_is_kept(kind):
    found = Utilities(KEPT[kind]).values.tolist()
    given = [v if isinstance(v, (int, Fraction, Decimal)) else v.item() for v in _list(KEPT[kind])]
    assert [Fraction(v) for v in found] == [Fraction(*v.as_integer_ratio()) for v in given]


def _list(values: Any) -> list[Any]:
    """Return the elements as they were given, floats as NumPy's."""
    return [np.float64(v) if type(v) is float else v for v in values]


def test_rounded_scores_would_lose_more_than_epsilon():
    """The control: what NumPy makes of two databases whose scores differ by 1."""
    mechanism = PermuteAndFlip(1.0, 1.0, monotone=True)
    x, y = (
        mechanism.probabilities(np.array([n, 2**53], dtype=np.float64)) for n in (BIG, 2**53 + 2)
    )
    assert np.abs(np.log(x / y)).max() > 1.0
    # An error of at most 1 in each is what a sensitivity of 1 + 2 pays for, as the docs say.
    wider = PermuteAndFlip(1.0, 1.0 + 2, monotone=True)
    x, y = (wider.probabilities(np.array([n, 2**53], dtype=np.float64)) for n in (BIG, 2**53 + 2))
    assert np.abs(np.log(x / y)).max() <= 1.0


@pytest.mark.parametrize("number", [Fraction(1, 3), Fraction(2, 3), Decimal("0.1"), 0.3])
def test_parameters_are_rounded_to_the_private_side(number):
    mechanism = PermuteAndFlip(number, sensitivity=number)
    assert Fraction(mechanism.epsilon) <= Fraction(number) <= Fraction(mechanism.sensitivity)
    near = (mechanism.epsilon, mechanism.sensitivity)
    assert near[1] in (near[0], math.nextafter(near[0], 1))
    dampening = LocalDampening(1.0, number)
    assert Fraction(dampening.sensitivity or 0.0) >= Fraction(number)
    assert Fraction(SmoothUtilities([0.0], 1.0, beta=number).beta) >= Fraction(number)


def test_an_integer_parameter_that_no_double_holds_is_refused():
    with pytest.raises(ParameterError, match=r"sensitivity must be .* that a double holds exactly"):
        PermuteAndFlip(1.0, sensitivity=BIG)


# Scores by name

VOTES = {"bus": 22, "tram": 8, "bicycle": 17}


def test_a_dict_is_answered_by_its_keys():
    mechanism = PermuteAndFlip(0.3, 1.0)
    bare = list(VOTES.values())
    for seed in range(20):
        index = mechanism.select(bare, SeededSource(seed))
        assert mechanism.select(VOTES, SeededSource(seed)) == list(VOTES)[index]
    drawn = mechanism.select_many(bare, 50, SeededSource(3))
    named = mechanism.select_many(VOTES, 50, SeededSource(3))
    assert named == [list(VOTES)[r] for r in drawn]
    assert set(named) == set(VOTES)
    assert (mechanism.probabilities(VOTES) == mechanism.probabilities(bare)).all()
    noisy = ReportNoisyMax(0.3, 1.0)
    lead = noisy.select(VOTES, SeededSource(1), gap=True)
    unnamed = noisy.select(bare, SeededSource(1), gap=True)
    assert lead.outcome == list(VOTES)[unnamed.outcome]
    assert lead.steps == unnamed.steps


def test_a_dict_without_a_key_or_for_another_kind_is_refused():
    with pytest.raises(ParameterError, match="utilities"):
        PermuteAndFlip(1.0, 1.0).select({})
    with pytest.raises(ParameterError, match="scores must be Margin"):
        StabilityMechanism(1.0).select(VOTES)
    with pytest.raises(PrivateValueError):
        PermuteAndFlip(1.0, 1.0).select(cast(Any, {"a": "22", "b": 1}))


# Margins of counts


def test_the_margin_of_counts_is_public():
    margin = count_margin(list(VOTES.values()))
    assert (margin.winner, margin.margin, margin.outcomes) == (0, 6, 3)
    assert count_margin(np.array([3.0, 5.0])).margin == 2
    assert StabilityMechanism(50.0).select(margin, SeededSource(1)) == 0


@pytest.mark.parametrize("counts", [[22.7, 3], [BIG, 3], [-1, 3], [[1, 2]], ["1", "2"]])
def test_what_is_no_count_is_refused_unseen(counts):
    with pytest.raises((PrivateValueError, ParameterError)) as caught:
        count_margin(counts)
    assert "22" not in str(caught.value)
