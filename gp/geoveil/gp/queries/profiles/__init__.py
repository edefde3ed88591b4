"""One-dimensional profiles φ, with slopes, smooth bounds and debiased forms."""

from geoveil.gp.queries.profiles.base import Profile
from geoveil.gp.queries.profiles.formula import FormulaProfile
from geoveil.gp.queries.profiles.gaussian import Gaussian
from geoveil.gp.queries.profiles.soft_step import Ramp, Smoothstep
from geoveil.gp.queries.profiles.tabulated import TabulatedProfile

__all__ = [
    "FormulaProfile",
    "Gaussian",
    "Profile",
    "Ramp",
    "Smoothstep",
    "TabulatedProfile",
]
