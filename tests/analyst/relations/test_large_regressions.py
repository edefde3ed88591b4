"""Test that a regression started from a part of many reports ends near the same root."""

import numpy as np
import pytest

from geoveil.analyst import Option, Regression
from geoveil.analyst.relations import regression, solving

from .forms import choice, form, number, reported


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize(("pilot", "near"), [(1_000, True), (60, False)])
def test_a_root_is_within_a_hundredth_of_its_error(
    monkeypatch: pytest.MonkeyPatch, pilot: int, near: bool
) -> None:
    """20,000 reports, of which a twentieth is the pilot. Control: Newton stops after one step."""
    rng, n = np.random.default_rng(4), 20_000
    campaign = form(number("age", 4.0), choice("rents", 3, 2.0), choice("works", 2, 2.0))
    age, rents = rng.normal(45, 12, n), rng.integers(0, 3, n)
    works = rng.random(n) < 1 / (1 + np.exp(2 - 0.04 * age - 0.4 * rents))
    reports = reported(campaign, [age, rents, works.astype(np.int64)], rng)
    asked = Regression(Option("works", "o1"), ["age", "rents"], "logistic")
    root = reports.ask(asked)
    for module in (regression, solving):
        monkeypatch.setattr(module, "LARGE", 10_000)
    monkeypatch.setattr(regression, "_PILOT", pilot)
    if not near:
        monkeypatch.setattr(solving, "_CLOSE_OF_LARGE", 1.0)
    quick = reports.ask(asked)
    moved = float(np.abs((quick.values - root.values) / root.standard_errors).max())
    print(f"a pilot of {pilot:,}: {moved:.2g} standard errors")
    assert (moved < 0.01) is near
    if near:
        assert quick.standard_errors == pytest.approx(root.standard_errors, rel=1e-3)
