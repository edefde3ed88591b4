"""Test that the table of `geoveil audit` is complete, right, and fails mechanisms that leak."""

import inspect
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from geoveil.audit import (
    audit,
    catalogue,
    exact_delta,
    exact_epsilon,
    faults,
    pair_count,
)
from geoveil.audit.case import first_number
from geoveil.audit.catalogue import _ROWS, INCOME, RAMP
from geoveil.audit.faults import less_noise
from geoveil.gp import GeoPrivacy, LipschitzMechanism, LocalPrivacy, ParameterError, mechanisms
from geoveil.gp.mechanisms.additive import AdditiveMechanism
from tests.shared import once

pytestmark = pytest.mark.deep  # the table of every mechanism and of every fault takes a minute

NOT_MECHANISMS = {"Channel", "Mechanism", "QueryMechanism", "VectorAnswer"}
"""Data, the contract, what is computed from reports, and a part of a vector that has a row."""
TIGHT = [
    "SmoothMechanism LaplacePareto, reach 0 Threshold, linear",
    "SmoothMechanism LaplacePareto, reach ∞ Threshold, linear",
    "SmoothMechanism PowerLaw, reach 0 Threshold, smoothstep",
    "SmoothMechanism PowerLaw, reach 0 GaussianKernel",
    "SmoothMechanism StudentT, reach ∞ Threshold, linear",
    "SmoothMechanism GeneralizedCauchy, reach ∞ Threshold, linear",
    "LipschitzMechanism  Threshold, linear",
    "DebiasedLaplace  GaussianKernel",
    "Cap any two, within 1.5/ε Threshold, smoothstep",
    "PlanarLaplace  the value",
    "PlanarLaplace  the place",
    "History answers at ε, ε/2 and ε/2 two epochs",
    "History answers at ε/2 and ε/4 two epochs",
    "History extrapolated two epochs",
    "History extrapolated, by who came later two epochs",
    "History questions to the point two epochs",
    "LocalLaplace  Threshold, linear",
    "RandomizedResponse  Threshold, linear",
    "KaryResponse  4 options",
    "UnaryEncoding  4 options",
    "OrdinalResponse  4 options",
    "SubsetResponse  sets of 4 options",
    "FormCampaign  pairs of forms",
]


@pytest.fixture(scope="module")
def cases():
    """All rows by name, variant and query."""
    found = {name: catalogue(name) for name in _ROWS}
    assert all(case.name == name for name, rows in found.items() for case in rows)
    return {f"{c.name} {c.variant} {c.query}": c for rows in found.values() for c in rows}


@pytest.fixture(scope="module")
def verdicts(request, tmp_path_factory):
    """n = 5,000 a point; all bounds hold together with probability 1 − 1e-6."""

    def found():
        cases = request.getfixturevalue("cases")
        return dict(zip(cases, audit(tuple(cases.values()), samples=5_000, seed=3), strict=True))

    return once(tmp_path_factory, "verdicts", found)


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """n = 100,000 a point, the default."""
    return once(
        tmp_path_factory,
        "faulty",
        lambda: {verdict.variant: verdict for verdict in audit(faults())},
    )


@pytest.mark.deep
def test_every_public_mechanism_has_a_row(cases):
    public = {
        name for name in mechanisms.__all__ if inspect.isclass(getattr(mechanisms, name))
    } - NOT_MECHANISMS
    assert public
    assert public <= {case.name for case in cases.values()}


def test_rows_can_be_told_apart(cases):
    rows = catalogue()
    assert [f"{case.name} {case.variant} {case.query}" for case in rows] == list(cases)
    assert pair_count(rows) == sum(len(case.pairs) for case in cases.values())


def test_pairs_lie_at_several_distances(cases):
    for label, case in cases.items():
        distances = {round(float(np.linalg.norm(np.atleast_1d(a - b))), 6) for a, b in case.pairs}
        assert len(distances) >= 3 or isinstance(case.mechanism.privacy, LocalPrivacy), label
        assert all(math.isfinite(d) and d > 0 for d in distances), label


@pytest.mark.deep
def test_every_mechanism_keeps_its_promise(verdicts):
    for label, verdict in verdicts.items():
        assert verdict.keeps, label
        assert not verdict.caught, label
        assert 0.5 <= verdict.exact.fraction <= 1 + 1e-6, label


