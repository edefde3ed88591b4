"""Test that the work of a selection (bits, calls, balls) does not depend on the scores."""

import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from geoveil.gp import RandomSource, SeededSource
from geoveil.gp.exact import BALL
from geoveil.selection import (
    HalfStudentT,
    LocalDampening,
    LocalUtilities,
    Margin,
    ReportNoisyMax,
    SmoothNoisyMax,
    SmoothPrivateSelection,
    SmoothUtilities,
)

OUTCOMES = 40
SHAPES = {
    "equal": np.zeros(OUTCOMES),
    "one far ahead": np.where(np.arange(OUTCOMES) == 7, 1e6, 0.0),
    "one ahead": np.where(np.arange(OUTCOMES) == 7, 3.0, 0.0),
    "two apart": np.where(np.arange(OUTCOMES) < 2, 0.0, -1e9),
    "a ladder": np.arange(OUTCOMES) * 0.75,
    "spread": np.random.default_rng(1).normal(size=OUTCOMES) * 5,
}


class Counted(RandomSource):
    """Seeded bits, and how many were drawn in how many pieces."""

    def __init__(self, seed: int) -> None:
        self._source = SeededSource(seed)
        self.drawn: list[int] = []

    def bits(self, count: int) -> int:
        self.drawn.append(count)
        return self._source.bits(count)


def calls(work: Callable[[], Any]) -> int:
    """Return how many functions are called, Python's and others."""
    count = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # it may call back
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def work_of(select: Callable[[RandomSource], Any], seed: int) -> tuple[int, int, int]:
    """Return the calls, bits and pieces of bits of a draw."""
    source = Counted(seed)
    counted = calls(lambda: select(source))
    return counted, sum(source.drawn), len(source.drawn)


def scores_of(make_scores: Any, mechanism: Any, shape: str) -> Any:
    if mechanism._kind is Margin:
        j = {"equal": 0, "one far ahead": 10**6, "one ahead": 3}.get(shape, 1)
        return Margin(int(SHAPES[shape].argmax()), j, OUTCOMES)
    return make_scores(SHAPES[shape])


def test_the_work_does_not_depend_on_the_scores(light_row):
    make, make_scores = light_row
    mechanism = make(0.8)
    cases = [scores_of(make_scores, mechanism, shape) for shape in SHAPES]
    mechanism.select(cases[0], Counted(1))  # caches of public numbers
    for seed in range(4):
        found = {work_of(partial(mechanism.select, c), seed) for c in cases}
        assert len(found) == 1, found


def test_nor_does_that_of_a_lead():
    for noise in ("exponential", "laplace", "gumbel"):
        mechanism = ReportNoisyMax(0.8, 1.0, noise)
        mechanism.select(SHAPES["equal"], Counted(1), gap=True)
        select = partial(mechanism.select, gap=True)
        for seed in range(4):
            found = {work_of(partial(select, u), seed) for u in SHAPES.values()}
            assert len(found) == 1, found


@pytest.mark.parametrize("settings", [{}, {"shifted": True}, {"replace": True}])
def test_a_table_is_gone_through_to_its_end(settings):
    """Utilities that a first change reaches, and that none of 30 does."""
    mechanism = LocalDampening(0.8, 1.5, **settings)
    table = np.sort(np.random.default_rng(2).random((30, OUTCOMES)), axis=0)
    cases = [LocalUtilities(np.full(OUTCOMES, u), table) for u in (0.0, 1e-3, 7.0, 1e6)]
    mechanism.select(cases[0], Counted(1))
    found = {work_of(partial(mechanism.select, c), 3) for c in cases}
    assert len(found) == 1, found


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(
    "make",
    [
        lambda: SmoothPrivateSelection(1.0, OUTCOMES),
        lambda: SmoothNoisyMax(1.0, OUTCOMES, HalfStudentT(3.0)),
    ],
)
def test_noise_without_a_formula_is_compared_for_as_many_outcomes(make, monkeypatch):
    """Four balls a draw, whatever the scores; of 300 draws at most 2 need a fifth."""
    mechanism = make()
    evaluated = 0
    inner = BALL.uniform

    def counted(numerator: int, count: int) -> Any:
        nonlocal evaluated
        evaluated += 1
        return inner(numerator, count)

    mechanism.select(SmoothUtilities(SHAPES["equal"], 1.0, beta=1e-9), Counted(1))
    monkeypatch.setattr(type(BALL), "uniform", lambda _, n, c: counted(n, c))
    more = 0
    for shape, values in SHAPES.items():
        scores = SmoothUtilities(values, 1.0, beta=1e-9)
        for seed in range(50):
            evaluated = 0
            source = Counted(seed)
            mechanism.select(scores, source)
            assert sum(source.drawn) == 128 * OUTCOMES
            assert evaluated >= 4, shape
            more += evaluated > 4
    assert more <= 2


def test_coins_in_random_order_are_told_apart():
    """The control: permute-and-flip as it is defined stops at the first heads."""

    def flip(values: np.ndarray, source: RandomSource) -> int:
        order = list(range(len(values)))
        for left in range(len(order), 0, -1):
            pick = source.below(left)
            outcome, order[pick] = order[pick], order[left - 1]
            if source.bits(53) < 2**53 * np.exp(values[outcome] - values.max()):
                return outcome
        raise AssertionError

    found = [work_of(partial(flip, u), 1) for u in SHAPES.values()]
    assert len(set(found)) > 1
    assert max(found)[0] > 5 * min(found)[0]
