"""The distribution of argmax u_r + scale · Z_r, by quadrature with a stated error.

In units of the noise, with a_r = u_r/scale,
    P(r) = ∫ f(v − a_r) Π_{s≠r} F(v − a_s) dv,
one integral per distinct utility, all on the same panels. A panel is halved until Gauss's rule with
7 nodes and Kronrod's with 15 agree on it for every outcome; the mass beyond the last panel is
F̄(v − a_r), and the mass below the first at most Π F.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geoveil.gp import Array
from geoveil.selection.noise_law import FARTHEST_GAP, LOG_LEAST, Law

_RIVALS = 16
"""The number of best rivals that bound a far outcome's chance to win with small noise."""
_NEGLIGIBLE = 46.0
"""e^−46 is 1e-20."""
_NEAR = 0.25
_MOST_CENTRES = 256
_KNEES = 1 << 20
"""The most edges (knees times outcomes) at knees; refinement handles further knees."""
_RESIDUE = 1e-14
_FARTHEST = 1e280


@dataclass(frozen=True, slots=True)
class Positions:
    """Distances between distinct utilities.

    Attributes:
        utilities: decreasing, shape (K,).
        scale: the scale of the noise.
        counts: the number of outcomes at each utility, float64 of shape (K,).
    """

    utilities: Array
    scale: float
    counts: Array

    def behind(self, place: NDArray[np.intp] | int) -> Array:
        """Return how far all utilities lie behind the one at `place`, in noise units, shape (n, K).

        Far from the largest utility, a difference of two positions would lose all its digits; this
        one has the utilities' relative accuracy.
        """
        chosen = np.atleast_1d(self.utilities[place])[:, None]
        with np.errstate(over="ignore"):
            apart = (chosen - self.utilities) / self.scale
        return np.clip(apart, -FARTHEST_GAP, FARTHEST_GAP)


class Panels(NamedTuple):
    """Intervals from centre + low to centre + high; as offsets they avoid rounding of the sum."""

    centre: NDArray[np.intp]
    """Indices of positions."""
    low: Array
    high: Array


