"""What no unbiased ε-GP mechanism can do better, in one dimension [MATH §8]."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import validation
from geoveil.gp.errors import ParameterError
from geoveil.gp.mechanisms.distance_prior import DistancePrior, default_prior, variation
from geoveil.gp.mechanisms.linear_program import LinearProgram, certified, solve
from geoveil.gp.mechanisms.linear_program_mechanism import REACH_OF_OUTPUTS, divided
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query
from geoveil.gp.queries.profiles.base import Profile

Array = NDArray[np.float64]

_EFFORTS = {False: (3.0, 2, 24.0), True: (2.0, 1, 12.0)}
"""Whether it is to be quick → nodes per noise scale, how often outputs are added, and how many
noise scales one programme covers."""
_ROUND_UP = 1 + 1e-14
_GATHERED, _COARSE_MESH = 12, 1_000
"""Least number of cells where φ varies, and points of the mesh of outputs, for a rough bound."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A bound on the variance of a report, averaged over a prior, and how far it may be off."""

    value: float
    """Certified: no unbiased ε-GP mechanism has less, whatever its outputs."""
    attained: float
    """What the best channel that was found has, at the nodes: value ≤ optimum there ≤ attained.

    For `everywhere`, with the weights as they are devalued there.
    """
    nodes: int
    """Number of distances at which the mechanism was held to anything."""
    outputs: int
    """Number of outputs of that channel."""


def lower_bound(
    query: Query | Profile,
    privacy: GeoPrivacy,
    prior: DistancePrior | None = None,
    *,
    nodes: int = 64,
    everywhere: bool = False,
    quick: bool = False,
) -> LowerBound:
    """Return a lower bound on the variance of every unbiased ε-GP mechanism on the distance.

    Solved is the programme of `linear_program` at nodes s_0 < s_1 < …, with the ratios
    e^{ε(s_i+1 − s_i)}. What is proved, for every mechanism with E[y | s] = φ(s) and a guarantee of
    rate ε for all s on the line:

    * *outputs*: y may be any real number. The bound is that of a dual solution which has been
      checked at all y (to the rounding of float64), not that of a list of outputs. The list only
      decides how good the dual solution is: that is the gap between `value` and `attained`.
    * *distances*: conditions at some s are fewer than at all s, so nodes only lower the bound. But
      the prior has to be moved to the nodes, each part to the nearest. By default that is all, and
      the bound is one for *that* prior; it is a quadrature of the given one. With `everywhere` a
      part that is moved by d counts e^{−εd} of its weight, and the bound holds for the given prior:
      as outputs at s have at least e^{−εd} of their probability at the node s_i,
      E[(y − φ(s))² | s] ≥ e^{−εd} E[(y − φ(s))² | s_i] ≥ e^{−εd} Var[y | s_i]. Parts of the prior
      more than 20/ε beyond the variation of φ are left out, which lowers the bound, too.
    * *dimension*: if x is a number and s = ±(x − c) there is nothing to add. In more dimensions it
      bounds all mechanisms along any line on which s is a distance; for a distance to a centre and
      a prior with rotational symmetry, all mechanisms: their mean over rotations is one on s.

    For an even φ and a prior on both sides of 0 nothing is folded: the programme covers both. Where
    φ varies over more than 24/ε (12/ε if quick) it is cut into windows, with a programme each:
    conditions across a cut are dropped, which only lowers the bound, and the time is proportional
    to the width.

    Args:
        query: f, or its profile.
        privacy: the guarantee; delta must be 0.
        prior: of the distance; by default uniform where the profile varies.
        nodes: about how many nodes, in [8, 256]; more where φ varies over many noise scales.
        everywhere: whether the bound shall hold for the prior as given.
        quick: a third of the time, for a bound that is as certain, and a few per cent lower.

    Raises:
        ParameterError: if an argument is out of range.
        UnsupportedError: if φ is constant, or the solver fails.

    Example:
        >>> from geoveil.gp import DebiasedLaplace, Threshold
        >>> q, privacy = Threshold(0, 4.0, "smoothstep"), GeoPrivacy(1.0, per=1.0)
        >>> bound = lower_bound(q, privacy)
        >>> s = np.linspace(-2.0, 2.0, 501)
        >>> ratio = DebiasedLaplace(q, privacy).variance(s).mean() / bound.value
        >>> bool(1.05 < ratio < 1.10)
        True
    """
    profile = query.profile if isinstance(query, Query) else query
    if not isinstance(profile, Profile):
        raise ParameterError("query", query, "a Query or a Profile")
    if not isinstance(privacy, GeoPrivacy) or privacy.delta > 0:
        raise ParameterError("privacy", privacy, "a GeoPrivacy with delta = 0")
    if prior is not None and not isinstance(prior, DistancePrior):
        raise ParameterError("prior", prior, "a DistancePrior, or None for the uniform one")
    if isinstance(nodes, bool) or not isinstance(nodes, int):
        raise ParameterError("nodes", nodes, "an integer in [8, 256]")
    validation.between("nodes", nodes, 8, 256)
    validation.require_flag("everywhere", everywhere)
    validation.require_flag("quick", quick)
    prior = default_prior(profile) if prior is None else prior
    parts = [
        (share, _over(profile, privacy, part, band, nodes, everywhere, quick))
        for share, part, band in _windows(profile, privacy, prior, quick)
    ]
    return LowerBound(
        value=math.fsum(share * found.value for share, found in parts),
        attained=math.fsum(share * found.attained for share, found in parts),
        nodes=sum(found.nodes for _, found in parts),
        outputs=sum(found.outputs for _, found in parts),
    )


