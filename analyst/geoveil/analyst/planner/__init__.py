"""Planning: which mechanism suits a question, and how good any could be [MATH §8].

From the top: `problem` and `priors` state the question and public knowledge;
`candidates` are kinds of mechanisms, each with a `prediction` of its error; `coarse` and `search`
try bands for them, by tables and then exactly; `plan` chooses, `allocation` for several questions;
`caps` bound the odds of any two values.
"""

from geoveil.analyst.planner.allocation import (
    ALLOCATIONS as ALLOCATIONS,
    Allocated as Allocated,
    Comparison as Comparison,
    Searches as Searches,
    compare_allocations as compare_allocations,
    vector_answers as vector_answers,
)
from geoveil.analyst.planner.candidates import (
    DEBIASED as DEBIASED,
    KINDS as KINDS,
    POINTS as POINTS,
    Declared as Declared,
    PointReports as PointReports,
    ReportLaw as ReportLaw,
    in_words as in_words,
    profile_of as profile_of,
    without_slack as without_slack,
)
from geoveil.analyst.planner.caps import (
    CAPPED_WIDTH as CAPPED_WIDTH,
    ChosenCap as ChosenCap,
    cheapest_cap as cheapest_cap,
    default_cap as default_cap,
)
from geoveil.analyst.planner.coarse import (
    NARROWEST as NARROWEST,
    WIDEST as WIDEST,
    widest_within as widest_within,
    width as width,
)
from geoveil.analyst.planner.plan import (
    CLOSE as CLOSE,
    Plan as Plan,
    planned as planned,
    screened as screened,
)
from geoveil.analyst.planner.prediction import (
    NORMAL_95 as NORMAL_95,
    Prediction as Prediction,
    Targets as Targets,
    binomial as binomial,
    mean_reciprocal as mean_reciprocal,
    predicted as predicted,
)
from geoveil.analyst.planner.priors import (
    DoubtedPrior as DoubtedPrior,
    ExpPrior as ExpPrior,
    HeapedPrior as HeapedPrior,
    HistogramPrior as HistogramPrior,
    LogNormalPrior as LogNormalPrior,
    LogPrior as LogPrior,
    Prior as Prior,
    SamplePrior as SamplePrior,
    checked_counts as checked_counts,
)
from geoveil.analyst.planner.problem import (
    MOST_REPEATED as MOST_REPEATED,
    HardDisc as HardDisc,
    HardPolygon as HardPolygon,
    HardQuestion as HardQuestion,
    HardRange as HardRange,
    HardThreshold as HardThreshold,
    PlanningProblem as PlanningProblem,
    PopulationMean as PopulationMean,
    SoftQuestion as SoftQuestion,
)
from geoveil.analyst.planner.search import Alternative as Alternative, Search as Search
