"""The grid of an optimal channel, the means of its rows, and the table [MATH §8]."""

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from geoveil.gp.errors import ParameterError, UnsupportedError
from geoveil.gp.mechanisms.channel_bias import bias_bound
from geoveil.gp.mechanisms.channel_grid import Grid
from geoveil.gp.mechanisms.channel_prior import SETTLED, DistancePrior, is_even, variation
from geoveil.gp.mechanisms.channel_program import Program, solve
from geoveil.gp.mechanisms.channel_record import Channel
from geoveil.gp.mechanisms.channel_table import Table, rounded
from geoveil.gp.queries.profiles.base import Profile

Array = NDArray[np.float64]

_PER_NOISE, _COARSEST = 4.0, 2.0
"""Cells per 1/rate where φ varies, and where there would be too many of them."""
_PER_VARIATION = 32.0
"""Least number of cells where φ varies."""
_BEYOND = ((4.0, 4.0), (20.0, 1.0))
"""How far beyond the variation of φ the channel may still change, and the cells for that: both in
units of 1/rate."""
_QUICK_BEYOND = ((3.0, 2.0), (8.0, 1.0), (20.0, 0.7))
_QUICK_PER_VARIATION = 16.0
_QUICK_ROUNDS = 1
"""The same for a channel that is wanted quickly."""
_MOST_ROWS = 160
_ROUNDS = 2
_SHARE_ELSEWHERE = 2.0**-10
"""Weight of all rows together, so that the variance stays sensible where the prior is 0."""
_LESS = 1e-5
"""How much smaller r − 1 is for the solver than for the check."""
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
        prior: of s.
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
        finer = Grid(grid.edges, tuple(2 * count for count in grid.counts))
        if finer.rows > _MOST_ROWS:
            raise ParameterError("tolerance", tolerance, f"at least {bias:.3g} for this query")
        grid = finer
    mass = grid.mass(places, np.asarray(prior.weights))
    weights = (1 - _SHARE_ELSEWHERE) * mass + _SHARE_ELSEWHERE / grid.rows
    ratios = grid.ratios(rate)
    step = Fraction(2) ** step_exponent
    program = Program(
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
    program: Program, means: tuple[Fraction, ...], ratios: tuple[Fraction, ...], rounds: int
) -> Table:
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


def _grid(profile: Profile, rate: Fraction, places: Array, tolerance: float, quick: bool) -> Grid:
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
) -> Grid:
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
    return Grid(tuple(edges), tuple(counts))


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


def _targets(profile: Profile, grid: Grid) -> Array:
    """Return means of the rows whose spline is φ at the ends of segments and in mid-cell."""
    knots = grid.knots
    points = np.sort(np.concatenate([grid.edges, (knots[1:] + knots[:-1]) / 2]))
    return np.asarray(np.linalg.solve(grid.mix(np.eye(grid.rows), points), profile.value(points)))