def test_samples_never_prove_more_than_densities_show(verdicts):
    """What a bound proves at any distance is at most the largest rate, found from densities."""
    for label, verdict in verdicts.items():
        assert verdict.black_box.fraction <= verdict.exact.fraction + 1e-6, label


@pytest.mark.parametrize("label", TIGHT)
def test_where_epsilon_is_used_up_the_auditor_finds_all_of_it(verdicts, label):
    assert verdicts[label].exact.fraction >= 0.999


def test_the_witness_shows_what_is_claimed(cases, verdicts):
    for label in cases:
        if label.startswith("Approximate"):
            continue
        mechanism, witness = cases[label].mechanism, verdicts[label].exact
        x, other, y = (
            np.array(p) if len(p) > 1 else p[0] for p in (witness.x, witness.other, witness.y)
        )
        distance = float(np.linalg.norm(np.subtract(x, other)))
        loss = abs(float(mechanism.log_density(y, x)) - float(mechanism.log_density(y, other)))
        shown = loss / mechanism.privacy.at(distance)
        assert shown == pytest.approx(witness.fraction, rel=1e-6), label


def test_the_slack_is_used(cases):
    """The exact calibration: most of δ at the worst pair, never more; 3 % less noise is too little.

    The paper's uses a fiftieth of it.
    """
    used = {}
    for label, case in cases.items():
        if not label.startswith("Approximate"):
            continue
        promise = case.mechanism.privacy
        worst = {}
        for factor in (1.0, 0.97):
            law = Scaled(case.mechanism, factor)
            worst[factor] = max(
                exact_delta(
                    law, x, other, case.outputs, promise.at(float(np.linalg.norm(x - other)))
                )
                for x, other in case.pairs
            )
        assert worst[1.0] <= promise.delta * (1 + 1e-6), label
        used[label] = worst[1.0] / promise.delta, worst[0.97] / promise.delta
    full = [label for label in used if used[label][0] >= 0.65]
    assert len(full) == 3
    assert all("exact" in label for label in full)
    assert all(used[label][1] > 1 for label in full if "linear" not in label)
    (paper,) = (used[label][0] for label in used if "paper" in label)
    assert paper < 0.02


class Scaled:
    """A mechanism with its noise scaled by a factor."""

    def __init__(self, mechanism, factor):
        self.mechanism, self.factor = mechanism, factor

    def log_density(self, y, x):
        mean = self.mechanism.mean(x)
        return self.mechanism.log_density(mean + (y - mean) / self.factor, x) - math.log(
            self.factor
        )


def test_less_noise_would_be_noticed_in_every_tight_row(cases):
    """Control: the same rows with their noise scaled by 0.7."""
    tight = [cases[label] for label in TIGHT]
    additive = [case for case in tight if isinstance(case.mechanism, AdditiveMechanism)]
    assert len(additive) >= 8
    for case in additive:
        (verdict,) = audit([replace(case, mechanism=less_noise(case.mechanism))], samples=1000)
        assert verdict.exact.fraction > 1.05, case
        assert not verdict.keeps, case


