"""Laplace noise before the query, its bias removed exactly [MATH §5.1].

The operator 1 − b²d²/dv² undoes Laplace smoothing, so g = φ − b²φ'' has the mean
E[g(s + Laplace(b))] = φ(s).
"""

from fractions import Fraction

from geoveil.gp.mechanisms.distance import DistanceLaplace


class DebiasedLaplace(DistanceLaplace):
    """y = g(s(x) + Laplace(1/ε)): ε-GP, unbiased, and bounded.

    Its variance is at most 1.35 times a lower bound for every unbiased ε-GP mechanism, for bands
    of at least two noise scales and bandwidths of at least 1.4 [MATH §5.1]; docs/mechanisms.md has
    the table. `LinearProgramMechanism` comes nearer, and takes seconds to find.

    Args:
        query: a query whose profile has a Lipschitz slope: smoothstep indicators, the kernel,
            formulas without corners.
        privacy: the guarantee, in the unit of x.
        step: see `Mechanism`; at most 1, so that 0 and 1 lie on the grid.

    Raises:
        UnsupportedError: if the profile has no bounded debiased form (the linear ramp).

    Example:
        >>> from geoveil.gp import GeoPrivacy, Threshold
        >>> q = Threshold(at=100_000, width=16_000, profile="smoothstep")
        >>> m = DebiasedLaplace(q, GeoPrivacy(epsilon=1.0, per=8000.0))
        >>> m.range
        (-1.5, 2.5)
        >>> m.variance([100_000, 150_000]).round(6).tolist()
        [0.809951, 0.003152]
    """

    @property
    def unbiased(self) -> bool:
        """See `Mechanism.unbiased`."""
        return True

    @property
    def _undo(self) -> Fraction:
        return self._b
