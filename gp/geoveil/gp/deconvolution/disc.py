"""Discs and balls applied to perturbed points: the law of the plug-in estimate.

With P_a(x) the probability that x + N lands within a of the centre and F(ρ) = φ(R − ρ) the disc's
value at the distance ρ, E[F^p] = ∫ p φ^{p−1} φ'(R − a) P_a(x) da over the band.
"""

from __future__ import annotations

import math

from geoveil.gp._convolution import gauss_legendre
from geoveil.gp.arrays import Array, np
from geoveil.gp.deconvolution.base import PlugIn, PointEstimator, any_query, point_estimator
from geoveil.gp.queries.indicator import Disc
from geoveil.gp.queries.profiles.soft_step import SoftStep

_EDGES = (0, *(math.pi * 2.0**-k for k in range(7, -1, -1)))
_AROUND = (-40.0, -12.0, -4.0, -1.0, 0.0, 1.0, 4.0, 12.0, 40.0)
_BLOCK = 64


class DiscEstimator(PlugIn):
    """A disc in two dimensions or a ball in three, applied to the perturbed point: biased.

    Mean and variance over the noise are quadratures, accurate to about 1e-8.
    """

    query: Disc

    def _mean(self, x: Array) -> Array:
        return self._moment(x, 1)

    def _variance(self, x: Array) -> Array:
        return np.maximum(self._moment(x, 2) - self._moment(x, 1) ** 2, 0.0)

    def _moment(self, x: Array, power: int) -> Array:
        query, b = self.query, self.scale
        profile = query.profile
        assert isinstance(profile, SoftStep)  # all that soft indicators have
        r = query.radius - np.asarray(query.signed_distance(x))
        flat = np.maximum(r.reshape(-1, 1), 0.0)
        # P_a varies at the scale b around a = r, and is less smooth there.
        low, high = query.radius - query.width / 2, query.radius + query.width / 2
        edges = np.clip(flat + b * np.array(_AROUND), low, high)
        edges[:, 0], edges[:, -1] = low, high
        band, band_weights = gauss_legendre(20)
        result = np.zeros(flat.shape[0])
        for begin, end in zip(edges.T[:-1, :, None], edges.T[1:, :, None], strict=True):
            half = (end - begin) / 2
            a = begin + half * (1 + band)
            slope = profile.slope(query.radius - a)
            weight = power * np.asarray(profile.value(query.radius - a)) ** (power - 1) * slope
            for start in range(0, flat.shape[0], _BLOCK):
                part = slice(start, start + _BLOCK)
                within = landing_within(a[part] / b, flat[part] / b, query.dimension)
                result[part] += half[part, 0] * ((weight[part] * within) @ band_weights)
        return np.asarray(result.reshape(r.shape))


def landing_within(a: Array, r: Array, dimension: int) -> Array:
    """Return P(|x + N| ≤ a) for |x| = r, lengths in units of the noise scale, k = 2 or 3.

    The noise has radius s ~ Gamma(k, 1). Between |r − a| and r + a the directions that lead inside
    are a cap of angle θ, cos θ = (r² + s² − a²)/(2rs), made smooth by s = max − min·cos ψ.
    """
    a, r = np.broadcast_arrays(a, r)
    inside = _gamma_cdf(np.maximum(a - r, 0.0), dimension)
    edges = np.array(_EDGES)[:, None]
    half = np.diff(edges, axis=0) / 2
    arc, arc_weights = gauss_legendre(12)
    psi = (edges[:-1] + half * (1 + arc)).ravel()
    weight = (half * arc_weights).ravel()
    near, far = np.minimum(a, r)[..., None], np.maximum(a, r)[..., None]
    s = (far - near) + 2 * near * np.sin(psi / 2) ** 2
    # sin²(θ/2) = (a² − (r − s)²)/(4rs), its factors written without cancellation.
    wide, tall = a[..., None], r[..., None]
    product = (wide - tall + s) * (wide + tall - s)
    ratio = np.divide(product, 4 * tall * s, out=np.zeros_like(s), where=tall * s > 0)
    sine2 = np.clip(ratio, 0.0, 1.0)
    cap = 2 / math.pi * np.arcsin(np.sqrt(sine2)) if dimension == 2 else sine2
    density = s ** (dimension - 1) * np.exp(-s) / math.gamma(dimension)
    return np.asarray(inside + (cap * density * near * np.sin(psi)) @ weight)


def _gamma_cdf(u: Array, dimension: int) -> Array:
    """Return 1 − e^{−u} Σ_{j<k} u^j/j!."""
    terms = sum(u**j / math.factorial(j) for j in range(1, dimension))
    return np.asarray(-np.expm1(-u) - np.exp(-u) * terms)


@point_estimator.register
def _(query: Disc, scale: float, debias: bool) -> PointEstimator:
    if debias or query.dimension > 3:
        return any_query(query, scale, debias)
    return DiscEstimator(query, scale)