def rough_bound(profile: Profile, privacy: GeoPrivacy, prior: DistancePrior) -> float:
    """Return about what `lower_bound` returns, a little lower, in a fifth of the time.

    Those who share a cell are gathered at their mean, so that the prior changes to second order:
    cells are a noise scale wide, or a twelfth of where φ varies. No outputs are added. It is no
    certificate for the prior as given.

    Args:
        profile: φ.
        privacy: the guarantee.
        prior: of the distance.

    Raises:
        UnsupportedError: if the solver fails.
    """
    low, high = variation(profile)
    inside = max(_GATHERED, math.ceil((high - low) * privacy.rate))
    beyond = np.arange(1, math.ceil(np.ptp(prior.distances) * privacy.rate) + 1) / privacy.rate
    edges = np.concatenate([low - beyond[::-1], np.linspace(low, high, inside + 1), high + beyond])
    places, weights = np.array(prior.distances), np.array(prior.weights)
    cell = np.searchsorted(edges, places)
    mass = np.asarray(np.bincount(cell, weights), np.float64)
    used = mass > 0
    s = np.bincount(cell, weights * places)[used] / mass[used]
    program = LinearProgram(
        np.asarray(profile.value(s)),
        np.exp(privacy.rate * np.diff(s)) * _ROUND_UP,
        mass[used],
        REACH_OF_OUTPUTS * profile.lipschitz / privacy.rate,
    )
    return certified(program, solve(program, 0), _COARSE_MESH)


def _windows(
    profile: Profile, privacy: GeoPrivacy, prior: DistancePrior, quick: bool
) -> Iterator[tuple[float, DistancePrior, tuple[float, float]]]:
    """Yield shares of a prior, with their law and the part of the band that is solved for them."""
    _, _, widest = _EFFORTS[quick]
    places = np.array(prior.distances)
    low, high = variation(profile)
    if low == 0 and places.min() < 0:
        low = -high  # even, but the prior is on both sides
    count = math.ceil((high - low) * privacy.rate / widest * (1 - 1e-9))
    if count == 1:
        yield 1.0, prior, (low, high)
        return
    cuts = np.linspace(low, high, count + 1)
    of_window = np.searchsorted(cuts[1:-1], places)
    weights = np.array(prior.weights)
    for i, band in enumerate(pairwise(cuts.tolist())):
        inside = of_window == i
        share = float(weights[inside].sum())
        if share > 0:
            yield share, DistancePrior(places[inside].tolist(), weights[inside].tolist()), band


def _over(
    profile: Profile,
    privacy: GeoPrivacy,
    prior: DistancePrior,
    band: tuple[float, float],
    nodes: int,
    everywhere: bool,
    quick: bool,
) -> LowerBound:
    """Return the bound for a prior, held to conditions in a band and where the prior is."""
    per_noise, rounds, _ = _EFFORTS[quick]
    places = np.array(prior.distances)
    s = divided(profile, privacy.exact_rate, places, band, per_noise, float(nodes - 1)).knots
    ratios = np.exp(privacy.rate * np.diff(s)) * _ROUND_UP
    program = LinearProgram(
        np.asarray(profile.value(s)),
        ratios,
        _moved(prior, s, privacy.rate if everywhere else 0.0),
        REACH_OF_OUTPUTS * profile.lipschitz / privacy.rate,
    )
    channel = solve(program, rounds)
    return LowerBound(certified(program, channel), channel.cost, len(s), len(channel.outputs))


def _moved(prior: DistancePrior, s: Array, rate: float) -> Array:
    """Return how much of the prior each node gets, for a rate at which distance devalues it."""
    places, shares = np.array(prior.distances), np.array(prior.weights)
    nearest = np.searchsorted((s[1:] + s[:-1]) / 2, places)
    distance = np.abs(places - s[nearest])
    beyond = (places < s[0]) | (places > s[-1])
    total = np.zeros(len(s))
    np.add.at(total, nearest, np.where(beyond & (rate > 0), 0.0, shares * np.exp(-rate * distance)))
    return total
