"""Test worst cases and response rates: enumeration, coverage with a control, refusals."""

from itertools import product

import numpy as np
import pytest

from geoveil.analyst import Shares, worst_case
from geoveil.gp import DebiasedLaplace, GeoPrivacy, ParameterError, Threshold
from geoveil.gp.intervals import interval_of_mean
from geoveil.gp.limits import Limits

from .relations.test_regression import asked, people

MECHANISM = DebiasedLaplace(Threshold(0.0, 24_000.0, "smoothstep"), GeoPrivacy(1.0, 8_000.0))
LIMITS = Limits(MECHANISM.range, (0.0, 1.0))


@pytest.mark.parametrize("answered", [[0.0], [1.0, 0.5], [0.25, 1.0, 0.0]])
def test_the_worst_case_is_that_of_everything_that_others_could_hold(answered):
    mean = float(np.mean(answered))
    possible = [float(np.mean([*answered, *others])) for others in product([0.0, 1.0], repeat=3)]
    ends = worst_case(mean, mean, len(answered), len(answered) + 3, (0.0, 1.0))
    assert ends == pytest.approx((min(possible), max(possible)))


def test_it_covers_everybody_invited_if_the_rich_do_not_answer():
    """400 campaigns of 1,000 invited, seed 11, at least 95 %; control: the other interval."""
    rng = np.random.default_rng(11)
    held = believed = 0
    for _ in range(400):
        values = rng.normal(0.0, 40_000.0, 1_000)
        answers = values[rng.random(1_000) < np.where(values > 0, 0.5, 0.9)]
        reports = MECHANISM.simulate(answers, rng)
        n = len(answers)
        of = interval_of_mean(n, float(reports.mean()), float(reports.var()), 0.95, LIMITS)
        low, high = worst_case(of.low, of.high, n, 1_000, (0.0, 1.0))
        truth = float(MECHANISM.mean(values).mean())
        held += low <= truth <= high
        believed += of.low <= truth <= of.high
    assert held >= 380
    assert believed < 40


def test_shares_of_a_form_hold_the_worst_case():
    reports = asked(people(5, 600), clear=True)
    plain = reports.ask(Shares("rents"))
    assert any("how many were invited" in note for note in plain.notes)
    among = plain.among_invited(1_000)
    for before, row in zip(plain.rows(), among.rows(), strict=True):
        assert row["worst_case_low"] == pytest.approx(0.6 * before["ci_low"])
        assert row["worst_case_high"] == pytest.approx(0.6 * before["ci_high"] + 0.4)
    assert any("600 of 1,000 people invited answered (60 %)" in note for note in among.notes)
    everybody = plain.among_invited(600).rows()[0]
    assert everybody["worst_case_low"] == pytest.approx(everybody["ci_low"])


def test_rates_of_response_are_those_of_a_count():
    values = people(5, 600)
    counts = np.bincount(values["rents"], minlength=3)
    invited = {"o0": 1_000, "o1": 500, "o2": int(counts[2])}
    table = asked(values, clear=True).ask(Shares("rents"))
    rates = table.response(invited)
    for row, n, count in zip(rates.rows(), invited.values(), counts, strict=True):
        assert row["estimate"] == pytest.approx(count / n, abs=1e-6)
        assert row["ci_low"] < count / n <= row["ci_high"] <= 1
    assert rates.title == f"Response by rents, of {1_500 + counts[2]:,} people invited"


def test_rates_of_response_cover():
    """200 forms of 400 people with randomised answers, seeds 0 to 199: all at once in 95 %."""
    held = 0
    for seed in range(200):
        values = people(seed, 400)
        reports = asked(values, clear=False, seed=1_000 + seed)
        rates = reports.ask(Shares("rents")).response({"o0": 900, "o1": 700, "o2": 400})
        truth = np.bincount(values["rents"], minlength=3) / [900, 700, 400]
        rows = rates.rows()
        held += all(r["ci_low"] <= t <= r["ci_high"] for r, t in zip(rows, truth, strict=True))
    assert held >= 190


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match=r"invited.*at least 100, the number of people"):
        worst_case(0.1, 0.2, 100, 99, (0.0, 1.0))
    for low in (np.nan, 0.3):
        with pytest.raises(ParameterError, match=r"low must be a number of at most high=0\.2"):
            worst_case(low, 0.2, 100, 200, (0.0, 1.0))
    with pytest.raises(ParameterError, match="without a range can move"):
        worst_case(0.1, 0.2, 100, 200, (-np.inf, np.inf))
    reports = asked(people(5, 100), clear=True)
    table = reports.ask(Shares("rents"))
    for wrong in ({"o0": 100}, {"o0": 100, "o1": 100, "o3": 100}):
        with pytest.raises(ParameterError, match="a number for each group"):
            table.response(wrong)
    with pytest.raises(ParameterError, match="invited: o1"):
        table.response({"o0": 100, "o1": 0, "o2": 100})
    with pytest.raises(ParameterError, match="invited"):
        table.among_invited(99)
    weighted = reports.ask(Shares("rents"), weights=np.linspace(1, 2, 100))
    with pytest.raises(ParameterError, match="left out with weights"):
        weighted.among_invited(200)