def panels(law: Law, positions: Positions) -> Panels:
    """Return panels, in order, over the relevant range of the largest noisy utility.

    They are dense near each centre, the utility of an outcome that may win with noise near 0, and
    double in width with every step away. One-sided noise has one centre, the largest utility.
    """
    counts, gaps = positions.counts, positions.behind(0)[0]
    centres = np.zeros(1, dtype=np.intp) if law.nonnegative else _centres(law, positions)
    top = _end(lambda v: float((counts * law.survival(v + gaps)).sum()) <= _RESIDUE)
    # Beyond the midpoint of two centres, the other centre's panels are dense enough.
    between = [
        float(positions.behind(int(high))[0, low]) / 2 for low, high in pairwise(centres.tolist())
    ]
    left = [_below(law, positions, int(centres[0])), *between]
    right = [*between, top]
    knees = [knee - gaps[: _KNEES // len(gaps)] for knee in law.knees]
    parts = []
    for centre, before, after in zip(centres, left, right, strict=True):
        steps = 2.0 ** np.arange(-2, np.ceil(np.log2(max(before, after, 1))) + 1)
        edges = np.unique(np.concatenate([-steps, steps, *knees, [0.0, -before, after]]))
        edges = edges[(edges >= -before) & (edges <= after)]
        parts.append((np.full(len(edges) - 1, centre), edges[:-1], edges[1:]))
    return Panels(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _centres(law: Law, positions: Positions) -> NDArray[np.intp]:
    """Return the positions of the outcomes that may win with noise near 0.

    Any other outcome has less than 1e-20 of its chance there. Behind a leader far ahead, the others
    lie within some 1,000 units of the 16 best; the last centre resolves the omitted ones to 1e-12.
    """
    rivals = np.arange(min(_RIVALS, len(positions.counts)))
    nearby = positions.counts[rivals] @ law.log_cdf(-positions.behind(rivals))
    gaps = positions.behind(0)[0]
    own = np.maximum(np.log(np.maximum(law.survival(gaps), 1e-300)), LOG_LEAST)
    kept = np.flatnonzero((nearby >= own - _NEGLIGIBLE) | (gaps == 0))
    # Centres closer than this to a kept centre need no panels of their own.
    steps = -np.diff(positions.utilities[kept]) / positions.scale
    apart = (np.diff(np.floor(4 * gaps[kept])) > 0) | (steps >= _NEAR)
    centres: NDArray[np.intp] = kept[np.append(True, apart)][:_MOST_CENTRES]
    return centres[::-1]


def _below(law: Law, positions: Positions, centre: int) -> float:
    """Return the distance below a centre beyond which the largest noisy utility never lies."""
    if law.nonnegative:
        return 0.0
    farthest = positions.behind(0)[0, -1:]
    rarest = float(np.log(np.maximum(law.survival(1 + farthest), 1e-300))[0])
    limit = max(rarest, LOG_LEAST) - _NEGLIGIBLE
    behind = positions.behind(centre)[0]

    def is_negligible(v: float) -> bool:
        return float((positions.counts * law.log_cdf(behind - v)).sum()) <= limit

    return _end(is_negligible)


def _end(enough: Callable[[float], bool]) -> float:
    """Return the first power of two for which `enough` holds."""
    v = 2.0
    while v < _FARTHEST and not enough(v):
        v *= 2
    return v


_NODES = np.array(
    [
        0.991455371120812639206854697526329,
        0.949107912342758524526189684047851,
        0.864864423359769072789712788640926,
        0.741531185599394439863864773280788,
        0.586087235467691130294144691693013,
        0.405845151377397166906606412076961,
        0.207784955007898467600689403773245,
        0.0,
    ]
)
_KRONROD = np.array(
    [
        0.022935322010529224963732008058970,
        0.063092092629978553290700663189204,
        0.104790010322250183839876322541518,
        0.140653259715525918745189590510238,
        0.169004726639267902826583426598550,
        0.190350578064785409913256402421014,
        0.204432940075298892414161999234649,
        0.209482141084727828012999174891714,
    ]
)
_GAUSS = np.array(
    [
        0.129484966168869693270611432679082,
        0.279705391489276667901467771423780,
        0.381830050505118944950369775488975,
        0.417959183673469387755102040816327,
    ]
)
_X = np.concatenate([-_NODES[:-1], _NODES[::-1]])
_W = np.concatenate([_KRONROD[:-1], _KRONROD[::-1]])
_DIFFERENCE = _W.copy()
_DIFFERENCE[1::2] -= np.concatenate([_GAUSS[:-1], _GAUSS[::-1]])

_AGREEMENT = 1e-12
"""The largest difference of the two rules on a panel, relative to the outcome's probability."""
_ROUNDING = 1e-12
"""The relative rounding error of a probability, including that of special functions."""
_MOST_VALUES = 1 << 26
"""The most values of integrands; beyond them no panel is halved, and the stated error grows."""
_BLOCK = 1 << 20
"""Numbers processed together."""


def argmax_probabilities(law: Law, utilities: Array, scale: float) -> tuple[Array, Array]:
    """Return the probability that each outcome has the largest noisy utility, and its error.

    The error adds up the differences of the two rules on all panels, which far exceed the better
    rule's error, and bounds of the remainder and rounding. It respects the proved bound
    P(r) ≤ P[Z_r − Z_top ≥ gap]. Probabilities below 1e-280 are not resolved.

    Args:
        law: the distribution of each independent noise variable.
        utilities: shape (m,), m ≥ 1.
        scale: the noise scale, > 0, in the unit of the utilities.

    Returns:
        Probabilities and bounds of their absolute errors, each of shape (m,).

    Example:
        >>> from geoveil.gp.noise import Laplace
        >>> from geoveil.selection.noise_law import two_sided_law
        >>> p, error = argmax_probabilities(two_sided_law(Laplace()), np.array([1.0, 0.0]), 1.0)
        >>> p.round(9).tolist(), bool(error.max() < 1e-11)  # 1 − 3/(4e)
        ([0.724090419, 0.275909581], True)
    """
    rising, place, counts = np.unique(-utilities, return_inverse=True, return_counts=True)
    if len(rising) == 1:
        return np.full(len(place), 1 / len(place)), np.full(len(place), 2.0**-53)
    positions = Positions(-rising, scale, counts.astype(np.float64))
    total, error = _integrals(law, positions)
    error = np.minimum(error, np.maximum(total, law.most(positions.behind(0)[0]) - total))
    return total[place], error[place]


def _integrals(law: Law, positions: Positions) -> tuple[Array, Array]:
    """Return the probability of one outcome at each position, and its error."""
    centre, low, high = panels(law, positions)
    total = law.survival(high[-1] + positions.behind(int(centre[-1]))[0])
    missed = np.exp(_log_all(law, positions, low[0], int(centre[0])))
    # An outcome beyond the last panel has won, unless another one is there too.
    error = missed - total * np.expm1(_log_all(law, positions, high[-1], int(centre[-1])))
    used = 0
    while True:
        value, difference = _rules(law, positions, Panels(centre, low, high))
        used += value.size * len(_X)
        probability = total + value.sum(axis=1)
        agreed = (difference <= _AGREEMENT * probability[:, None] + np.exp(LOG_LEAST)).all(axis=0)
        middle = (low + high) / 2
        # A panel too narrow for a midpoint cannot be refined.
        agreed |= (middle - low) <= 1e-12 * np.abs(middle)
        agreed |= used > _MOST_VALUES
        total = total + value[:, agreed].sum(axis=1)
        error = error + difference[:, agreed].sum(axis=1)
        if agreed.all():
            return total, error + _ROUNDING * total
        low, middle, high = low[~agreed], middle[~agreed], high[~agreed]
        centre = np.tile(centre[~agreed], 2)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])


def _rules(law: Law, positions: Positions, parts: Panels) -> tuple[Array, Array]:
    """Return Kronrod's rule and its difference to Gauss's, each of shape (K, panels)."""
    outcomes = len(positions.counts)
    value = np.empty((outcomes, len(parts.low)))
    difference = np.empty_like(value)
    step = max(1, _BLOCK // (outcomes * len(_X)))
    for start in range(0, len(parts.low), step):
        part = slice(start, start + step)
        half = (parts.high[part] - parts.low[part]) / 2
        v = (parts.low[part] + half)[:, None] + half[:, None] * _X
        behind = positions.behind(parts.centre[part]).T
        z = (v[None, :, :] + behind[:, :, None]).reshape(outcomes, -1)
        log_cdf = law.log_cdf(z)
        others = (positions.counts @ np.maximum(log_cdf, -1e300))[None, :] - log_cdf
        with np.errstate(invalid="ignore", under="ignore"):
            density = np.exp(law.logpdf(z) + np.where(log_cdf == -np.inf, -np.inf, others))
        density = density.reshape(outcomes, *v.shape)
        value[:, part] = density @ _W * half
        difference[:, part] = np.abs(density @ _DIFFERENCE) * half
    return value, difference


def _log_all(law: Law, positions: Positions, offset: float, centre: int) -> float:
    """Return log P[all noisy utilities ≤ centre + offset]."""
    log_cdf = law.log_cdf(offset + positions.behind(centre)[0])
    return float(positions.counts @ np.maximum(log_cdf, -1e300))
