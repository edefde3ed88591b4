"""Test formulas that are refused, and with which words."""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from geoveil.gp import FormulaProfile, ParameterError, UnsupportedError
from geoveil.gp.smooth import cells
from geoveil.gp.smooth.jet import Jet, enclosure
from geoveil.gp.smooth.tape import Tape


def test_a_formula_too_intricate_is_refused_after_limited_work(monkeypatch):
    """Operations are counted, however many of them an enclosure takes."""
    spent = [0]

    def counted(tape: Tape, u: Any) -> tuple[Jet, int]:
        j, ways = enclosure(tape, u)
        spent[0] += ways * len(tape.steps)
        return j, ways

    def long(u: Any, o: Any) -> Any:
        waves = sum(o.exp(-u * u * k) for k in range(1, 100))
        return o.maximum(o.clip(u, -1, 1), o.clip(u, -2, 2)) + waves / 2**20

    monkeypatch.setattr(cells, "_MOST", 50_000)
    monkeypatch.setattr(cells, "enclosure", counted)
    with pytest.raises(ParameterError, match="too intricate"):
        FormulaProfile(long, scale=1.0)
    assert 70_000 < spent[0] < 80_000  # a third of them for finer cells


REFUSED: dict[str, tuple[Any, str]] = {
    "jump": (
        lambda u, o: o.piecewise(u, (0.25,), (lambda v: v, lambda v: v + 1)),
        "a jump of 1 at 0.25",
    ),
    "root at 0": (lambda u, o: o.sqrt(o.absolute(u)), "no bounded slope near"),
    "steep edge": (lambda u, o: o.sqrt(o.maximum(1 - u * u, 0)), "no bounded slope near"),
    "pole": (lambda u, o: 1 / u, "no bounded slope near"),
    "overflow": (lambda u, o: o.exp(u * u * u), "no bounded slope near"),
    "constant": (lambda u, o: 3, "a constant"),
    "nan": (lambda u, o: u * math.nan, "formula"),
    "nothing": (lambda u, o: None, "NoneType"),
    "numpy": (lambda u, o: np.exp(u), "functions of ops"),
    "one argument": (lambda u: u, "functions of ops"),
    "root by power": (lambda u, o: (1 + u * u) ** 0.5, "ops.power"),
    "equal pieces": (lambda u, o: o.maximum(o.clip(u, -1, 1), o.clip(u, -2, 2)), "too intricate"),
    "float overflow": (lambda u, o: u * u + o.exp(800 + u * 0) * o.exp(-800 - u * 0), "float64"),
    "no function": (3, "a function of"),
    "edges that fall": (
        lambda u, o: o.piecewise(u, (1, -1), (lambda v: v, lambda v: 2 - v, lambda v: v)),
        "edges at 1 and then -1",
    ),
    "edges that move": (lambda u, o: o.piecewise(u, (u / 2,), (lambda v: v,) * 2), "constants"),
    "an edge too few": (lambda u, o: o.piecewise(u, (), (lambda v: v,) * 2), "0 edges"),
    "jump beside 2^70": (
        lambda u, o: o.piecewise(u, (0.3,), (lambda v: (v + 2**70) - 2**70, lambda v: v + 1)),
        "a jump of 1 at 0.3",
    ),
    "jump below all doubles": (
        lambda u, o: o.piecewise(u, (0,), (lambda v: v, lambda v: v + Fraction(1, 2**2500))),
        "a jump of 0 at 0",
    ),
    "jump within a piece": (
        lambda u, o: o.piecewise(
            u,
            (-1,),
            (
                lambda v: v,
                lambda v: o.piecewise(v, (1,), (lambda w: w, lambda w: w + 1e-9)),
            ),
        ),
        "a jump of 1e-09 at 1",
    ),
    "jump where a constant is not": (
        lambda u, o: u + o.piecewise(o.constant(1), (2,), (lambda v: v, lambda v: o.power(v, v))),
        "a jump of 2 at 2",
    ),
    "piece of another number": (
        lambda u, o: o.piecewise(2 * u, (0,), (lambda v: u, lambda v: v)),
        "use only their own argument",
    ),
    "pieces undefined where they meet": (
        lambda u, o: o.piecewise(u, (-1,), (lambda v: v, lambda v: o.log(v))),
        "can't be shown to meet at -1",
    ),
    "truth": (lambda u, o: u if u else -u, "ops.piecewise"),
    "root of a negative": (lambda u, o: u + o.sqrt(o.constant(-1)), "ops.maximum(x, 0)"),
    "power of a negative": (lambda u, o: o.power(u, 1.5), "ops.maximum(x, 0)"),
    "power of a negative, computed": (
        lambda u, o: o.power(u, o.exp(o.log(3))),
        "ops.maximum(x, 0)",
    ),
    "pieces of nothing": (
        lambda u, o: u + o.piecewise(o.log(u), (1,), (lambda v: 0, lambda v: 0)),
        "no bounded slope",
    ),
    "lost digits": (lambda u, o: (u + 2**70) - 2**70, "float64"),
}


TAKE_LONG = {
    "equal pieces",
    "pieces of nothing",
    "steep edge",
    "pole",
    "power of a negative, computed",
    "root of a negative",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.deep(rest=4)] if n in TAKE_LONG else []) for n in REFUSED],
)
def test_refused(name):
    """In words that say what is wrong, and with no warning of NumPy."""
    formula, words = REFUSED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ParameterError) as caught:
            FormulaProfile(formula, scale=1.0, extent=300.0)
    assert words in str(caught.value)


def test_sign_is_refused_with_what_to_use():
    with pytest.raises(UnsupportedError, match="use clip or piecewise"):
        FormulaProfile(lambda u, ops: ops.sign(u), scale=1.0)
