"""Unbiased estimates from points perturbed before the question was known [MATH §5.2].

Importing this package registers every family's estimator with `point_estimator`.
"""

from geoveil.gp.deconvolution.base import PlugIn, PointEstimator, point_estimator
from geoveil.gp.deconvolution.kernel import KernelEstimator
from geoveil.gp.deconvolution.line import ProfileEstimator, RangeEstimator
from geoveil.gp.deconvolution.region import RegionEstimator, SmoothedRegion

__all__ = [
    "KernelEstimator",
    "PlugIn",
    "PointEstimator",
    "ProfileEstimator",
    "RangeEstimator",
    "RegionEstimator",
    "SmoothedRegion",
    "point_estimator",
]
