"""The best unbiased channel on the distance, found by a linear programme [MATH §8]."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from geoveil.gp import validation
from geoveil.gp.arrays import Array, np
from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.mechanisms.base import exponent_below, grid_exponent
from geoveil.gp.mechanisms.channel import Channel, ProbabilityTable, rounded
from geoveil.gp.mechanisms.channel_mechanism import ChannelMechanism
from geoveil.gp.mechanisms.channel_spline import SplineGrid, bias_bound
from geoveil.gp.mechanisms.distance_prior import (
    SETTLED,
    DistancePrior,
    default_prior,
    is_even,
    variation,
)
from geoveil.gp.mechanisms.linear_program import LinearProgram, solve
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles.base import Profile

_PER_NOISE, _COARSEST = 4.0, 2.0
"""Cells per 1/rate where φ varies, and where there would be too many of them."""
_PER_VARIATION = 32.0
"""Least number of cells where φ varies."""
_BEYOND = ((4.0, 4.0), (20.0, 1.0))
"""Distances beyond the variation of φ up to which the channel may still change, and cells for them:
both in units of 1/rate."""
_QUICK_BEYOND = ((3.0, 2.0), (8.0, 1.0), (20.0, 0.7))
_QUICK_PER_VARIATION = 16.0
_QUICK_ROUNDS = 1
"""Rounds, like the two numbers before, for a channel that is wanted quickly."""
_MOST_ROWS = 160
_ROUNDS = 2
_SHARE_ELSEWHERE = 2.0**-10
"""Weight of all rows together, so that the variance stays sensible where the prior is 0."""
_LESS = 1e-5
"""Part by which r − 1 is smaller for the solver than for the check."""
_FLOORS = (1e-5, 1e-4, 1e-3)
REACH_OF_OUTPUTS = 3.0
"""Range of outputs that are tried beyond φ, in units of L/rate; the best use less than one."""


@lru_cache(maxsize=64)
def design(
    profile: Profile,
    rate: Fraction,
    prior: DistancePrior,
    step_exponent: int,
    tolerance: float,
    quick: bool = False,
) -> Channel:
    """Return the best channel for a prior; it remembers the last ones.

    Args:
        profile: φ.
        rate: ε per unit of s.
        prior: public guess of how the distances s are distributed.
        step_exponent: outputs are multiples of 2^step_exponent.
        tolerance: largest bias.
        quick: whether a coarser table will do.

    Raises:
        ParameterError: if the bias cannot be made so small.
        UnsupportedError: if φ varies over too many noise scales, or no table passes the check.
    """
    even = is_even(profile)
    places = np.abs(prior.distances) if even else np.asarray(prior.distances)
    grid = _grid(profile, rate, places, tolerance, quick)
    while (bias := bias_bound(profile, grid, targets := _targets(profile, grid), even)) > tolerance:
        finer = SplineGrid(grid.edges, tuple(2 * count for count in grid.counts))
        if finer.rows > _MOST_ROWS:
            raise ParameterError("tolerance", tolerance, f"at least {bias:.3g} for this query")
        grid = finer
    mass = grid.mass(places, np.asarray(prior.weights))
    weights = (1 - _SHARE_ELSEWHERE) * mass + _SHARE_ELSEWHERE / grid.rows
    ratios = grid.ratios(rate)
    step = Fraction(2) ** step_exponent
    program = LinearProgram(
        targets,
        np.array([1 + float(r - 1) * (1 - _LESS) for r in ratios]),
        weights,
        REACH_OF_OUTPUTS * profile.lipschitz / float(rate),
        float(step),
    )
    rounds = _QUICK_ROUNDS if quick else _ROUNDS
    means = tuple(Fraction(f) / step for f in targets.tolist())
    return Channel(grid, _table(program, means, ratios, rounds), step_exponent, even)


def _table(
    program: LinearProgram, means: tuple[Fraction, ...], ratios: tuple[Fraction, ...], rounds: int
) -> ProbabilityTable:
    """Return a table that has passed the check, with as little of the uniform row as that takes."""
    refused = None
    for floor in _FLOORS:
        channel = solve(program, rounds, floor)
        outputs = tuple(round(y / program.spacing) for y in channel.outputs.tolist())
        try:
            return rounded(outputs, channel.table, means, ratios)
        except ParameterError as error:
            refused = error
    raise UnsupportedError(f"no table passes the check: {refused}")


def _grid(
    profile: Profile, rate: Fraction, places: Array, tolerance: float, quick: bool
) -> SplineGrid:
    low, high = variation(profile, min(SETTLED, tolerance / 4))
    per_band = _QUICK_PER_VARIATION if quick else _PER_VARIATION
    beyond = _QUICK_BEYOND if quick else _BEYOND
    for per_noise in (_PER_NOISE, _COARSEST):
        grid = divided(profile, rate, places, (low, high), per_noise, per_band, beyond)
        if grid.rows <= _MOST_ROWS:
            return grid
    raise UnsupportedError(
        f"{profile!r} varies over {(high - low) * float(rate):.3g} noise scales 1/rate, too many"
        " for a linear programme: use DebiasedLaplace, which is next to optimal there"
    )


def divided(
    profile: Profile,
    rate: Fraction,
    places: Array,
    band: tuple[float, float],
    per_noise: float,
    per_band: float,
    beyond: tuple[tuple[float, float], ...] = _BEYOND,
) -> SplineGrid:
    """Return a grid that covers a band and, in coarser cells, what of a prior is near it.

    Args:
        profile: φ; where its pieces meet, a segment ends.
        rate: ε per unit of s.
        places: the distances of the prior.
        band: where φ varies.
        per_noise: least number of cells in the band per 1/rate.
        per_band: least number of cells in the band.
        beyond: how far beyond the band, and the cells there, both in 1/rate.
    """
    noise, (low, high) = float(1 / rate), band
    fine = min(noise / per_noise, (high - low) / per_band)
    pieces = [(low, high, fine)]
    if low > 0 or not is_even(profile):
        room = low - float(places.min())
        pieces += [(-b, -a, width) for a, b, width in _outwards(-low, room, noise, fine, beyond)]
    pieces += _outwards(high, float(places.max()) - high, noise, fine, beyond)
    edges, counts = [pieces[0][0]], []
    for start, end, width in sorted(pieces):
        inner = [knot for knot in profile.breakpoints if start < knot < end]
        for a, b in pairwise([start, *inner, end]):
            edges.append(b)
            counts.append(max(math.ceil((b - a) / width * (1 - 1e-9)), 1))
    edges[0] = min(start for start, _, _ in pieces)
    return SplineGrid(tuple(edges), tuple(counts))


def _outwards(
    start: float,
    room: float,
    noise: float,
    fine: float,
    beyond: tuple[tuple[float, float], ...],
) -> list[tuple[float, float, float]]:
    """Return pieces (start, end, width of a cell) beyond a band, going up."""
    found, near = [], start
    for reach, per in beyond:
        far = start + min(room, reach * noise)
        if far - near > fine:
            found.append((near, far, max(noise / per, fine)))
            near = far
    return found


def _targets(profile: Profile, grid: SplineGrid) -> Array:
    """Return means of the rows whose spline is φ at the ends of segments and in mid-cell."""
    knots = grid.knots
    points = np.sort(np.concatenate([grid.edges, (knots[1:] + knots[:-1]) / 2]))
    return np.asarray(np.linalg.solve(grid.mix(np.eye(grid.rows), points), profile.value(points)))


_STEP_BITS = 20


class LinearProgramMechanism(ChannelMechanism):
    """A table of probabilities, optimal for a prior on the distance: ε-GP, and next to unbiased.

    The report is one of some hundred outputs. Its probabilities are a quadratic spline in s(x)
    between the rows of a table that a linear programme has found, so that |∂_s log P| ≤ ε
    everywhere: the theorem, and its proof, are in `channel_spline`. Beyond the ends of the grid s
    counts as the end, and for an even φ as |s|; both maps are 1-Lipschitz, and so is s(x). The
    table is integers over 2^60, and every row, sign and ratio has been checked exactly
    (`channel`). What is released is hence exactly ε-GP, whatever the solver did; only the
    variance depends on it.

    The mean is the spline of the means of the rows, which differs from f by at most `bias_bound`.
    On a linear ramp it does not differ at all.

    What was found is its `channel`, plain data: a campaign carries it, and a device checks it and
    draws by it, as a `ChannelMechanism`.

    Where φ varies over more than some 8/ε, the cells become coarse and the gain small: there
    `DebiasedLaplace`, if the profile permits it, has about as little variance, or less.

    Args:
        query: any; its profile may have corners. It should vary over at most some 60 noise scales.
        privacy: the guarantee, in the unit of x.
        prior: what the variance is minimal for; by default uniform where the profile varies. Fix it
            without looking at private values.
        tolerance: largest bias permitted, in the unit of f, in [1e-6, 0.1].
        quick: whether to solve on a coarser grid: in a third of the time, with a variance
            that is a few per cent larger.
        step: spacing of the output grid, a power of two, at most 1; the outputs lie on it.

    Raises:
        ParameterError: if a parameter is out of range, or the tolerance out of reach.
        UnsupportedError: if the query varies over too many noise scales, or the solver fails.

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> q = Threshold(at=100_000, width=16_000)
        >>> m = LinearProgramMechanism(q, GeoPrivacy(epsilon=1.0, per=8000.0))
        >>> m.unbiased
        True
        >>> bool(m.variance(100_000.0) < 0.6)
        True
    """

    def __init__(
        self,
        query: Query,
        privacy: GeoPrivacy,
        prior: DistancePrior | None = None,
        *,
        tolerance: float = 1e-3,
        quick: bool = False,
        step: float | None = None,
    ) -> None:
        self._check(query, privacy)
        if prior is not None and not isinstance(prior, DistancePrior):
            raise ParameterError("prior", prior, "a DistancePrior, or None for the uniform one")
        self.tolerance = validation.between("tolerance", tolerance, 1e-6, 0.1)
        self.prior = default_prior(query.profile) if prior is None else prior
        validation.require_flag("quick", quick)
        self.quick = quick
        low, high = query.profile.bounds
        exponent = grid_exponent(
            step,
            default=min(exponent_below(high - low, _STEP_BITS), 0),
            spread=REACH_OF_OUTPUTS * query.lipschitz / privacy.rate + max(abs(low), abs(high)),
            levels=(),
        )
        rate = privacy.exact_rate
        found = design(query.profile, rate, self.prior, exponent, self.tolerance, quick)
        super().__init__(query, privacy, found)
        self._options = {"prior": prior, "tolerance": tolerance, "quick": quick, "step": step}

    @property
    def expected_variance(self) -> float:
        """The variance of a report, averaged over the prior."""
        return float(self._variance(np.array(self.prior.distances)) @ np.array(self.prior.weights))
