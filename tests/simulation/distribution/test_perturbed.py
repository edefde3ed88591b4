"""The distribution from perturbed numbers: sums as computed directly, noise undone, cells moved."""

import numpy as np
import pytest
from scipy.integrate import dblquad

from geoveil.analyst.statistics.distribution import DistributionFunction
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.reports import reports_of
from geoveil.gp import GeoPrivacy
from geoveil.gp.queries.profiles import Smoothstep
from geoveil.simulation.distribution.cells import Cells, moved
from geoveil.simulation.distribution.protocols import PerturbedNumbers
from tests.campaigns import DAY, NOW, perturbed_incomes

CELLS = Cells(0.0, 64.0, 64)
POINTS = PerturbedNumbers(GeoPrivacy(1.0, per=4.0), CELLS)


def test_moved_is_the_integral_over_both_cells():
    b = 0.7
    cells, outcomes = np.array([0.0, 0.5, 1.5]), np.array([-1.0, 0.2, 0.4, 3.0])

    def twice_integrated(z):
        return np.maximum(z, 0.0) + b / 2 * np.exp(-np.abs(z) / b)

    found = moved(twice_integrated, cells, outcomes)
    for k in range(2):
        for j in range(3):
            expected = dblquad(
                lambda y, x: np.exp(-abs(y - x) / b) / (2 * b),
                cells[k],
                cells[k + 1],
                outcomes[j],
                outcomes[j + 1],
            )[0] / (cells[k + 1] - cells[k])
            assert found[j, k] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step", [Smoothstep(12.0), Smoothstep(48.0)])
def test_soft_shares_are_the_means_of_debiased_steps(step):
    """Reports far beyond both ends included; the convolution's nodes change next to nothing."""
    rng = np.random.default_rng(4)
    reports = POINTS.simulate(np.append(rng.uniform(5, 60, 2_000), [-500.0, 900.0]), rng)
    below, variance = POINTS._soft(reports, step)
    for cell in (0, 17, 40, 64):
        terms = step.debiased(reports - CELLS.edges[cell], 4.0)
        standard_error = terms.std() / np.sqrt(len(terms))
        assert below[cell] == pytest.approx(1 - terms.mean(), abs=0.1 * standard_error)
        assert variance[cell] == pytest.approx(standard_error**2, rel=0.03)


def test_the_default_is_what_an_analyst_is_told():
    """The same reports, asked as reports at hand of a value campaign: equal to a tenth of σ."""
    privacy = GeoPrivacy(1.0, per=4.0, unit="dollar")
    campaign = perturbed_incomes(privacy=privacy, opens=NOW - 9 * DAY, closes=NOW - DAY)
    rng = np.random.default_rng(9)
    reports = POINTS.simulate(rng.normal(30.0, 9.0, 3_000), rng)
    integers = np.rint(reports / campaign.point_mechanism.step).astype(np.int64)
    rows = ReportRows(np.zeros(len(reports), np.uint32), None, (integers,))
    edges = CELLS.edges[4:61:8]
    told = reports_of(rows, campaign).ask(DistributionFunction(at=edges.tolist()))
    below = POINTS.debiased(reports)[4:61:8]
    assert np.all(np.abs(told.values - below) < 0.1 * told.above.standard_errors)


def test_the_noise_is_undone():
    """400,000 people around 30: within 0.01 of the truth, which the reports are not.

    So is the default, of the truth blurred by its band.
    """
    rng = np.random.default_rng(1)
    values = rng.normal(30.0, 6.0, 400_000)
    reports = POINTS.simulate(values, rng)
    smoothed = POINTS.smoothed(reports)
    truth, raw = (
        np.searchsorted(np.sort(numbers), CELLS.edges) / len(numbers)
        for numbers in (values, reports)
    )
    assert np.abs(smoothed - truth).max() < 0.01
    soft = [1 - Smoothstep(12.0).value(values - edge).mean() for edge in CELLS.edges]
    assert np.abs(POINTS.debiased(reports) - soft).max() < 0.01
    assert np.abs(raw - truth).max() > 0.03  # control: as if they were the numbers


def test_people_beyond_the_cells_are_counted_there():
    """A tenth below, a fifth far above: shares at the ends, and no pile within."""
    rng = np.random.default_rng(2)
    parts = (np.full(20_000, -40.0), rng.uniform(0, 64, 140_000), np.full(40_000, 4_000.0))
    reports = POINTS.simulate(np.concatenate(parts), rng)
    smoothed = POINTS.smoothed(reports)
    for found in (smoothed, POINTS.debiased(reports)):
        assert found[16::16] == pytest.approx([0.275, 0.45, 0.625, 0.8], abs=0.015)
        assert found[0] == pytest.approx(0.1, abs=0.02)
