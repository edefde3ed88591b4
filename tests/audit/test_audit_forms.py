"""Test that pairs of forms differ by what the ledger charges, and that faults are caught."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from geoveil.audit import audit
from geoveil.audit.draws import draws_of
from geoveil.audit.forms import FORM, FormReport, form_faults, forms
from geoveil.gp import SeededSource


def test_a_form_tells_what_the_ledger_charges_and_no_more():
    """A filter is charged for what its follower shows: the row reaches 1, and not by rounding."""
    (verdict,) = audit([*forms()], samples=20_000)
    assert verdict.keeps
    assert verdict.exact.fraction == pytest.approx(1, abs=1e-8)
    assert 0.8 < verdict.black_box.fraction <= 1


def test_devices_whose_fields_follow_each_other_are_caught():
    found = {verdict.variant: verdict for verdict in audit([*form_faults()], samples=20_000)}
    released = found.pop("a number sent as it is")
    assert set(found) == {"noise by another field", "not asked, below the range"}
    assert not released.keeps
    assert replace(released, draws=None).keeps
    for verdict in found.values():
        assert verdict.caught
        assert verdict.exact.fraction > 2
        assert verdict.black_box.fraction > 1.5


class QuieterInOneField(FormReport):
    """A report has half of the noise in the last field, which densities don't show."""

    def simulate(self, x: Any, rng: np.random.Generator) -> Any:
        reports = super().simulate(x, rng)
        sent = self._prepared(np.asarray(x, np.float64))[:, 3]
        reports[:, 3] = (reports[:, 3] + sent) / 2
        return reports


@pytest.mark.deep
def test_a_fault_in_any_one_field_is_caught_from_reports_alone():
    """Only the first number was looked at; the control is the row of the catalogue."""
    for report, caught in ((QuieterInOneField(), True), (FormReport(), False)):
        (verdict,) = audit([replace(case, mechanism=report) for case in forms()], samples=20_000)
        assert verdict.caught == caught
        assert verdict.exact.fraction <= 1 + 1e-6


def true_option(prepared, source):
    """The second choice is the truth in one report of four."""
    age, mood, rents, years = FORM.release(prepared, source)
    return [age, mood, rents if source.bits(2) else prepared[2], years]


def by_another_field(prepared, source):
    """The mood is that of a person who rents."""
    age, mood, rents, years = FORM.release(prepared, source)
    return [age, mood if prepared[2] else 0, rents, years]


def noise_used_twice(prepared, source):
    """Both numbers have the same noise."""
    age, mood, rents, _ = FORM.release(prepared, source)
    steps = FormReport().step
    return [age, mood, rents, age + round(prepared[3] / steps[3]) - round(prepared[0] / steps[0])]


@pytest.mark.deep(keep=2, rest=2)
@pytest.mark.parametrize(
    ("release", "agrees"),
    [
        (FORM.release, True),
        (true_option, False),
        (by_another_field, False),
        (noise_used_twice, False),
        (lambda prepared, _: FORM.release(prepared, SeededSource(3)), False),
    ],
)
def test_releases_of_forms_are_held_to_their_law(release, agrees):
    """20,000 releases, α = 1e-6; none was looked at."""
    (case,) = forms()
    case = replace(case, mechanism=FormReport(release=release))
    found = draws_of(case, 20_000, 5, 1e-6)
    assert found is not None
    assert found.agree == agrees, found


@pytest.mark.deep(keep=0)
def test_the_law_of_the_row_is_that_of_releases():
    """4,000 releases of two forms; χ² of both choices together, and the mean distance of numbers.

    α = 1e-6, by a normal bound of 4.9 standard errors each.
    """
    (case,) = forms()
    report: Any = case.mechanism
    source, n = SeededSource(7), 4_000
    for age, mood, rents, years in ((4.0, 1, 0, 9.0), (7.0, 2, 1, 2.0)):
        (prepared,) = report._prepared(np.array([[age, mood, rents, years]]) * report._units)
        answers = report._named((age, mood, rents, years))
        drawn = np.array([FORM.release(FORM.prepare(answers), source) for _ in range(n)], float)
        for column in (0, 3):
            step = FORM.fields[column].mechanism.step  # type: ignore[attr-defined]
            apart = np.abs(drawn[:, column] * step - prepared[column])
            assert abs(apart.mean() / 2 - 1) < 4.9 / np.sqrt(n)
        for column, chain in report._chains.items():
            shares = chain.law[int(prepared[column])]
            seen = np.bincount(drawn[:, column].astype(int), minlength=len(shares)) / n
            assert (np.abs(seen - shares) < 4.9 * np.sqrt(shares * (1 - shares) / n)).all()
