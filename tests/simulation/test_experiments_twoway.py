"""Test the experiment on pairs of thresholds: moments against mechanisms and draws."""

import math

import numpy as np
import pytest
from scipy import stats

from geoveil.gp import ParameterError
from geoveil.simulation import incomes_and_debts
from geoveil.simulation.experiments import twoway
from geoveil.simulation.experiments.rows import LOCAL
from geoveil.simulation.experiments.twoway import PANELS, TwoWayPanel

ALPHA = 1e-6
PANEL = TwoWayPanel(per=12_000.0, axes=((70_000.0, 160_000.0),) * 2, people=(20_000,))


def test_the_settings_are_those_of_the_paper():
    """[MATH §12]: 34 thresholds per axis, widths min(0.2|T|, 2/ε)."""
    for panel, per in zip(PANELS, (8_000, 12_000, 20_000), strict=True):
        assert panel.privacy.at(per) == 1
        for axis in panel.axes:
            assert (len(axis), axis[0], axis[-1]) == (34, 10_000, 1_000_000)
        assert panel.people == (400_000, 1_600_000, 6_400_000)
        assert panel.width((30_000, 40_000)) == min(10_000, 2 * per)
        assert panel.width((300_000, 400_000)) == 2 * per


@pytest.mark.parametrize("name", sorted(PANEL.scalar))
def test_tables_hold_the_moments_of_the_mechanisms(name):
    """Bins of 3,000 people times the table, against the mechanism at each person."""
    at = (70_000.0, 160_000.0)
    x = incomes_and_debts().sample(3_000, np.random.default_rng(1))
    mechanism = PANEL.of_papers[name].build(PANEL.setting(at))
    table = twoway._MomentTable(PANEL, PANEL.width(at))
    above = (x > at).all(axis=1)
    everyone, hard = table.bins(np.asarray(mechanism.query.signed_distance(x)), above)
    mean, variance = table.columns[name]
    assert everyone.sum() == pytest.approx(1)
    assert hard.sum() == pytest.approx(above.mean())
    assert everyone @ mean == pytest.approx(mechanism.mean(x).mean(), rel=1e-5)
    assert hard @ mean == pytest.approx((mechanism.mean(x) * above).mean(), rel=1e-5)
    assert everyone @ variance == pytest.approx(mechanism.variance(x).mean(), rel=1e-4)


def test_the_lattice_stands_for_the_population():
    """Shares above thresholds against SciPy's bivariate normal law; E|N| = 2, E|N|² = 6 [ABCP13].

    Sixteen shifts of 8,192 points: a share has an error of 1e-3 even if they were random.
    """
    lattices = twoway.lattices(PANEL, seed=1)
    assert len(lattices) == 16
    people = incomes_and_debts()
    law = stats.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]])
    for at in [(10_000.0, 70_000.0), (100_000.0, 160_000.0), (400_000.0, 100_000.0)]:
        z = (np.log(at) - people.mu) / people.sigma
        drawn = np.mean([(pairs > at).all(axis=1).mean() for pairs, _ in lattices])
        assert drawn == pytest.approx(law.cdf(-z), abs=1e-3)
    radius = np.concatenate([np.linalg.norm(planar, axis=1) for _, planar in lattices])
    assert [radius.mean(), np.square(radius).mean()] == pytest.approx([2, 6], rel=1e-2)
    centre = np.mean([planar.mean(axis=0) for _, planar in lattices], axis=0)
    assert centre == pytest.approx([0, 0], abs=0.01)


@pytest.mark.deep
@pytest.mark.parametrize("name", list(PANEL.contestants))
def test_drawn_errors_have_the_exact_mean_and_variance(name, moments):
    """80 repetitions of 20,000 people at 4 thresholds; z and chi-square at α = 1e-6 for each.

    What the lattice does not know, three of its standard errors, is added to what may be off.
    Control: a third of the variance must be refuted.
    """
    repetitions, n = 80, 20_000
    errors = np.array([PANEL.drawn_once(name, n, r, seed=2).ravel() for r in range(repetitions)])
    own = moments[name]
    bias = own.bias.mean(axis=0)
    unsure = own.bias.std(axis=0, ddof=1) / math.sqrt(len(own.bias))
    noise = 0.0 if own.noise is None else own.noise.mean(axis=0)
    variance = (own.square.mean(axis=0) - bias**2 + noise) / n
    off = np.abs(errors.mean(axis=0) - bias) - 3 * unsure
    assert (off < stats.norm.isf(ALPHA / 2) * np.sqrt(variance / repetitions)).all()
    statistic = (repetitions - 1) * errors.var(axis=0, ddof=1) / variance
    low, high = stats.chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], repetitions - 1)
    assert ((low < statistic) & (statistic < high)).all()
    assert (3 * statistic > high).all()


