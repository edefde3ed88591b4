"""Guarantees: the promise of a release, with its unit, and their composition.

A randomised map M is (ε, δ, Λ)-GP if P[M(x)∈S] ≤ e^{ε|x−x'|} P[M(x')∈S] + δ for all S and all
|x−x'| ≤ Λ; ε-GP is δ=0, Λ=∞ [SGP Def. 5; MATH §1]. The rate ε has the unit 1/distance. What follows
from guarantees (`compose`, `repeated`, `at`, `local`) is rounded up. Parts of a budget (`scaled`,
`split`, `per_factor`) are rounded down.
"""

from geoveil.gp.privacy.geo import GeoPrivacy, compose
from geoveil.gp.privacy.local import LocalPrivacy
from geoveil.gp.privacy.ratio import LogScale

__all__ = ["GeoPrivacy", "LocalPrivacy", "LogScale", "compose"]