@pytest.mark.deep(rest=0)  # the command's test of --faults catches a fifth of them
def test_all_faults_are_caught_from_samples_alone(faulty):
    old = {name: verdict for name, verdict in faulty.items() if verdict.caught}
    assert set(old) == {
        "noise × 0.7",
        "β doubled",
        "|∇f| for B",
        "feet for metres",
        "clipped a scale too far",
        "redrawn in an epoch",
        "the largest for the sum",
        "the largest asked",
        "read when it is above",
        "atom at a moved value",
        "a reading for each question",
        "answered from a finer point",
        "moved on by the true change",
        "moved on from a point drawn anew",
        "never the last option",
        "the true bit at ¾",
        "an end as it is",
        "only ticks inverted",
        "noise by another field",
        "not asked, below the range",
    }
    assert len(faulty) == 36  # the others' densities or releases tell
    assert not any(verdict.keeps for verdict in faulty.values())
    released = sum(not verdict.releases_agree for verdict in faulty.values())
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert f"hands it {len(faulty)} broken mechanisms and histories" in readme
    counted = f"{len(old)} from their reports alone, {released} from the integers they release"
    assert f"{counted}, and {len(faulty) - len(old) - released} from densities" in readme


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize(
    ("fault", "truth"),
    [
        ("noise × 0.7", 1 / 0.7),  # slopes are divided by it
        ("β doubled", 2.0),  # in the tail of Z the scale alone counts
        ("feet for metres", 1 / 0.3048),
        ("clipped a scale too far", 4 / 3),  # a report of 1: 1/2 at 1.5 inside, e^(−4)/2 outside
        ("redrawn in an epoch", 2.0),  # two answers at ε each
        ("the largest for the sum", 1.5),  # ε and ε/2
        ("the largest asked", 2.0),  # the point is seen, which is twice as fine
        ("read when it is above", math.inf),
        ("atom at a moved value", math.inf),
        ("a reading for each question", 3.0),  # of three questions
        ("answered from a finer point", 2.0),  # twice as fine as is charged
        ("moved on by the true change", 2.0),  # at age 1 the second value counts twice
        ("moved on from a point drawn anew", 1.5),  # half of a reading, at age 1
        ("never the last option", math.inf),
        ("the true bit at ¾", 1 + math.log(3)),  # a bit that is on, and one that is off
        ("an end as it is", math.inf),
        ("only ticks inverted", math.inf),
        ("not asked, below the range", 11 / 3.5),  # 20 of 2 a year, and the choice, for half of it
    ],
)
def test_faults_are_as_bad_as_theory_says(faulty, fault, truth):
    assert faulty[fault].exact.fraction == pytest.approx(truth, rel=1e-3)
    assert faulty[fault].black_box.fraction <= truth


def test_a_faulty_density_is_that_of_the_faulty_samples():
    """Oracle: P[y ≤ 0.4], counted. n = 200,000, α = 1e-6 (4.9 standard errors)."""
    rng = np.random.default_rng(5)
    y = np.linspace(-60.0, 0.4, 120_001)
    for case in faults()[:3]:
        x = case.pairs[1][1]
        inside = np.mean(
            case.mechanism.simulate(np.broadcast_to(x, (200_000, *x.shape)), rng) <= 0.4
        )
        expected = np.trapezoid(np.exp(case.mechanism.log_density(y, x)), y)
        assert inside == pytest.approx(expected, abs=4.9 * 0.5 / math.sqrt(200_000))


def test_the_same_seed_gives_the_same_table_and_another_does_not():
    rows = catalogue("LocalLaplace")
    first, again = audit(rows, samples=5000, seed=7), audit(rows, samples=5000, seed=7)
    assert first == again
    assert audit(rows, samples=5000, seed=8) != first


@pytest.mark.deep
def test_the_failure_probability_is_shared_by_the_whole_table(verdicts):
    """Alone, a row has all of it, and proves more from the same samples."""
    for verdict in audit(catalogue("LocalLaplace"), samples=20_000, seed=3):
        together = verdicts[f"{verdict.mechanism} {verdict.variant} {verdict.query}"]
        assert verdict.exact == together.exact
        assert verdict.black_box.fraction > together.black_box.fraction


def test_in_the_discrete_metric_all_pairs_count(verdicts):
    """Oracle: two nested loops over the points."""
    (case,) = catalogue("LocalLaplace")
    logs = case.mechanism.log_density(case.outputs[:, None], case.path[::8])
    worst = max(
        float(np.abs(logs[:, i] - logs[:, j]).max()) for i in range(logs.shape[1]) for j in range(i)
    )
    assert verdicts["LocalLaplace  Threshold, linear"].exact.fraction == pytest.approx(worst)


def test_reports_of_several_numbers_are_reduced_to_one():
    assert first_number(np.arange(6.0).reshape(3, 2)).tolist() == [0.0, 2.0, 4.0]
    assert first_number(np.arange(3.0)).tolist() == [0.0, 1.0, 2.0]


@dataclass
class Uniform:
    """x + a uniform number: some outputs of one point are impossible at another."""

    privacy: GeoPrivacy | LocalPrivacy = INCOME

    def simulate(self, x, rng):
        return x + rng.uniform(-20_000.0, 20_000.0, np.shape(x))

    def log_density(self, y, x):
        inside = np.abs(np.subtract(y, x)) <= 20_000.0
        return np.where(inside, -math.log(40_000.0), -math.inf)


