"""The asker of a question: which mechanism suits it, its campaign, and what the answer is worth."""

from geoveil.analyst.campaigns import (
    asked_of_points,
    campaign_asking,
    campaign_for_points,
    softness_of_points,
)
from geoveil.analyst.choosing import participants_to_name_the_top
from geoveil.analyst.chosen_bands import ChosenBands, hard_shares
from geoveil.analyst.client import Analyst, AsyncAnalyst
from geoveil.analyst.contamination import Contamination, planned_contamination
from geoveil.analyst.errors import (
    AnalystError,
    ServerError,
    TLSMissingError,
    TokenInClearError,
)
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.labelled_estimate import (
    ContaminatedEstimate,
    LabelledEstimate,
    RobustInterval,
)
from geoveil.analyst.messages import PublishedCampaign
from geoveil.analyst.outlines import coastline, new_york_boroughs
from geoveil.analyst.pilot import pilot_prior
from geoveil.analyst.plan_files import (
    PlannedPoints,
    campaign_of,
    planned_participants,
    planned_points,
)
from geoveil.analyst.planned_groups import planned_groups
from geoveil.analyst.planned_periods import planned_periods
from geoveil.analyst.planned_quantiles import planned_quantiles
from geoveil.analyst.planner import (
    DoubtedPrior,
    HeapedPrior,
    HistogramPrior,
    LogNormalPrior,
    Prior,
    RasterPrior,
    SamplePrior,
)
from geoveil.analyst.planning import PlannedQuestion, PlannedQuestions, plan_for
from geoveil.analyst.planning_session import Forecast, PlanningSession
from geoveil.analyst.questions import (
    AnalystQuestion,
    DensityAt,
    MeanOf,
    ShareAbove,
    ShareBetween,
    ShareInside,
    ShareWithin,
    Softness,
    area_of,
)
from geoveil.analyst.request import PlanRequest, PublicPrior
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.asked_alike import ask_changes, asked_alike
from geoveil.analyst.statistics.comparison import (
    Changes,
    CurveChange,
    People,
    compare,
    holm,
)
from geoveil.analyst.statistics.distribution import (
    Curve,
    Density,
    DistributionCurve,
    DistributionFunction,
)
from geoveil.analyst.statistics.districts import Districts, DistrictShares, Nearest
from geoveil.analyst.statistics.groups import Differences, GroupEstimates
from geoveil.analyst.statistics.inequality import GeometricMean, Gini, MeanValue, TopShare
from geoveil.analyst.statistics.joint import JointEstimates, Quantity
from geoveil.analyst.statistics.map import DensityMap, Map
from geoveil.analyst.statistics.one_mechanism import estimate
from geoveil.analyst.statistics.over_time import Change, Cohorts, OverTime
from geoveil.analyst.statistics.partition import Histogram, PartitionShares, partition_shares
from geoveil.analyst.statistics.quantiles import QuantileEstimates, Quantiles
from geoveil.analyst.statistics.ranking import Ranking, Top, ranking_of
from geoveil.analyst.statistics.reports import ReportRows, Reports, reports_of
from geoveil.analyst.statistics.simultaneous import critical_value
from geoveil.analyst.statistics.small_areas import SmallAreaEstimates, small_areas
from geoveil.analyst.statistics.smoothed import SmoothedCurve, SmoothedDistribution
from geoveil.analyst.statistics.statistic import Contaminated, Means, Statistic
from geoveil.analyst.statistics.strata import ByGroup
from geoveil.analyst.statistics.trends import Trends, trend
from geoveil.analyst.statistics.weighting import (
    WeightedSample,
    margins_from_csv,
    raking_weights,
)
from geoveil.analyst.vocabulary import QUESTIONS, QuestionFamily, questions_in
from geoveil.campaign.connection import TLS
from geoveil.gp import not_private
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "QUESTIONS",
    "TLS",
    "Analyst",
    "AnalystError",
    "AnalystQuestion",
    "AsyncAnalyst",
    "ByGroup",
    "CampaignEstimates",
    "Change",
    "Changes",
    "ChosenBands",
    "Cohorts",
    "Contaminated",
    "ContaminatedEstimate",
    "Contamination",
    "Curve",
    "CurveChange",
    "Density",
    "DensityAt",
    "DensityMap",
    "Differences",
    "DistributionCurve",
    "DistributionFunction",
    "DistrictShares",
    "Districts",
    "DoubtedPrior",
    "Forecast",
    "GeometricMean",
    "Gini",
    "GroupEstimates",
    "HeapedPrior",
    "Histogram",
    "HistogramPrior",
    "JointEstimates",
    "LabelledEstimate",
    "LogNormalPrior",
    "Map",
    "MeanOf",
    "MeanValue",
    "Means",
    "Nearest",
    "OverTime",
    "PartitionShares",
    "People",
    "PlanRequest",
    "PlannedPoints",
    "PlannedQuestion",
    "PlannedQuestions",
    "PlanningSession",
    "Prior",
    "PublicPrior",
    "PublishedCampaign",
    "QuantileEstimates",
    "Quantiles",
    "Quantity",
    "QuestionFamily",
    "Ranking",
    "RasterPrior",
    "ReportRows",
    "Reports",
    "Result",
    "RobustInterval",
    "SamplePrior",
    "ServerError",
    "ShareAbove",
    "ShareBetween",
    "ShareInside",
    "ShareWithin",
    "SmallAreaEstimates",
    "SmoothedCurve",
    "SmoothedDistribution",
    "Softness",
    "Statistic",
    "TLSMissingError",
    "TokenInClearError",
    "Top",
    "TopShare",
    "Trends",
    "WeightedSample",
    "area_of",
    "ask_changes",
    "asked_alike",
    "asked_of_points",
    "campaign_asking",
    "campaign_for_points",
    "campaign_of",
    "coastline",
    "compare",
    "critical_value",
    "estimate",
    "hard_shares",
    "holm",
    "margins_from_csv",
    "new_york_boroughs",
    "participants_to_name_the_top",
    "partition_shares",
    "pilot_prior",
    "plan_for",
    "planned_contamination",
    "planned_groups",
    "planned_participants",
    "planned_periods",
    "planned_points",
    "planned_quantiles",
    "questions_in",
    "raking_weights",
    "ranking_of",
    "reports_of",
    "small_areas",
    "softness_of_points",
    "trend",
]

not_private.declare_experiments(__name__)
