"""Test clipped distances: the same answer, and at most the stated ε of any two points."""

import math
from fractions import Fraction

import numpy as np
import pytest

from geoveil.gp import (
    ApproximateLaplace,
    Cap,
    Capped,
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeneralizedCauchy,
    GeoPrivacy,
    LipschitzMechanism,
    ParameterError,
    Polygon,
    Radial,
    Range,
    SmoothMechanism,
    StudentT,
    TabulatedProfile,
    Threshold,
    TwoWayThreshold,
    VectorSmoothMechanism,
)

UNIT = GeoPrivacy(1.0, per=1.0)
ALPHA_Z = 4.9
"""Standard errors: α = 1e-6."""
SHARES = (0.49, 0.18, 0.05, 0.003)
HILL = TabulatedProfile((0.0, 1.0, 4.0), (1.0, 0.6, 0.1), (0.0, -0.3, -0.3, 0.0))
SQUARE = ((-6.0, -4.0), (6.0, -4.0), (6.0, 4.0), (-6.0, 4.0))
QUERIES = {
    "threshold": Threshold(0.0, 3.0, "smoothstep"),
    "ramp": Threshold(0.0, 2.0),
    "range": Range(-3.0, 3.0, 3.0, "smoothstep"),
    "two-way": TwoWayThreshold((0.0, 0.0), 3.0, "smoothstep"),
    "disc": Disc((0.0, 0.0), 4.0, 3.0, "smoothstep"),
    "polygon": Polygon(SQUARE, 3.0, "smoothstep"),
    "kernel": GaussianKernel((0.0, 0.0), 1.5),
    "line": GaussianKernel(0.0, 1.5),
    "hill": Radial(HILL, (0.0,)),
}
NEARER = {"kernel": Cap(1.0, 6.0), "line": Cap(1.0, 6.0), "hill": Cap(1.0, 4.0)}


def capped(name, cap=None):
    return (cap or NEARER.get(name, Cap(4.0, 4.0))).on(QUERIES[name], UNIT.exact_rate)


def people(name, share, n, draw):
    """Return n points: a share near where the query is large, the others spread far away."""
    query = QUERIES[name]
    inside = draw.random(n) < share
    near = 2.0 * draw.standard_normal((n, query.dimension))
    far = draw.choice([-1.0, 1.0], (n, query.dimension)) * draw.uniform(20, 4_000, (n, 1))
    if name in ("threshold", "ramp", "two-way"):
        near, far = np.abs(near), -np.abs(far)
    points = np.where(inside[:, None], near, far)
    return points[:, 0] if query.dimension == 1 else points


@pytest.mark.deep(keep=6, rest=3)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_estimated_is_the_same_but_for_what_a_kernel_says(name, share):
    """n = 100,000 each, α = 1e-6; of a kernel the answers of all who are far are 0.001 at most."""
    draw = np.random.default_rng([len(name), round(1000 * share)])
    points = people(name, share, 100_000, draw)
    query, clipped = QUERIES[name], capped(name)
    truth = query.value(points)
    moved = clipped.value(points) - truth
    assert (moved == 0).all() or (name in NEARER and 0 <= moved.min() <= moved.max() <= 0.001)
    kinds = [SmoothMechanism, LipschitzMechanism]
    if name not in ("ramp", "hill"):
        kinds.append(DebiasedLaplace)
    for kind in kinds:
        mechanism = kind(clipped, UNIT)
        reports = np.asarray(mechanism.simulate(points, draw))
        error = reports.mean() - truth.mean() - moved.mean()
        assert abs(error) <= ALPHA_Z * math.sqrt(mechanism.variance(points).mean() / len(points))
    if name in ("threshold", "two-way"):  # the control: clipped within the band
        wrong = DebiasedLaplace(Capped(query, Fraction(1), Fraction(1)), UNIT)
        error = np.mean(wrong.simulate(points, draw)) - truth.mean()
        assert abs(error) > ALPHA_Z * math.sqrt(wrong.variance(points).mean() / len(points))


@pytest.mark.parametrize("side", [-1, 1])
def test_far_people_s_variance_is_that_of_the_closed_form(side):
    """For a step of 3 scales: .19 e^(−(4 − 1.5)) to 2 digits, and 1 % of the integral itself."""
    mechanism = DebiasedLaplace(capped("threshold"), UNIT)
    far = mechanism.variance(np.array([side * 1e6]))[0]
    v = np.linspace(-1.5, 1.5, 200_001)
    t = v / 3 + 0.5
    g = 3 * t**2 - 2 * t**3 - (6 - 12 * t) / 9 - (side > 0)
    law = np.exp(-np.abs(v - 4 * side)) / 2
    beyond = math.exp(-5.5) / 2  # on the other plateau, 1 away
    assert far == pytest.approx(np.trapezoid(g**2 * law, v) + beyond, rel=0.01)
    assert far == pytest.approx(0.19 * math.exp(-2.5), rel=0.05)
    draws = mechanism.simulate(np.full(400_000, side * 1e6), np.random.default_rng(2))
    assert np.var(draws) == pytest.approx(far, rel=0.05)
    smooth = SmoothMechanism(capped("ramp"), UNIT)
    assert smooth.variance(1e6) == SmoothMechanism(QUERIES["ramp"], UNIT).variance(4.0)


