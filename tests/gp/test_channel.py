"""The optimal channel: private between its rows, unbiased, exact to the bit, and the best."""

import math
import sys
from dataclasses import replace
from fractions import Fraction
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from geoveil.audit.black_box import black_box_bound
from geoveil.audit.exact import exact_rate
from geoveil.gp import (
    ChannelMechanism,
    DebiasedLaplace,
    Disc,
    FormulaProfile,
    GaussianKernel,
    GeoPrivacy,
    LipschitzMechanism,
    ParameterError,
    PrivateValueError,
    Radial,
    SeededSource,
    SmoothMechanism,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.exact import BALL, LazyUniform, release_integers
from geoveil.gp.mechanisms import channel_spline
from geoveil.gp.mechanisms.base import PrivatePoint
from geoveil.gp.mechanisms.channel import TOTAL, ProbabilityTable, rounded
from geoveil.gp.mechanisms.channel_spline import SplineCell, SplineGrid
from geoveil.gp.mechanisms.distance_prior import DistancePrior, default_prior, is_even, variation
from geoveil.gp.mechanisms.linear_program_mechanism import LinearProgramMechanism

UNIT = GeoPrivacy(1.0, per=1.0)
ALPHA = 1e-6


def _walk(u, ops):
    return ops.exp(-u)


STEP = Threshold(0.0, 2.0, "smoothstep")
RAMP = Threshold(3.0, 2.0)
BELL = GaussianKernel((0.0, 0.0), 1.0)
DISC = Disc((0.0, 0.0), 3.0, 2.0, "smoothstep")
BEYOND = DistancePrior.uniform(-4.0, 2.0)


@cache
def walk():
    return Radial(FormulaProfile(_walk, scale=1.0, extent=16.0), center=0.0)


class Channels(dict[str, LinearProgramMechanism]):
    """The channel of each name, solved when it is first asked for."""

    def __missing__(self, name: str) -> LinearProgramMechanism:
        asked = {
            "step": (STEP, UNIT),
            "ramp": (RAMP, UNIT),
            "bell": (BELL, UNIT),
            "walk": (walk(), UNIT),
            "disc": (DISC, UNIT),
            "beyond": (RAMP, UNIT, BEYOND),
        }[name]
        self[name] = LinearProgramMechanism(*asked)
        return self[name]


@pytest.fixture(scope="module")
def channels():
    return Channels()


NAMES = ("step", "ramp", "bell", "walk", "disc", pytest.param("beyond", marks=pytest.mark.deep))


def line(mechanism, steps):
    """Points at which s takes the values `steps` (a distance from the centre, or beyond it)."""
    steps = np.asarray(steps)
    query = mechanism.query
    if query is RAMP:
        return steps + 3.0
    if query is DISC:
        steps = 3.0 - steps
    return steps if query.dimension == 1 else np.stack([steps, 0 * steps], axis=-1)


# --- privacy ---------------------------------------------------------------------------------


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("name", NAMES)
def test_no_output_betrays_more_than_epsilon_between_the_rows(channels, name):
    m = channels[name]
    path = line(m, np.linspace(-7.0, 7.0, 7001))
    finding = exact_rate(m, path, m.atoms)
    assert 0.99 <= finding.rate <= 1 + 1e-9


@pytest.mark.parametrize("name", ["step", "bell"])
def test_black_box_audit(channels, name):
    """n = 40,000 a point, failure probability 1e-6."""
    m, rng = channels[name], np.random.default_rng(1)
    for a, b in ((0.0, 0.5), (0.2, 1.2)):
        samples = [m.simulate(line(m, np.full(40_000, at)), rng) for at in (a, b)]
        bound = black_box_bound(*samples, b - a, failure_probability=ALPHA)
        assert 0 < bound.rate <= 1


@pytest.mark.parametrize("e", ["1/100", "1/4", "1", "2"])
@pytest.mark.parametrize("counts", [(1,), (2,), (3, 2)])
def test_the_theorem_against_random_rows(e, counts):
    """Oracle: finite differences of the logarithm, for random and for extreme rows."""
    rate = Fraction(e) * counts[0]
    grid = SplineGrid(tuple(float(i) for i in range(len(counts) + 1)), counts)
    if any(rate / count > 2 for count in counts):
        with pytest.raises(UnsupportedError):
            grid.ratios(rate)
        return
    logs = np.log([float(r) for r in grid.ratios(rate)])
    rng = np.random.default_rng(2)
    signs = np.concatenate([rng.uniform(-1, 1, (50, len(logs))),
                            rng.choice([-1.0, 1.0], (200, len(logs)))])  # fmt: skip
    rows = np.exp(np.concatenate([np.zeros((250, 1)), np.cumsum(signs * logs, axis=1)], axis=1)).T
    s = np.linspace(0.0, float(len(counts)), 2001)
    steepest = np.abs(np.diff(np.log(grid.mix(rows, s)), axis=0)).max() / (s[1] - s[0])
    assert steepest <= float(rate) * (1 + 1e-9)
    # Control: rows a little further apart exceed it.
    wide = rows ** (1.05 if e == "1/100" else 1.1)
    assert np.abs(np.diff(np.log(grid.mix(wide, s)), axis=0)).max() / (s[1] - s[0]) > float(rate)


def test_inner_rows_may_differ_by_the_closed_form():
    for e in (0.01, 0.3, 1.7):
        grid = SplineGrid((0.0, 1.0), (8,))
        ratio = float(grid.ratios(Fraction(e) * 8)[3])
        assert 2 * math.sinh(math.log(ratio) / 2) == pytest.approx(e, rel=1e-9)
        assert 2 * math.sinh(math.log(ratio) / 2) <= e
        cell = SplineCell(0, Fraction(0), Fraction(1), False, False)
        more = Fraction(ratio) + Fraction(1, 10**9)
        assert not channel_spline.keeps(cell, Fraction(e), more, more)


def test_control_rows_at_the_full_rate_exceed_epsilon_between_nodes(channels):
    """Neighbours as far apart as e^{εΔ}, the rate not reduced, and interpolated: more than ε."""
    e = 0.5
    grid = SplineGrid((0.0, 1.0), (8,))
    rows = np.exp(e * np.arange(10.0))
    s = np.linspace(0.2, 0.8, 4001)
    slope = np.diff(np.log(grid.mix(rows, s))).max() / (s[1] - s[0])
    assert slope > 8 * e * (1 + 1e-3)
    # Rows interpolated linearly, or geometrically and then divided by their sum, exceed it too.
    m = channels["step"]
    table, width = m.channel.table.probabilities[1:-1], 2.0 / 32
    theta = np.linspace(0.0, 1.0, 201)[:, None, None]
    linear = (1 - theta) * table[:-1] + theta * table[1:]
    geometric = table[:-1] ** (1 - theta) * table[1:] ** theta
    geometric /= geometric.sum(axis=-1, keepdims=True)
    for rows in (linear, geometric):
        assert np.abs(np.diff(np.log(rows), axis=0)).max() * 200 / width > 1 + 1e-4


@pytest.mark.deep(keep=3)
@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_exact(channels, name):
    """Oracle: the same conditions in fractions, from the counts."""
    design = channels[name].channel
    ratios = design.grid.ratios(UNIT.exact_rate)
    rows = design.table.rows
    assert {sum(row) for row in rows} == {2**60}
    for j, ratio in enumerate(ratios):
        for a, b in zip(rows[j], rows[j + 1], strict=True):
            assert a > 0
            assert 1 / ratio <= Fraction(a, b) <= ratio


def test_a_table_with_one_entry_changed_is_refused(channels):
    """The smallest change that breaks a condition: that many counts of 2^-60, and not one less."""
    channel = channels["step"].channel
    table, ratios = channel.table, channel.grid.ratios(UNIT.exact_rate)
    for j in (3, 9, 20):
        row, below = table.rows[j], table.rows[j + 1]
        tight = max(range(len(row)), key=lambda k: Fraction(row[k], below[k]))
        other = max(range(len(row)), key=lambda k: row[k] if k != tight else 0)
        most = math.floor(min(ratios[j] * below[tight], ratios[j - 1] * table.rows[j - 1][tight]))
        for extra, fits in ((most - row[tight], True), (most - row[tight] + 1, False)):
            changed = list(row)
            changed[tight] += extra
            with pytest.raises(ParameterError, match="add up"):
                replace(table, rows=(*table.rows[:j], tuple(changed), *table.rows[j + 1 :]))
            changed[other] -= extra
            made = replace(table, rows=(*table.rows[:j], tuple(changed), *table.rows[j + 1 :]))
            given = replace(channel, table=made)
            if fits:
                made.require_within(ratios)
                assert ChannelMechanism(STEP, UNIT, given).channel is given
                continue
            with pytest.raises(ParameterError, match=rf"ratio of rows ({j - 1} and {j}|{j} and )"):
                ChannelMechanism(STEP, UNIT, given)


def test_tables_that_are_none_are_refused():
    half = TOTAL // 2
    for outputs in ((1, 1), (1, 0), ()):
        with pytest.raises(ParameterError, match="outputs must be increasing"):
            ProbabilityTable(outputs, ((half, half),))
    with pytest.raises(ParameterError, match="rows must be 2"):
        ProbabilityTable((0, 1), ((half, half),)).require_within((Fraction(2),))
    for row in ((0, TOTAL), (-1, TOTAL + 1), (half, half + 1)):
        with pytest.raises(ParameterError, match=r"rows\[0\] must be 2 counts > 0"):
            ProbabilityTable((0, 1), (row,))
    with pytest.raises(ParameterError, match="3 counts > 0"):
        ProbabilityTable((0, 1, 2), ((half, half),))


def test_rounding_puts_sums_and_means_right():
    means = (Fraction(1, 3), Fraction(2, 5))
    table = rounded(
        (-7, 0, 9), np.array([[0.3, 0.4, 0.3], [0.29, 0.4, 0.31]]), means, (Fraction(2),)
    )
    for mean, wanted in zip(table.means, means, strict=True):
        assert abs(mean - wanted) <= Fraction(16, 2 * TOTAL)
    assert TOTAL == 2**60


# --- moments ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_mean_is_the_query_within_the_bound(channels, name):
    """Oracle: the sum over the outputs of the exact law, on points that are not nodes."""
    m = channels[name]
    x = line(m, np.random.default_rng(4).uniform(-6.0, 6.0, 4000))
    law = np.exp(m.log_density(np.array(m.atoms)[:, None], x))
    assert law.sum(axis=0) == pytest.approx(np.ones(4000), abs=1e-12)
    mean = np.array(m.atoms) @ law
    assert m.mean(x) == pytest.approx(mean, abs=1e-12)
    assert np.abs(mean - m.query.value(x)).max() <= m.bias_bound + 1e-13
    second = np.square(np.array(m.atoms)[:, None] - mean)
    assert m.variance(x) == pytest.approx((second * law).sum(axis=0), rel=1e-10)
    assert m.bias_bound <= m.tolerance


def test_a_ramp_is_unbiased_and_a_bound_is_not_far_from_the_bias(channels):
    assert channels["ramp"].unbiased
    m = channels["step"]
    assert not m.unbiased
    x = np.linspace(-1.5, 1.5, 20_001)
    assert np.abs(m.mean(x) - m.query.value(x)).max() >= 0.3 * m.bias_bound


@pytest.mark.deep
def test_a_smaller_tolerance_is_met_or_refused():
    m = LinearProgramMechanism(STEP, GeoPrivacy(1.0, per=2.0), tolerance=3e-6)
    assert m.bias_bound <= 3e-6
    with pytest.raises(ParameterError, match="tolerance"):
        LinearProgramMechanism(walk(), UNIT, tolerance=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_simulated_reports_have_the_law(channels, name):
    """Chi-squared on 100,000 reports, α = 1e-6; the law of a point 0.3 away is refused."""
    m, n = channels[name], 100_000
    at = line(m, np.full(n, 0.37))
    reports = m.simulate(at, np.random.default_rng(6))
    counts = (reports[:, None] == np.array(m.atoms)).sum(axis=0)
    assert counts.sum() == n
    statistics = []
    for s in (0.37, 0.67):
        law = np.exp(m.log_density(np.array(m.atoms)[:, None], line(m, np.array([s]))))[:, 0]
        often = law * n >= 10
        expected = np.append(law[often], law[~often].sum() + 1e-300) * n
        seen = np.append(counts[often], counts[~often].sum())
        statistics.append((((seen - expected) ** 2 / expected).sum(), often.sum()))
    (good, degrees), (bad, other) = statistics
    assert good < stats.chi2.isf(ALPHA, degrees)
    assert bad > stats.chi2.isf(ALPHA, other)
    error = abs(float(np.mean(reports)) - float(m.mean(at[0])))
    assert error <= 4.9 * math.sqrt(float(m.variance(at[0])) / n)


# --- the best --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_no_other_mechanism_has_less_variance_under_the_prior(channels, name):
    m = channels[name]
    s, weights = np.array(m.prior.distances), np.array(m.prior.weights)
    others = [SmoothMechanism(m.query, UNIT), LipschitzMechanism(m.query, UNIT)]
    if name in ("step", "bell", "disc"):
        others.append(DebiasedLaplace(m.query, UNIT))
    x = line(m, s)
    mine = float(m.variance(x) @ weights)
    assert mine == pytest.approx(m.expected_variance, rel=1e-9)
    for other in others:
        assert mine <= float(other.variance(x) @ weights)


@pytest.mark.deep
def test_far_beyond_the_band_the_variance_fades(channels):
    assert channels["beyond"].unbiased
    assert float(channels["beyond"].variance(3.0 - 4.0)) < 0.1 * float(
        channels["ramp"].variance(3.0 - 4.0)
    )


# --- release ---------------------------------------------------------------------------------


def law_in_fractions(m, s):
    """The law at a rational s, cell by cell, written a second time."""
    design = m.channel
    s = abs(s) if design.even else s
    s = min(max(s, Fraction(design.grid.edges[0])), Fraction(design.grid.edges[-1]))
    row = 0
    for i, count in enumerate(design.grid.counts):
        low, high = Fraction(design.grid.edges[i]), Fraction(design.grid.edges[i + 1])
        width = (high - low) / count
        if s <= high:
            k = min(int((s - low) / width), count - 1)
            t = (s - low) / width - k
            a, b, c = design.table.rows[row + k : row + k + 3]
            left = [
                Fraction(p) if k == 0 else Fraction(p + q, 2) for p, q in zip(a, b, strict=True)
            ]
            right = [
                Fraction(q) if k == count - 1 else Fraction(p + q, 2)
                for p, q in zip(b, c, strict=True)
            ]
            return [
                ((1 - t) ** 2 * x + 2 * t * (1 - t) * y + t * t * z) / TOTAL
                for x, y, z in zip(left, b, right, strict=True)
            ]
        row += count + 1
    raise AssertionError


@pytest.mark.parametrize(
    "name", ["step", "ramp", "bell", pytest.param("beyond", marks=pytest.mark.deep)]
)
def test_release_is_the_output_whose_share_holds_the_bits(channels, name):
    m = channels[name]
    outputs = m.channel.table.outputs
    seen = set()
    for seed, s in enumerate((-9.0, -1.0, -0.40625, 0.0, 0.03, 0.3, 0.5, 0.98, 1.0, 2.7, 1e30) * 4):
        point = s + 3.0 if name in ("ramp", "beyond") else s
        exact = Fraction(point) - 3 if name in ("ramp", "beyond") else Fraction(s)
        uniform = Fraction(2 * SeededSource(seed).bits(128) + 1, 2**129)
        total, expected = Fraction(0), None
        for k, p in zip(outputs, law_in_fractions(m, exact), strict=True):
            total += p
            if uniform < total:
                expected = k
                break
        x = (point, 0.0) if m.query.dimension == 2 else point
        assert m.release(x, SeededSource(seed)) == expected
        seen.add(expected)
    assert total <= 1
    assert len(seen) > 5


def test_release_at_an_irrational_distance(channels):
    """s = √2·0.7: the law in mpmath at 60 digits."""
    m = channels["bell"]
    with mp.workdps(60):
        s = mp.sqrt(2 * mp.mpf(0.7) ** 2)
        near = Fraction(int(s * mp.mpf(2) ** 150), 2**150)
    law = law_in_fractions(m, near)
    outputs = m.channel.table.outputs
    for seed in range(40):
        uniform, total = Fraction(SeededSource(seed).bits(128), 2**128), Fraction(0)
        index = 0
        while uniform >= (total := total + law[index]):
            index += 1
        assert m.release((0.7, 0.7), SeededSource(seed)) == outputs[index]


class _Calls:
    """How many functions are called, Python's and others."""

    def of(self, work):
        self.count = 0
        before = sys.getprofile()
        sys.setprofile(lambda _frame, event, _argument: self.note(event))
        try:
            work()
        finally:
            sys.setprofile(before)
        return self.count

    def note(self, event):
        self.count += event in ("call", "c_call")


def by_balls(m, x, seed):
    """Release as any mechanism does: in balls, by the definition, from the same bits."""
    point, uniform = PrivatePoint(np.ravel(x).tolist()), LazyUniform(SeededSource(seed))
    (k,) = release_integers(
        [uniform], lambda u: [m._ideal(point.distance(m.query), u[0], BALL)], m.step_exponent
    )
    return k


@pytest.mark.parametrize("name", NAMES)
def test_the_work_of_a_release_is_the_same_everywhere(channels, name):
    m, calls = channels[name], _Calls()
    points = line(m, [-1e9, -50.0, -1.01, -1.0, -0.99, -0.3, 0.0, 0.2, 1.0, 1.5, 4.0, 1e9])
    m.release(points[0], SeededSource(0))  # what is remembered of public numbers
    for seed in range(3):
        work = {calls.of(lambda x=x, s=seed: m.release(x, SeededSource(s))) for x in points}
        # Twelve places, in one way; the control takes another one where cells meet or outputs lie.
        assert len(work) == 1, work
    slow = {calls.of(lambda x=x: by_balls(m, x, 1)) for x in points}
    assert len(slow) > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_release_is_the_same_in_doubles_and_in_balls(channels, name):
    m = channels[name]
    points = line(m, np.append(np.linspace(-4, 4, 60), [-1e9, 1e9, 1e-300]))
    for seed, x in enumerate(points):
        assert m.release(x, SeededSource(seed)) == by_balls(m, x, seed)


def test_bits_at_an_edge_of_the_shares_are_decided_in_balls(channels, fixed_bits):
    m = channels["ramp"]
    law = law_in_fractions(m, Fraction(0))
    for index in (0, len(law) // 2):
        edge = int(sum(law[: index + 1]) * 2**128)
        for bits, place in ((edge - 1, index), (edge + 1, index + 1)):
            point = PrivatePoint([3.0])
            assert m._known(point, LazyUniform(fixed_bits(bits, 128))) is None
            more = fixed_bits(bits << 640, 768)
            assert m.release(3.0, more) == m.channel.table.outputs[place]


@pytest.mark.parametrize("name", NAMES)
def test_outputs_lie_on_the_grid_and_in_the_range(channels, name):
    m = channels[name]
    low, high = m.grid_range
    assert m.atoms[0] == low * m.step
    assert m.atoms[-1] == high * m.step
    x = line(m, np.array(0.25))
    for seed in range(5):
        assert low <= m.release(x, SeededSource(seed)) <= high


def test_a_step_of_ones_own():
    m = LinearProgramMechanism(RAMP, UNIT, step=2.0**-6)
    assert m.step == 2.0**-6
    assert all((y * 64).is_integer() for y in m.atoms)
    assert m.unbiased


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: LinearProgramMechanism("q", UNIT), "query"),
        (lambda: LinearProgramMechanism(STEP, 1.0), "privacy"),
        (lambda: LinearProgramMechanism(STEP, UNIT, [0.0]), "prior"),
        (lambda: LinearProgramMechanism(STEP, UNIT, tolerance=0.0), "tolerance"),
        (lambda: LinearProgramMechanism(STEP, UNIT, tolerance=math.nan), "tolerance"),
        (lambda: LinearProgramMechanism(STEP, UNIT, tolerance=True), "tolerance"),
        (lambda: LinearProgramMechanism(STEP, UNIT, step=0.3), "step"),
        (lambda: LinearProgramMechanism(STEP, UNIT, step=2.0), "step"),
        (lambda: DistancePrior([]), "distances"),
        (lambda: DistancePrior([1.0, math.inf]), "distances[1]"),
        (lambda: DistancePrior([1e91]), "distances"),
        (lambda: DistancePrior("12"), "distances"),
        (lambda: DistancePrior([1.0], [1.0, 2.0]), "weights"),
        (lambda: DistancePrior([1.0, 2.0], [1.0, -2.0]), "weights"),
        (lambda: DistancePrior([1.0], [0.0]), "weights"),
        (lambda: DistancePrior.uniform(1.0, 1.0), "high"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name == name


def test_a_private_value_is_not_shown(channels):
    with pytest.raises(PrivateValueError) as caught:
        channels["step"].release(math.nan)
    assert "nan" not in str(caught.value)


def test_a_quick_channel_is_coarser_and_nearly_as_good(channels):
    quick = LinearProgramMechanism(STEP, UNIT, quick=True)
    thorough = channels["step"]
    assert len(quick.atoms) < len(thorough.atoms)
    assert thorough.expected_variance < quick.expected_variance < 1.05 * thorough.expected_variance
    s = np.linspace(-3.0, 3.0, 601)
    y = np.array(quick.atoms)[:, None]
    density = quick.log_density(y, s)
    assert np.abs(np.diff(density, axis=1)).max() <= 0.01 * (1 + 1e-6)  # ε·0.01 between neighbours
    with pytest.raises(ParameterError, match="quick"):
        LinearProgramMechanism(STEP, UNIT, quick=1)


def test_too_wide_a_query_is_refused_with_advice():
    with pytest.raises(UnsupportedError, match="DebiasedLaplace"):
        LinearProgramMechanism(Threshold(0, 500.0, "smoothstep"), UNIT)


def test_priors_and_variation():
    assert variation(STEP.profile) == (-1.0, 1.0)
    assert variation(RAMP.profile) == (-1.0, 1.0)
    low, high = variation(BELL.profile)
    assert low == 0
    assert 4.07 < high < 4.5  # e^{−s²/2} = 2^-12 at s = 4.08
    assert is_even(BELL.profile)
    assert not is_even(STEP.profile)
    assert default_prior(STEP.profile) == DistancePrior.uniform(-1.0, 1.0)
    prior = DistancePrior.of_points(BELL, [[3.0, 4.0], [0.0, 1.0]], [3, 1])
    assert prior == DistancePrior([1.0, 5.0], [0.25, 0.75])
