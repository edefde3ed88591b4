"""Profiles with a smooth bound in closed form, or nearly [SGP Lemmas 4.1, 4.3, 4.7, App. C.3].

With L_Λ(z) the steepest chord of length ≤ Λ from z = |s| the bound is sup_y L_Λ(y)/g(β|z − y|). A
profile supplies L_Λ and, if there is one, the closed form; else `smooth.envelope` finds it.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache

from geoveil.gp.arithmetic import FLOAT, Arithmetic, Real
from geoveil.gp.arrays import Array, np
from geoveil.gp.exact import round_down
from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.smooth.certified import BOUNDS, CertifiedBound, tabulate
from geoveil.gp.smooth.envelope import ENVELOPES, Envelope
from geoveil.gp.smooth.growth import Smoothness

_PLAUSIBLE = 2.05
"""Largest ratio of the bound by cells, which double far out, to that by exact maximizers."""


class ClosedFormProfile(Profile):
    """A profile with |φ'| symmetric in s, rising to one peak and falling again."""

    @abstractmethod
    def local_lipschitz(self, z: Real, reach: float, ops: Arithmetic = FLOAT) -> Real:
        """Return L_Λ(z) for z ≥ 0: the steepest chord of length ≤ Λ from z; the slope for Λ = 0."""

    @abstractmethod
    def closed_form(self, z: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real | None:
        """Return B for z ≥ 0 in closed form; None without one."""

    @abstractmethod
    def slope_breakpoints(self, reach: float) -> tuple[float, ...]:
        """Return the points ≥ 0 where L_Λ changes its form, including its peak."""

    def smooth_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        """Return B(s): see the module docstring and `Query.smooth_bound`."""
        z = ops.absolute(s)
        bound = self.closed_form(z, smoothness, ops)
        if bound is not None:
            return bound
        above = self.noise_bound(s, smoothness, ops)
        if not ops.rounded:
            return above
        # The maximizers are searched for, and a search can fail; the cells can't.
        tight = _envelope(self, smoothness)(z)
        return np.where(tight * _PLAUSIBLE >= above, np.minimum(tight, above), above)

    def turns(self, reach: float) -> tuple[float, ...]:
        at = self.slope_breakpoints(reach)
        return (*(-z for z in at), *at)

    def noise_bound(self, s: Real, smoothness: Smoothness, ops: Arithmetic = FLOAT) -> Real:
        """Return the bound in closed form, or from cells, up to 1 % above.

        It is up to 2 % above from 100,000 length scales on, and a factor of 2 from ten million on;
        more where it is below the bound's `negligible` fraction of the largest slope.
        """
        z = ops.absolute(s)
        bound = self.closed_form(z, smoothness, ops)
        return _table(self, smoothness)(z, ops) if bound is None else bound


@lru_cache(maxsize=256)
def _envelope(profile: ClosedFormProfile, smoothness: Smoothness) -> Envelope:
    return ENVELOPES[smoothness.growth](
        lambda z: np.asarray(profile.local_lipschitz(z, smoothness.reach)),
        float(smoothness.beta),
        profile.slope_breakpoints(smoothness.reach),
        profile.length_scale,
    )


@lru_cache(maxsize=64)
def _cells(profile: ClosedFormProfile, reach: float, growth: str) -> tuple[Array, Array]:
    return tabulate(
        lambda z: np.asarray(profile.local_lipschitz(z, reach)),
        profile.slope_breakpoints(reach),
        profile.length_scale,
        tightness=BOUNDS[growth].tightness,
        negligible=BOUNDS[growth].negligible,
    )


@lru_cache(maxsize=256)
def _table(profile: ClosedFormProfile, smoothness: Smoothness) -> CertifiedBound:
    cells = _cells(profile, smoothness.reach, smoothness.growth)
    return BOUNDS[smoothness.growth](*cells, round_down(Fraction(smoothness.beta)))
