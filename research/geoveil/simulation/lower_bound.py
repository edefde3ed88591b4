"""A lower bound on the variance of unbiased ε-GP mechanisms in one dimension [MATH §8].

The linear programme's variables are a table with one row per signed distance. A dual solution that
is feasible on a mesh of outputs, between its points and beyond it certifies the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import GeoPrivacy, ParameterError, Profile, Query, UnsupportedError, validation

Array = NDArray[np.float64]

_SETTLED = 2.0**-12
"""From where a profile is this close to its limit, relative to its range, it counts as constant."""
_PER_NOISE, _ROUNDS, _WINDOW = 3.0, 2, 24.0
"""Nodes per noise scale, rounds that add outputs, and noise scales per programme."""
_BEYOND = ((4.0, 4.0), (20.0, 1.0))
"""Extent of nodes beyond the band in noise scales, and nodes per noise scale there."""
_REACH = 3.0
"""How far outputs may exceed the range of φ, in units of L/rate; the best use less than 1."""
_ROUND_UP = 1 + 1e-14
_FIRST, _FINE = 40, 6_000
_ACTIVE = 1e-9
_ROUNDING = 1e-9
"""The relative rounding error of the bound in float64."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A lower bound on the variance of a report, averaged over a prior, and its slack."""

    value: float
    """The certified bound: every unbiased ε-GP mechanism has at least this variance."""
    attained: float
    """The variance of the best table at the nodes: value ≤ optimum there ≤ attained."""
    nodes: int
    """The number of distances at which the programme constrains the mechanism."""
    outputs: int


def lower_bound(
    query: Query | Profile,
    privacy: GeoPrivacy,
    distances: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    nodes: int = 64,
    everywhere: bool = False,
) -> LowerBound:
    """Return a lower bound on the variance of every unbiased ε-GP mechanism on the distance.

    It holds for every mechanism with E[y | s] = φ(s), any real outputs, and a guarantee of rate ε
    for all s; with a rotationally symmetric prior it also holds for mechanisms on points. The prior
    is moved to the nodes, and the bound holds for that quadrature. With `everywhere` a part moved
    by d has weight e^{−εd}, parts beyond the nodes have none, and the bound holds for the given
    prior [MATH §8]. If φ varies over more than 24/ε, it is cut into windows, which only lowers the
    bound.

    Args:
        query: f, or its profile.
        privacy: must have delta = 0.
        distances: people's signed distances, in the unit of the points, (k,).
        weights: the distances' weights, ≥ 0 and not all 0; equal by default.
        nodes: the least number of nodes where φ varies, in [8, 256].
        everywhere: whether the bound must hold for the prior as given.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if φ is constant, or the solver fails.

    Example:
        >>> from geoveil.gp import DebiasedLaplace, Threshold
        >>> q, privacy = Threshold(0, 4.0, "smoothstep"), GeoPrivacy(1.0, per=1.0)
        >>> s = np.linspace(-2.0, 2.0, 501)
        >>> bound = lower_bound(q, privacy, s, nodes=24)
        >>> ratio = DebiasedLaplace(q, privacy).variance(s).mean() / bound.value
        >>> bool(1.05 < ratio < 1.10)
        True
    """
    profile = query.profile if isinstance(query, Query) else query
    if not isinstance(profile, Profile):
        raise ParameterError("query", query, "a Query or a Profile")
    if not isinstance(privacy, GeoPrivacy) or privacy.delta > 0:
        raise ParameterError("privacy", privacy, "a GeoPrivacy with delta = 0")
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise ParameterError("nodes", nodes, "an integer in [8, 256]")
    validation.between("nodes", nodes, 8, 256)
    validation.require_flag("everywhere", everywhere)
    people = _people(distances, weights)
    parts = [
        (share, _window_bound(profile, privacy, part, band, nodes, everywhere))
        for share, part, band in _windows(profile, privacy.rate, people)
    ]
    return LowerBound(
        value=math.fsum(share * bound.value for share, bound in parts),
        attained=math.fsum(share * bound.attained for share, bound in parts),
        nodes=sum(bound.nodes for _, bound in parts),
        outputs=sum(bound.outputs for _, bound in parts),
    )


