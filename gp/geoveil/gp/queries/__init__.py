"""Queries: functions of a private point, with their slopes and smooth bounds."""

from geoveil.gp.queries.base import Query
from geoveil.gp.queries.capped import Cap, Capped
from geoveil.gp.queries.indicator import Disc, Range, SoftIndicator, Threshold, TwoWayThreshold
from geoveil.gp.queries.polygon import Polygon
from geoveil.gp.queries.profiles import (
    FormulaProfile,
    Gaussian,
    Profile,
    Ramp,
    Smoothstep,
    TabulatedProfile,
)
from geoveil.gp.queries.projected import GaussianKernel, Linear, Radial

__all__ = [
    "Cap",
    "Capped",
    "Disc",
    "FormulaProfile",
    "Gaussian",
    "GaussianKernel",
    "Linear",
    "Polygon",
    "Profile",
    "Query",
    "Radial",
    "Ramp",
    "Range",
    "Smoothstep",
    "SoftIndicator",
    "TabulatedProfile",
    "Threshold",
    "TwoWayThreshold",
]
