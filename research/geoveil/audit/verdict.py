"""Run both auditors on every row of a table, and state the used fraction of each promise."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.audit.black_box import black_box_bound
from geoveil.audit.case import Case, Pair, moving, require_whole
from geoveil.audit.draws import Draws, draws_of, releases_of
from geoveil.audit.exact import Masses, exact_rate
from geoveil.audit.refinement import (
    FAINT,
    edges_of_support,
    log_densities,
    refined,
    resolved,
    with_far_points,
    with_narrow_steps,
)
from geoveil.gp import GeoPrivacy, LocalPrivacy, ParameterError, validation

Point = tuple[float, ...]

_ROUNDING = 1e-6
"""Tolerance of a fraction above 1, for the rounding of quotients and sums."""


@dataclass(frozen=True, slots=True)
class Exact:
    """The largest fraction of the promised ε by densities, with its place."""

    fraction: float
    """Log-ratio of densities over the promise at that distance; infinite if one is 0."""
    x: Point
    """One point."""
    other: Point
    """The other."""
    y: Point
    """The output with the largest difference."""


@dataclass(frozen=True, slots=True)
class BlackBox:
    """The largest fraction of the promised ε that samples prove, with its place."""

    fraction: float
    """Lower confidence bound over the promise at that distance; 0 without a proof."""
    x: Point
    """One point."""
    other: Point
    """The other."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The audit's verdict on one row."""

    mechanism: str
    variant: str
    query: str
    privacy: str
    """The promise: ε with its unit."""
    exact: Exact
    black_box: BlackBox
    draws: Draws | None = None
    """The test of its releases; None without releases, or without a closed law of integers."""

    @property
    def keeps(self) -> bool:
        """Whether neither auditor exceeds the promise, and releases follow their stated law."""
        return self.exact.fraction <= 1 + _ROUNDING and not self.caught and self.releases_agree

    @property
    def releases_agree(self) -> bool:
        """Whether releases follow their stated law, or were not compared."""
        return self.draws is None or self.draws.agree

    @property
    def caught(self) -> bool:
        """Whether samples alone prove that the promise is broken."""
        return self.black_box.fraction > 1

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name, and both conclusions; None stands for an infinite fraction."""
        row: dict[str, object] = {**asdict(self), "keeps": self.keeps, "caught": self.caught}
        if self.exact.fraction == math.inf:
            row["exact"] = {**asdict(self.exact), "fraction": None}
        return row


Array = NDArray[np.float64]

FAILURE_PROBABILITY = 1e-6
"""The probability that any black-box bound in the whole table is above the truth."""
_APART, _STRIDE = (8, 16, 24, 32, 48, 64, 80, 96, 128, 192, 256, 384, 512), 8
"""Steps of the path between compared points for guarantees with δ, and to the next pair."""
_ALL = 1 - 1e-9
"""A slack with which every pair of laws keeps any promise."""
_LOUD = 500.0
"""The least ε of a pair that counts as no promise."""
_THIN = 1 / 100
"""Length of a step of the path, in units of `per`, below that of every row except added strips."""
_AROUND = (0, 8, 16, 32, 64)
"""Lengths of an added strip on both sides of it, between compared points."""


def audit(
    cases: Sequence[Case],
    *,
    samples: int = 100_000,
    seed: int = 1,
    failure_probability: float = FAILURE_PROBABILITY,
) -> tuple[Verdict, ...]:
    """Audit every row: exactly, as a black box, and by its releases.

    The exact auditor checks the points and outputs of the row, far points, and finer ones where
    densities change fastest: it can refute a promise but not prove it. The black box draws float64
    simulations. Releases are compared with the law of integers that follows from the densities
    (`geoveil.audit.draws`): if a release is fast, `samples` of them, half as many for a user's
    mechanism, and a tenth as many for the library's. So an event of one report in 100,000 goes
    unnoticed.

    The failure probability is for the whole table, and as much again for rows with releases.
    A row draws the same samples whatever other rows are audited with it; half of its releases take
    the system's bits, as devices do.

    Args:
        cases: the rows.
        samples: reports per point of a pair, in [1000, 10⁷].
        seed: ≥ 0; the same seed gives the same table, except for releases with the system's bits.
        failure_probability: probability that any black-box bound is above the truth, and that
            any row whose releases follow the stated law is refused; in (0, 1).

    Raises:
        ParameterError: if there is no row or a number is out of range.

    Example:
        >>> from geoveil.audit import catalogue
        >>> rows = audit(catalogue("LipschitzMechanism"), samples=2000)
        >>> {row.keeps for row in rows}
        {True}
    """
    if not cases:
        raise ParameterError("cases", cases, "at least one row")
    require_whole("samples", samples, 1000, 10_000_000)
    require_whole("seed", seed, 0, 2**63 - 1)
    validation.between(
        "failure_probability", failure_probability, 0, 1, low_open=True, high_open=True
    )
    share = failure_probability / pair_count(cases)
    releasing = sum(hasattr(case.mechanism, "release_many") for case in cases)
    verdicts = []
    for case in cases:
        label = f"{case.name} {case.variant} {case.query}".encode()
        of_row = zlib.crc32(label)
        rng = np.random.default_rng([seed, of_row])
        verdicts.append(
            Verdict(
                mechanism=case.name,
                variant=case.variant,
                query=case.query,
                privacy=str(case.mechanism.privacy),
                exact=_exact(case),
                black_box=_black_box(case, samples, rng, share),
                draws=draws_of(
                    case,
                    releases_of(case, samples),
                    (seed << 32) + of_row,
                    failure_probability / max(releasing, 1),
                ),
            )
        )
    return tuple(verdicts)


def pair_count(cases: Iterable[Case]) -> int:
    """Return the number of black-box tests in a table: its pairs."""
    return sum(len(case.pairs) for case in cases)


def _exact(case: Case) -> Exact:
    """Return the result of the exact auditor for this kind of guarantee."""
    privacy = case.mechanism.privacy
    with np.errstate(all="ignore"):  # far away, noise may have vanished
        if isinstance(privacy, GeoPrivacy) and privacy.delta > 0:
            return _with_slack(case, privacy)
        added = edges_of_support(case)
        if len(added):
            case = replace(case, outputs=np.unique(np.concatenate([case.outputs, added])))
        if isinstance(privacy, LocalPrivacy):
            return _any_two(case, privacy)
        return _neighbours(case, privacy)


def _neighbours(case: Case, privacy: GeoPrivacy) -> Exact:
    """Compare neighbours on the path, whose losses add up to those of points farther apart."""
    case = replace(case, path=with_narrow_steps(case))
    case = replace(case, path=with_far_points(case))
    path, logs = refined(case, case.path, _logs(case))
    apart = moving(path)  # floats have no points between neighbouring ones
    path, logs = path[apart], logs[:, apart]
    case = replace(case, path=path)
    impossible = ~np.isfinite(resolved(logs))
    lengths = np.linalg.norm(np.diff(path, axis=0).reshape(len(path) - 1, -1), axis=1)
    row, column = np.nonzero(impossible[:, 1:] != impossible[:, :-1])
    least = np.maximum(logs[row, column + 1], logs[row, column]) - privacy.rate * lengths[column]
    jumps = np.flatnonzero(least > FAINT)
    if len(jumps):
        row, column = row[jumps[0]], column[jumps[0]]
        near, far = case.path[column], case.path[column + 1]
        return Exact(math.inf, _point(near), _point(far), _point(case.outputs[row]))
    # Outputs are identified by their index, as they may be vectors.
    finding = exact_rate(_Known(logs), case.path, np.arange(len(case.outputs)))
    y = case.outputs[int(finding.y)]
    return Exact(finding.rate / privacy.rate, finding.x, finding.other, _point(y))


def _logs(case: Case) -> Array:
    """Return the log-density of every output (row) at every point of the path (column)."""
    logs = log_densities(case, case.path)
    if np.isnan(logs).any() or not np.isfinite(logs).any():
        raise ParameterError(
            "outputs", f"{len(case.outputs)} outputs", "outputs with a log-density, some finite"
        )
    return logs


@dataclass(frozen=True, slots=True)
class _Known:
    """A cache of log-densities, by index of the output."""

    logs: Array

    def log_density(self, y: ArrayLike, x: ArrayLike) -> Array:
        return resolved(self.logs[np.ravel(y).astype(np.intp)])


def _any_two(case: Case, privacy: LocalPrivacy) -> Exact:
    """Compare all pairs of the path, which have equal distances in the discrete metric."""
    case = replace(case, path=with_narrow_steps(case))
    case = replace(case, path=with_far_points(case))
    logs = _logs(case)
    # Where densities are fainter, one of them may underflow.
    apart = np.where(logs.max(axis=1) > FAINT, np.ptp(logs, axis=1), 0.0)
    row = int(np.argmax(apart))
    high, low = int(np.argmax(logs[row])), int(np.argmin(logs[row]))
    return Exact(
        float(apart[row]) / privacy.epsilon,
        _point(case.path[high]),
        _point(case.path[low]),
        _point(case.outputs[row]),
    )


def _with_slack(case: Case, privacy: GeoPrivacy) -> Exact:
    """Compare pairs of the row and the worst of many others: a slack does not chain.

    Mass of the two laws that the outputs don't resolve is allowed for, too.
    """
    path = case.path
    pairs = list(case.pairs)
    apart = [pair for n in _APART for pair in zip(path[::_STRIDE], path[n::_STRIDE], strict=False)]
    others = [pair for pair in apart if privacy.at(_distance(pair)) < _LOUD]
    far = pairwise(with_far_points(replace(case, path=path[[0, 1, -2, -1]])))
    others += [pair for pair in far if _distance(pair) < case.per]
    narrow = pairwise(with_narrow_steps(case))
    for low, high in narrow:
        if _distance((low, high)) < case.per * _THIN:
            others += [(low - n * (high - low), high + n * (high - low)) for n in _AROUND]
    masses = Masses(case.mechanism, case.outputs, case.atoms)
    points = np.unique([point for pair in (*pairs, *others) for point in pair], axis=0)
    if len(ends := masses.ends_of_jumps(points)):
        masses = Masses(case.mechanism, np.union1d(case.outputs, ends), case.atoms)
    worst = 0.0
    for x, other in others:
        distance = _distance((x, other))
        delta = masses.delta(x, other, privacy.at(distance))
        beyond = delta - 2 * masses.missed(x, other) - privacy.delta_at(distance)
        if beyond > worst:
            worst, pairs[len(case.pairs) :] = beyond, [(x, other)]
    findings = []
    for x, other in pairs:
        distance = _distance((x, other))
        delta = min(privacy.delta_at(distance) + 2 * masses.missed(x, other), _ALL)
        finding = masses.epsilon(x, other, delta)
        fraction = finding.rate / privacy.at(distance)
        findings.append(Exact(fraction, finding.x, finding.other, (finding.y,)))
    return max(findings, key=lambda exact: exact.fraction)


def _black_box(case: Case, samples: int, rng: np.random.Generator, share: float) -> BlackBox:
    bounds = []
    privacy = case.mechanism.privacy
    for x, other in case.pairs:
        distance = _distance((x, other))
        near, far = (
            case.statistic(case.mechanism.simulate(np.broadcast_to(p, (samples, *p.shape)), rng))
            for p in (x, other)
        )
        bound = black_box_bound(
            near,
            far,
            distance,
            delta=privacy.delta_at(distance) if isinstance(privacy, GeoPrivacy) else 0.0,
            failure_probability=share,
        )
        # The distinguishability is at least 0, whatever the samples show.
        fraction = max(bound.epsilon, 0.0) / privacy.at(distance)
        bounds.append(BlackBox(fraction, _point(x), _point(other)))
    return max(bounds, key=lambda bound: bound.fraction)


def _distance(pair: Pair) -> float:
    return float(np.linalg.norm(np.atleast_1d(pair[0] - pair[1])))


def _point(coordinates: Array) -> Point:
    return tuple(np.atleast_1d(coordinates).tolist())