def _people(distances: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Return distances in increasing order, with weights that sum to 1."""
    places = np.array(validation.numbers("distances", np.ravel(distances).tolist()))
    if not places.size:
        raise ParameterError("distances", distances, "at least one number")
    shares = np.ones(len(places)) if weights is None else np.ravel(np.asarray(weights, np.float64))
    if shares.shape != places.shape:
        raise ParameterError("weights", f"{shares.size} numbers", f"{len(places)}, as distances")
    if not (shares >= 0).all() or not 0 < shares.sum() < math.inf:
        raise ParameterError("weights", weights, "numbers >= 0, not all 0")
    order = np.argsort(places, kind="stable")
    return places[order], shares[order] / shares.sum()


def variation(profile: Profile) -> tuple[float, float]:
    """Return the interval outside which φ is at its limits, within 2^−12 of its range.

    Raises:
        UnsupportedError: if φ is constant.
    """
    ends = profile.breakpoints
    near = profile.length_scale * np.linspace(-8.0, 8.0, 8_193)
    mesh = np.unique(
        np.concatenate(
            [np.linspace(ends[0], ends[-1], 8_193), near[(near > ends[0]) & (near < ends[-1])]]
        )
    )
    value = np.asarray(profile.value(mesh))
    span = float(np.ptp(value))
    low, high = (mesh[np.abs(value - limit) > _SETTLED * span] for limit in profile.limits)
    if not span or not low.size or not high.size:
        raise UnsupportedError(f"{profile!r} does not vary: there is nothing to ask")
    return float(low[0]), float(high[-1])


def _windows(
    profile: Profile, rate: float, people: tuple[Array, Array]
) -> Iterator[tuple[float, tuple[Array, Array], tuple[float, float]]]:
    """Yield parts of a prior: the share, its distances and weights, and its part of the band."""
    places, weights = people
    low, high = variation(profile)
    if places.min() >= 0 and np.array_equal(
        profile.value(mesh := np.linspace(0, max(-low, high), 1_025)), profile.value(-mesh)
    ):
        low = 0.0  # a bell, with distances from its centre
    count = max(math.ceil((high - low) * rate / _WINDOW * (1 - 1e-9)), 1)
    cuts = np.linspace(low, high, count + 1)
    window = np.searchsorted(cuts[1:-1], places)
    for i, band in enumerate(pairwise(cuts.tolist())):
        share = float(weights[window == i].sum())
        if share > 0:
            yield share, (places[window == i], weights[window == i] / share), band


def _nodes(
    profile: Profile, rate: float, places: Array, band: tuple[float, float], count: int
) -> Array:
    """Return the distances at which the programme constrains mean and guarantee."""
    low, high = band
    fine = min(1 / (rate * _PER_NOISE), (high - low) / (count - 1))
    ends = [low, *(knot for knot in profile.breakpoints if low < knot < high), high]
    pieces = [(a, b, fine) for a, b in pairwise(ends)]
    for start, last, sign in ((low, float(places.min()), -1.0), (high, float(places.max()), 1.0)):
        near, room = start, max(sign * (last - start), 0.0)
        for reach, per_noise in _BEYOND:
            far = start + sign * min(room, reach / rate)
            if sign * (far - near) > fine:
                cell = max(1 / (rate * per_noise), fine)
                pieces.append((min(near, far), max(near, far), cell))
                near = far
    spans = [np.linspace(a, b, max(math.ceil((b - a) / width), 1) + 1) for a, b, width in pieces]
    s = np.unique(np.concatenate(spans))
    return np.asarray(s[np.concatenate([[True], np.diff(s) > 1e-9 * fine])])


def _window_bound(
    profile: Profile,
    privacy: GeoPrivacy,
    people: tuple[Array, Array],
    band: tuple[float, float],
    nodes: int,
    everywhere: bool,
) -> LowerBound:
    """Return the bound for a prior, with constraints in a band and around the prior."""
    rate, (places, weights) = privacy.rate, people
    s = _nodes(profile, rate, places, band, nodes)
    nearest = np.searchsorted((s[1:] + s[:-1]) / 2, places)
    if everywhere:
        inside = (places >= s[0]) & (places <= s[-1])
        weights = np.where(inside, weights * np.exp(-rate * np.abs(places - s[nearest])), 0.0)
    program = LinearProgram(
        np.asarray(profile.value(s)),
        np.exp(rate * np.diff(s)) * _ROUND_UP,
        np.asarray(np.bincount(nearest, weights, len(s)), np.float64),
        _REACH * profile.lipschitz / rate,
    )
    table = solve(program, _ROUNDS)
    return LowerBound(certified(program, table), table.cost, len(s), len(table.outputs))


@dataclass(frozen=True, slots=True)
class LinearProgram:
    """The programme: targets f_j (M,), ratios r_j > 1 (M − 1,), weights π_j ≥ 0 (M,) with sum ≤ 1.

    Outputs may go beyond the targets by `reach` > 0.
    """

    targets: Array
    ratios: Array
    weights: Array
    reach: float

    def mesh(self, count: int) -> Array:
        """Return count + 1 equidistant candidates for outputs."""
        low, high = self.targets.min() - self.reach, self.targets.max() + self.reach
        return np.linspace(low, high, count + 1)


@dataclass(frozen=True, slots=True)
class Solution:
    """An optimum over given outputs, within the solver's tolerance, and its dual."""

    outputs: Array
    table: Array
    """P, (M, m)."""
    alpha: Array
    beta: Array
    cost: float


def solve(program: LinearProgram, rounds: int) -> Solution:
    """Return an optimal table; each round adds outputs, and two rounds halve the gap to the best.

    Raises:
        UnsupportedError: if the solver finds no table.
    """
    # Most people may be far from the band, where any output but φ's limits only adds noise.
    levels = [program.targets.min(), program.targets.max()]
    best = optimum(program, np.unique(np.concatenate([program.mesh(_FIRST), levels])))
    fine = program.mesh(_FINE)
    for _ in range(rounds):
        value = shortfall(program, best.alpha, best.beta, fine)
        inner = value[1:-1]
        dips = (inner < value[:-2]) & (inner <= value[2:]) & (inner < 0)
        active = best.table.max(axis=0) > _ACTIVE
        best = optimum(program, np.unique(np.concatenate([best.outputs[active], fine[1:-1][dips]])))
    return best


def optimum(program: LinearProgram, outputs: Array) -> Solution:
    """Return the best table over these outputs; UnsupportedError if the solver finds none."""
    from scipy import optimize, sparse

    rows, columns = len(program.targets), len(outputs)
    center, half = (outputs[0] + outputs[-1]) / 2, (outputs[-1] - outputs[0]) / 2
    y, f = (outputs - center) / half, (program.targets - center) / half
    here, following = sparse.eye(rows - 1, rows), sparse.eye(rows - 1, rows, k=1)
    ratio = sparse.diags(program.ratios)
    steps = sparse.vstack([here - ratio @ following, following - ratio @ here])
    result = optimize.linprog(
        (program.weights[:, None] * (y - f[:, None]) ** 2).ravel(),
        A_ub=sparse.kron(steps, sparse.eye(columns)),
        b_ub=np.zeros(2 * (rows - 1) * columns),
        A_eq=sparse.vstack(
            [sparse.kron(sparse.eye(rows), row) for row in (np.ones((1, columns)), y[None])]
        ),
        b_eq=np.concatenate([np.ones(rows), f]),
        method="highs-ipm",
    )
    if result.status:
        raise UnsupportedError(f"the solver found no table for this query: {result.message}")
    alpha, beta = np.split(result.eqlin.marginals, 2)
    # The dual for y, from that for (y − center)/half; costs were divided by half².
    slope = beta * half
    table = result.x.reshape(rows, columns)
    return Solution(outputs, table, alpha * half**2 - slope * center, slope, result.fun * half**2)


def shortfall(program: LinearProgram, alpha: Array, beta: Array, y: Array) -> Array:
    """Return V_0(y), which is negative where an output y violates the dual."""
    squares = (y[:, None] - program.targets) ** 2 * program.weights
    return _least(program, squares - alpha - beta * y[:, None])


def _least(program: LinearProgram, costs: Array) -> Array:
    """Return the minimum of Σ_j c_j p_j over all p with p_0 = 1 that the ratios permit, (n,)."""
    total = costs[:, -1]
    for j in range(len(program.ratios) - 1, -1, -1):
        ratio = program.ratios[j]
        total = costs[:, j] + np.minimum(ratio * total, total / ratio)
    return total


def certified(program: LinearProgram, table: Solution) -> float:
    """Return a bound on the cost of all tables, lowered by 1e-9 of it for rounding."""
    beyond = 2 * program.reach
    mesh = np.linspace(program.targets.min() - beyond, program.targets.max() + beyond, _FINE)
    width = float(mesh[1] - mesh[0])
    for end, sign in ((mesh[-1], 1.0), (mesh[0], -1.0)):
        outward = sign * (2 * program.weights * (end - program.targets) - table.beta)
        if float(_least(program, outward[None])[0]) < 0:
            return 0.0
    # If nearly all weight is on few rows, lowering α in proportion to it hardly helps elsewhere.
    even = np.full_like(program.weights, 1 / len(program.weights))
    kappa = min(_needed(program, table, mesh, shift) for shift in (program.weights, even))
    bound = float(table.alpha.sum() + table.beta @ program.targets) - kappa - width**2 / 4
    return max(bound * (1 - _ROUNDING), 0.0)


def _needed(program: LinearProgram, table: Solution, mesh: Array, shift: Array) -> float:
    """Return a κ for which α − κ·shift is dual feasible on the mesh; infinite if there is none.

    `shift` ≥ 0 has a sum of at most 1, so it lowers the bound by at most κ.
    """

    def violated(kappa: float, points: Array) -> Array:
        return points[shortfall(program, table.alpha - kappa * shift, table.beta, points) < 0]

    # V rises with κ, so a point that one κ satisfies needs no check with a greater κ.
    low, high = 0.0, float(mesh[1] - mesh[0]) ** 2
    left = violated(low, mesh)
    while len(still := violated(high, left)):
        if high > table.cost:
            return math.inf
        low, high, left = high, 4 * high, still
    for _ in range(12):
        middle = (low + high) / 2
        still = violated(middle, left)
        low, high, left = (middle, high, still) if len(still) else (low, middle, left)
    return high
