"""What an analyst asks: functions of a private point, with their slopes and smooth bounds."""

from geoveil.gp.queries.base import Query
from geoveil.gp.queries.indicator import Disc, Range, SoftIndicator, Threshold, TwoWayThreshold
from geoveil.gp.queries.kernel import GaussianKernel

__all__ = [
    "Disc",
    "GaussianKernel",
    "Query",
    "Range",
    "SoftIndicator",
    "Threshold",
    "TwoWayThreshold",
]
