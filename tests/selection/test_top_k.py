"""Test the k best of m: the law by enumeration, leads, promises, refusals."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from geoveil.gp import ParameterError, SeededSource
from geoveil.gp.errors import PrivateValueError
from geoveil.selection import ReportNoisyMax, top_k

SCORES = np.array([0.0, 2.0, 1.0, 2.5])
EPSILON, DRAWS, Z = 2.0, 2_000, 5.0
"""12 pairs, two variants: α < 2e-5 in all."""


def law(epsilon: float, *, monotone: bool) -> dict[tuple[int, int], float]:
    """Return the probability of each pair, first choice first, by all orders of coins [PF Alg. 2].

    Not by the mechanism under test.
    """

    def one(among: list[int]) -> dict[int, float]:
        rate = epsilon / 2 / (1 if monotone else 2)
        best = SCORES[among].max()
        found = dict.fromkeys(among, 0.0)
        orders = list(permutations(among))
        for order in orders:
            left = 1.0
            for outcome in order:
                heads = np.exp(rate * (SCORES[outcome] - best))
                found[outcome] += left * heads / len(orders)
                left *= 1 - heads
        return found

    everybody = list(range(len(SCORES)))
    return {
        (a, b): p * q
        for a, p in one(everybody).items()
        for b, q in one([r for r in everybody if r != a]).items()
    }


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("gap", "monotone"), [(False, True), (True, False)])
def test_choices_have_the_law_of_permute_and_flip_one_after_the_other(gap, monotone):
    bits = SeededSource(7)
    counts = Counter(
        top_k(
            SCORES, 2, epsilon=EPSILON, sensitivity=1.0, monotone=monotone, gap=gap, source=bits
        ).outcomes
        for _ in range(DRAWS)
    )
    exact = law(EPSILON, monotone=monotone)
    assert sum(exact.values()) == pytest.approx(1)
    other = law(2 * EPSILON, monotone=monotone)

    def fits(expected: dict[tuple[int, int], float]) -> bool:
        return all(
            abs(counts[pair] / DRAWS - p) < Z * np.sqrt(p * (1 - p) / DRAWS)
            for pair, p in expected.items()
        )

    assert fits(exact)
    assert not fits(other)  # the control


def test_leads_are_those_of_the_mechanism_that_chose():
    found = top_k(SCORES, 3, epsilon=3.0, sensitivity=1.0, gap=True, source=SeededSource(2))
    assert [lead.outcome for lead in found.leads] == list(found.outcomes)
    assert all(lead.steps >= 0 for lead in found.leads)
    mechanism, bits, among = ReportNoisyMax(1.0, 1.0), SeededSource(2), [0, 1, 2, 3]
    for lead in found.leads:
        again = mechanism.select(SCORES[among], bits, gap=True)
        assert (among.pop(again.outcome), again.steps) == (lead.outcome, lead.steps)
    assert not top_k(SCORES, 2, epsilon=1.0, sensitivity=1.0, source=SeededSource(1)).leads


def test_large_scores_come_out_in_order_and_by_name():
    votes = {"bus": 10.0, "tram": 4_000.0, "bicycle": 2_000.0, "foot": 0.0}
    found = top_k(votes, 2, epsilon=1.0, sensitivity=1.0, source=SeededSource(1))
    assert found.outcomes == ("tram", "bicycle")
    everything = top_k([0.0, 9_000.0], 2, epsilon=1.0, sensitivity=1.0, source=SeededSource(1))
    assert everything.outcomes == (1, 0)


def test_the_promise_is_that_of_all_choices_together():
    for gap in (False, True):
        found = top_k(SCORES, 3, epsilon=0.7, sensitivity=1.0, gap=gap, source=SeededSource(1))
        assert found.guarantee.epsilon == 0.7
        assert "3 choices at ε/3 each" in found.guarantee.statement
        alone = top_k(SCORES, 1, epsilon=0.7, sensitivity=1.0, gap=gap, source=SeededSource(1))
        assert alone.guarantee.statement.startswith("one choice at ε, for: ")


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"k": 0}, "k"),
        ({"k": 5}, "k"),
        ({"k": 4, "gap": True}, "k"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"sensitivity": -1.0}, "sensitivity"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, parameter):
    arguments = {"k": 2, "epsilon": 1.0, "sensitivity": 1.0, "gap": False} | changes
    with pytest.raises(ParameterError, match=parameter):
        top_k(SCORES, **arguments)


def test_utilities_that_are_no_numbers_are_not_shown():
    with pytest.raises(PrivateValueError) as refused:
        top_k([1.5, float("nan")], 1, epsilon=1.0, sensitivity=1.0)
    assert "1.5" not in str(refused.value)