@pytest.mark.parametrize("privacy", [INCOME, LocalPrivacy(1.0)])
def test_a_mechanism_of_ones_own_with_an_infinite_loss_is_failed_by_both(privacy):
    outputs = np.linspace(60_000.0, 140_000.0, 161)
    (verdict,) = audit([RAMP.case(Uniform(privacy), outputs)])
    assert verdict.exact.fraction == math.inf
    assert verdict.mechanism == "Uniform"
    assert verdict.caught
    assert not verdict.keeps
    found = verdict.to_dict()["exact"]
    assert found["fraction"] is None
    points = [found["x"][0], found["other"][0]]
    assert sum(abs(found["y"][0] - x) <= 20_000.0 for x in points) == 1


@dataclass
class Normal:
    """x + N(0, 1), whose slack has a closed form."""

    def log_density(self, y, x):
        return stats.norm.logpdf(np.subtract(y, x))


GRID = np.linspace(-14.0, 14.0, 20_001)


def one_row():
    return catalogue("LipschitzMechanism")[:1]


@pytest.mark.parametrize("distance", [0.1, 1.0, 2.5])
@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.03])
def test_epsilon_beside_a_slack_for_normal_noise(distance, delta):
    """Oracle: δ(ε) = Φ(d/2 − ε/d) − e^ε Φ(−d/2 − ε/d)."""
    epsilon = exact_epsilon(Normal(), 0.0, distance, GRID, delta).rate
    half, tilt = distance / 2, epsilon / distance
    needed = stats.norm.cdf(half - tilt) - math.exp(epsilon) * stats.norm.cdf(-half - tilt)
    assert epsilon > 0
    assert needed == pytest.approx(delta, rel=1e-4)


@pytest.mark.parametrize("delta", [1e-3, 0.2])
def test_epsilon_beside_a_slack_for_laplace_noise(delta):
    """Oracle: the excess of Laplace noise shifted by d is 1 − e^{(ε−d)/2}, for ε ≤ d."""
    mechanism = LipschitzMechanism(catalogue("LipschitzMechanism")[0].mechanism.query,
                                   GeoPrivacy(1.0, per=16_000.0))  # fmt: skip
    finding = exact_epsilon(mechanism, 92_000.0, 108_000.0, np.linspace(-40, 41, 40_501), delta)
    assert finding.rate == pytest.approx(1 + 2 * math.log(1 - delta), abs=1e-4)


def test_epsilon_is_nothing_where_the_slack_suffices_and_the_witness_tells_the_direction():
    assert exact_epsilon(Normal(), 0.0, 0.1, GRID, 0.5).rate == 0.0
    finding = exact_epsilon(Normal(), 0.0, 2.0, GRID, 0.01)
    assert (finding.y - 1.0) * (finding.x[0] - 1.0) > 0  # an output on the side of x


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: catalogue("Magic"), "mechanism"),
        (lambda: catalogue(3), "mechanism"),
        (lambda: audit([]), "cases"),
        (lambda: audit([RAMP.case(Uniform(), [1e9, 2e9])]), "outputs"),
        (lambda: audit([RAMP.case(Uniform(), [math.nan])]), "outputs"),
        (lambda: audit(one_row(), samples=999), "samples"),
        (lambda: audit(one_row(), samples=True), "samples"),
        (lambda: audit(one_row(), samples=2000.0), "samples"),
        (lambda: audit(one_row(), samples=10**8), "samples"),
        (lambda: audit(one_row(), seed=-1), "seed"),
        (lambda: audit(one_row(), failure_probability=0.0), "failure_probability"),
        (lambda: audit(one_row(), failure_probability=math.nan), "failure_probability"),
        (lambda: exact_epsilon(Normal(), 0.0, 1.0, GRID, 0.0), "delta"),
        (lambda: exact_epsilon(Normal(), 0.0, 1.0, GRID, math.nan), "delta"),
        (lambda: exact_epsilon(Normal(), 0.0, 1.0, GRID[::-1], 0.1), "outputs"),
        (lambda: exact_epsilon(Normal(), 0.0, 1.0, GRID[:2], 0.1), "outputs"),
        (lambda: exact_epsilon(Normal(), 0.0, 1.0, GRID[:, None], 0.1), "outputs"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ParameterError) as caught:
        call()
    assert caught.value.name == name
