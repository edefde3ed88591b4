"""Planning: which mechanism suits a question, and how good any could be [MATH §8]."""

from geoveil.gp.mechanisms.channel_prior import ScalarPrior
from geoveil.gp.planner.allocation import (
    ALLOCATIONS,
    Allocated,
    Allocation,
    Comparison,
    compare_allocations,
)
from geoveil.gp.planner.alternative import Alternative
from geoveil.gp.planner.hard import (
    HardDisc,
    HardPolygon,
    HardRange,
    HardThreshold,
    HardTwoWayThreshold,
)
from geoveil.gp.planner.kinds import KINDS, Kind, PointReports, Reports
from geoveil.gp.planner.laws import HistogramPrior, LogNormalPrior, RasterPrior
from geoveil.gp.planner.lower_bound import LowerBound, lower_bound
from geoveil.gp.planner.plan import Plan, plan
from geoveil.gp.planner.prediction import Prediction
from geoveil.gp.planner.prior import Prior, SamplePrior
from geoveil.gp.planner.question import HardQuestion, Question, SoftQuestion

__all__ = [
    "ALLOCATIONS",
    "KINDS",
    "Allocated",
    "Allocation",
    "Alternative",
    "Comparison",
    "HardDisc",
    "HardPolygon",
    "HardQuestion",
    "HardRange",
    "HardThreshold",
    "HardTwoWayThreshold",
    "HistogramPrior",
    "Kind",
    "LogNormalPrior",
    "LowerBound",
    "Plan",
    "PointReports",
    "Prediction",
    "Prior",
    "Question",
    "RasterPrior",
    "Reports",
    "SamplePrior",
    "ScalarPrior",
    "SoftQuestion",
    "compare_allocations",
    "lower_bound",
    "plan",
]