@pytest.fixture(scope="module")
def moments():
    return twoway.moments(PANEL, points=1 << 12)


def test_the_square_of_the_bias_is_not_inflated_by_the_lattice():
    """2,000 times 16 estimates of a bias of 0.1 with deviation 0.4: the squares average to 0.01.

    z at α = 1e-6. Control: the plain square of the mean is refuted.
    """
    rng = np.random.default_rng(3)
    bias = 0.1 + 0.4 * rng.standard_normal((16, 2_000))
    nothing = np.zeros_like(bias)
    corrected = twoway.Moments(bias, nothing, nothing)._sums(1)[1] / 2_000
    plain = np.square(bias.mean(axis=0))
    limit = stats.norm.isf(ALPHA / 2) * plain.std() / math.sqrt(2_000)
    assert abs(corrected - 0.01) < limit
    assert abs(plain.mean() - 0.01) > limit


@pytest.mark.deep
def test_the_standard_error_is_how_much_runs_differ():
    """Runs with 12 seeds; their deviation within a factor 2.5 of the mean standard error.

    A chi-square quotient with 11 degrees of freedom leaves that with a probability below 1e-6
    upwards; downwards below 2e-3, so the seeds are fixed.
    """
    panel = TwoWayPanel(per=8_000.0, axes=((70_000.0,),) * 2, people=(400_000,))
    rows = [twoway.exact(panel, seed, 1 << 9) for seed in range(12)]
    plugged = [next(r for r in own if r.mechanism == "GP_loc") for own in rows]
    spread = np.std([r.error for r in plugged], ddof=1)
    claimed = np.mean([r.standard_error for r in plugged])
    assert claimed / 2.5 < spread < 2.5 * claimed


def test_noise_per_coordinate_keeps_the_promise():
    """Worst log-ratio of densities over the distance, along 721 directions: exactly ε."""
    scale = PANEL.coordinate_reports().scale
    angle = np.linspace(0, 2 * np.pi, 721)
    step = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # at distance 1
    worst = np.abs(step).sum(axis=1).max() / scale
    assert worst == pytest.approx(PANEL.privacy.rate)
    assert worst <= PANEL.privacy.rate * (1 + 1e-12)
    assert np.abs(step).sum(axis=1).max() * PANEL.privacy.rate > 1.4 * PANEL.privacy.rate


def test_planar_noise_of_the_lattice_is_that_of_the_mechanism():
    """Kolmogorov-Smirnov of |N|, 4,096 lattice points, against the law of the mechanism.

    A lattice is more even than random draws, so the limit for those at α = 1e-6 is ample.
    Control: 10 % wider.
    """
    _, planar = twoway.lattices(PANEL, seed=1, points=1 << 12)[0]
    radius = np.linalg.norm(planar, axis=1) * PANEL.per
    cdf = stats.gamma(2, scale=1 / PANEL.privacy.rate).cdf
    limit = math.sqrt(math.log(2 / ALPHA) / 2 / len(radius))
    assert stats.kstest(radius, cdf).statistic < limit
    assert stats.kstest(1.1 * radius, cdf).statistic > limit


def test_the_local_answer_has_the_variance_of_its_epsilon():
    """2/ε_L² with ε_L = 12,000 ε, at every threshold."""
    rows = {r.mechanism: r for r in twoway.exact(PANEL, points=64)}
    assert rows[LOCAL].error == pytest.approx(4 * 2 / 20_000)


@pytest.mark.parametrize("axis", [(), (2.0, 1.0)])
def test_axes_that_are_no_thresholds_are_refused(axis):
    with pytest.raises(ParameterError, match="axes must be one finite threshold or more"):
        TwoWayPanel(per=8_000.0, axes=((1.0,), axis))
