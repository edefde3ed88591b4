"""Planning: which mechanism suits a question, and how good any could be [MATH §8].

From the top: `question`, `priors` and `problem` state the question and public knowledge;
`candidates` are kinds of mechanisms, each with a `prediction` of its error; `coarse` and `search`
try bands for them, by tables and then exactly; `plan` chooses, `allocation` for several questions;
`caps` bound the odds of any two values.
"""

from geoveil.analyst.planner.allocation import (
    ALLOCATIONS,
    Allocated,
    AllocationRule,
    Comparison,
    compare_allocations,
)
from geoveil.analyst.planner.candidates import KINDS, Kind, PointReports, ReportLaw
from geoveil.analyst.planner.plan import Plan, plan
from geoveil.analyst.planner.prediction import Prediction
from geoveil.analyst.planner.priors import (
    DoubtedPrior,
    ExpPrior,
    HeapedPrior,
    HistogramPrior,
    LogNormalPrior,
    LogPrior,
    Prior,
    SamplePrior,
)
from geoveil.analyst.planner.question import (
    HardDisc,
    HardPolygon,
    HardQuestion,
    HardRange,
    HardThreshold,
    PopulationMean,
    SoftQuestion,
)
from geoveil.analyst.planner.search import Alternative

__all__ = [
    "ALLOCATIONS",
    "KINDS",
    "Allocated",
    "AllocationRule",
    "Alternative",
    "Comparison",
    "DoubtedPrior",
    "ExpPrior",
    "HardDisc",
    "HardPolygon",
    "HardQuestion",
    "HardRange",
    "HardThreshold",
    "HeapedPrior",
    "HistogramPrior",
    "Kind",
    "LogNormalPrior",
    "LogPrior",
    "Plan",
    "PointReports",
    "PopulationMean",
    "Prediction",
    "Prior",
    "ReportLaw",
    "SamplePrior",
    "SoftQuestion",
    "compare_allocations",
    "plan",
]