def mechanisms():
    for name in QUERIES:
        clipped = capped(name)
        if name not in ("ramp", "hill"):
            yield DebiasedLaplace(clipped, UNIT)
        for noise in (None, StudentT(3.0), GeneralizedCauchy(4.0)):
            yield SmoothMechanism(clipped, UNIT, noise=noise)
        yield LipschitzMechanism(clipped, UNIT)
    yield SmoothMechanism(
        capped("ramp"), UNIT, noise=StudentT(3.0), reach=math.inf, calibration="paper"
    )


@pytest.mark.deep(keep=6, rest=3)
@pytest.mark.parametrize("mechanism", list(mechanisms()), ids=lambda m: f"{m.query.query} {m.noise}"
                         if hasattr(m, "noise") else f"{m.query.query}")  # fmt: skip
def test_no_two_points_are_told_apart_better_than_is_stated(mechanism):
    """The oracle: all pairs of 77 points, some of them very far, at 600 outputs and the atoms."""
    steps = np.concatenate([np.linspace(-9, 9, 73), [-1e6, -50, 50, 1e6]])
    k = mechanism.query.dimension
    points = steps if k == 1 else np.concatenate([np.stack([steps, steps], 1),
                                                  np.stack([steps, 0 * steps], 1)])  # fmt: skip
    spread = getattr(mechanism, "largest_scale", 1.0) * np.geomspace(1e-4, 1e6, 150)
    outputs = np.concatenate([-spread, spread, 1 + spread, 1 - spread, mechanism.atoms])
    with np.errstate(divide="ignore"):
        logs = mechanism.log_density(outputs[:, None], points)
    logs = logs[np.isfinite(logs).all(axis=1)]
    found = np.ptp(logs, axis=1).max()
    assert 0.2 * mechanism.largest_epsilon < found <= mechanism.largest_epsilon + 1e-9
    free = type(mechanism)(mechanism.query.unclipped, UNIT)
    assert free.largest_epsilon == (
        mechanism.largest_epsilon if isinstance(mechanism, LipschitzMechanism) else math.inf
    )


def test_what_is_stated_counts_only_distances_that_there_are():
    """Half of a range, a radius, a centre; of a polygon no more than half of its narrower side."""
    stated = {name: DebiasedLaplace(capped(name), UNIT).largest_epsilon
              for name in QUERIES if name not in ("ramp", "hill")}  # fmt: skip
    assert stated == {"threshold": 8.0, "range": 7.0, "two-way": 8.0, "disc": 8.0, "polygon": 8.0,
                      "kernel": 6.0, "line": 6.0}  # fmt: skip
    wide = Cap(4.0, 40.0)
    most = {name: DebiasedLaplace(capped(name, wide), UNIT).largest_epsilon
            for name in ("range", "disc", "polygon")}  # fmt: skip
    assert most == {"range": 7.0, "disc": 8.0, "polygon": 8.0}
    assert LipschitzMechanism(QUERIES["ramp"], UNIT).largest_epsilon == pytest.approx(2.0)
    slack = GeoPrivacy(1.0, 1.0, delta=1e-6, reach=8.0)
    assert ApproximateLaplace(capped("ramp"), slack, calibration="paper").largest_epsilon == 8.0
    near = GeoPrivacy(1.0, 1.0, delta=1e-6, reach=7.9)
    assert ApproximateLaplace(capped("ramp"), near, calibration="paper").largest_epsilon == math.inf


def test_answers_together_are_those_of_clipped_distances():
    asked = [Cap(4.0, 4.0).on(Threshold(at, 2.0), UNIT.exact_rate) for at in (0.0, 9.0)]
    free = [query.unclipped for query in asked]
    clipped, other = (VectorSmoothMechanism(q, UNIT) for q in (asked, free))
    assert clipped.frontier is other.frontier
    near = np.array([0.0, 3.0, 9.0])
    assert clipped.variance(near).tolist() == other.variance(near).tolist()
    assert (clipped.variance(1e6) > other.variance(1e6)).all()


@pytest.mark.parametrize(
    ("name", "cap", "side"),
    [
        ("threshold", Cap(1.5, 1.5), None),
        ("threshold", Cap(math.nextafter(1.5, 0), 4.0), "below"),
        ("threshold", Cap(4.0, math.nextafter(1.5, 0)), "above"),
        ("range", Cap(4.0, 1.4), "above"),
        ("disc", Cap(1.4, 4.0), "below"),
        ("polygon", Cap(4.0, 1.4), "above"),
        ("kernel", Cap(1e-9, 5.5754), None),  # where it is 0.001, a tenth of 1 %
        ("kernel", Cap(9.0, 5.5753), "above"),
        ("hill", Cap(1e-9, 4.0), None),
        ("hill", Cap(4.0, 3.9), "above"),
    ],
)
def test_a_side_within_what_varies_is_refused_by_its_name(name, cap, side):
    if side is None:
        assert cap.on(QUERIES[name], UNIT.exact_rate).query is QUERIES[name]
        return
    with pytest.raises(ParameterError, match=f"^cap.{side} must be at least"):
        cap.on(QUERIES[name], UNIT.exact_rate)


@pytest.mark.parametrize("side", ["below", "above"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.0, -1.0, "4", None, 1e51])
def test_a_side_that_is_no_length_is_refused_by_its_name(side, value):
    with pytest.raises(ParameterError, match=f"^cap.{side} "):
        Cap(**{"below": 4.0, "above": 4.0, side: value})


def test_what_perturbed_numbers_answer_is_not_clipped_to_something_else():
    """Their noise is added before the clip: there g of a step is level, and of a bell it is not."""
    assert capped("threshold").nests
    assert capped("range").nests
    assert not capped("line").nests
