"""The analyst's side: plan a question, publish its campaign, and read the estimates."""

from geoveil.analyst.calls import (
    LAST_PERIOD as LAST_PERIOD,
    Call as Call,
    PublishedCampaign,
    published as published,
)
from geoveil.analyst.campaign_request import CampaignRequest as CampaignRequest
from geoveil.analyst.campaigns import (
    asked_of_points,
    browsers_refuse as browsers_refuse,
    campaign_asking,
    campaign_for_points,
    campaign_record as campaign_record,
    expected_text as expected_text,
    id_of as id_of,
    refuse_unlikely as refuse_unlikely,
    softness_of_points,
)
from geoveil.analyst.card import NOT_STATED as NOT_STATED, card_of as card_of, ways_of as ways_of
from geoveil.analyst.central import (
    CentralPrivacy,
    CentralWish,
    central_privacy,
    central_record as central_record,
    central_text as central_text,
    of_one_question as of_one_question,
)
from geoveil.analyst.chosen_bands import ChosenBands, hard_shares
from geoveil.analyst.client import Analyst, AsyncAnalyst
from geoveil.analyst.contamination import (
    MEAN_MOVES as MEAN_MOVES,
    Contamination,
    ResponseRates,
    worst_case,
)
from geoveil.analyst.errors import (
    AnalystError,
    ServerError,
    StatisticFailedError,
    TLSMissingError,
    TokenInClearError,
    code_of_packages as code_of_packages,
)
from geoveil.analyst.estimate_request import EstimateRequest as EstimateRequest
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.analyst.feasible_alternatives import UnmetWishError as UnmetWishError
from geoveil.analyst.form_files import (
    fields_of_mask as fields_of_mask,
    fields_of_toml,
    texts_of_toml as texts_of_toml,
    toml_of,
)
from geoveil.analyst.geojson import (
    check_distinct as check_distinct,
    features_in as features_in,
    outlines_in as outlines_in,
)
from geoveil.analyst.hard_question import Heap as Heap
from geoveil.analyst.labelled_estimate import ContaminatedEstimate, LabelledEstimate, RobustInterval
from geoveil.analyst.masks import (
    NOT_HIDDEN as NOT_HIDDEN,
    mask_file as mask_file,
    sidecar_of as sidecar_of,
)
from geoveil.analyst.outlines import (
    coastline,
    lines_of as lines_of,
    new_york_boroughs,
    outlines_of as outlines_of,
)
from geoveil.analyst.pictures import COLOR as COLOR
from geoveil.analyst.pilot import (
    PilotCounts as PilotCounts,
    expectation_maximisation as expectation_maximisation,
    pilot_prior,
    prior_of_counts as prior_of_counts,
)
from geoveil.analyst.plan_files import (
    PlannedPoints,
    campaign_of,
    planned_participants,
    planned_points,
)
from geoveil.analyst.planned_forms import (
    RELATIONS as RELATIONS,
    PlannedForm as PlannedForm,
    Wish as Wish,
    form_plan as form_plan,
    sample_of as sample_of,
    simulated as simulated,
    wish_in as wish_in,
    wishes_for as wishes_for,
)
from geoveil.analyst.planned_quantiles import planned_quantiles
from geoveil.analyst.planner import (
    ALLOCATIONS as ALLOCATIONS,
    NORMAL_95 as NORMAL_95,
    Allocated as Allocated,
    Comparison as Comparison,
    DoubtedPrior,
    HardQuestion as HardQuestion,
    HeapedPrior,
    HistogramPrior,
    LogNormalPrior,
    Plan as Plan,
    PointReports as PointReports,
    Prediction as Prediction,
    Prior,
    ReportLaw as ReportLaw,
    SamplePrior,
    mean_reciprocal as mean_reciprocal,
    predicted as predicted,
)
from geoveil.analyst.planning import (
    Forecast,
    PlannedQuestion,
    PlannedQuestions,
    PlanningSession,
    central_report as central_report,
    further_report as further_report,
    plan_for,
    planned_contamination,
    planned_periods,
)
from geoveil.analyst.public_prior import PublicPrior
from geoveil.analyst.questions import (
    RADIUS_M as RADIUS_M,
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
from geoveil.analyst.relations.by import (
    ByGroup,
    CurveBy,
    MeanBy,
    MeansByGroup,
    Parts,
    QuantileBy,
    StatisticBy,
)
from geoveil.analyst.relations.estimand import Estimand
from geoveil.analyst.relations.form_reports import (
    FormReports,
    FormStatistic,
    contributions,
    form_reports_of,
    write_answers as write_answers,
)
from geoveil.analyst.relations.mean_map import MeanMap, MeanMapEstimates
from geoveil.analyst.relations.moments import Correlation, Covariance, Mean, PartialCorrelation
from geoveil.analyst.relations.regression import Predictions, Regression, RegressionEstimates
from geoveil.analyst.relations.solving import ParameterEstimates
from geoveil.analyst.relations.tables import (
    CrossTable,
    Shares,
    SharesGiven,
    ShareTable,
    with_invited as with_invited,
)
from geoveil.analyst.relations.terms import (
    Above,
    Between,
    Coordinate,
    NumberOf,
    Option,
    Outside,
    Score,
    Term,
    Within,
)
from geoveil.analyst.report import Record as Record
from geoveil.analyst.request import PlanRequest
from geoveil.analyst.results import (
    Answer,
    GeoResult as GeoResult,
    Result,
    cell_text as cell_text,
    cells as cells,
    counted as counted,
    measured as measured,
)
from geoveil.analyst.simultaneous import critical_value
from geoveil.analyst.sources import (
    EXPORTED as EXPORTED,
    ask_changes,
    asked_alike,
    is_file_of_reports as is_file_of_reports,
)
from geoveil.analyst.statistics.comparison import Changes, CurveChange, People, compare, holm
from geoveil.analyst.statistics.distribution import (
    Curve,
    Density,
    DistributionCurve,
    DistributionFunction,
    inverse as inverse,
)
from geoveil.analyst.statistics.districts import (
    Districts,
    DistrictShares,
    Nearest,
    place_for_name as place_for_name,
)
from geoveil.analyst.statistics.groups import Differences, GroupEstimates
from geoveil.analyst.statistics.inequality import GeometricMean, Gini, MeanValue, TopShare
from geoveil.analyst.statistics.joint import JointEstimates, Quantity
from geoveil.analyst.statistics.map import DensityMap, Map
from geoveil.analyst.statistics.over_time import (
    FALSE_ALARMS as FALSE_ALARMS,
    Change,
    Cohorts,
    OverTime,
    flagged as flagged,
    windows as windows,
)
from geoveil.analyst.statistics.partition import Histogram, PartitionShares, partition_shares
from geoveil.analyst.statistics.quantiles import QuantileEstimates, Quantiles
from geoveil.analyst.statistics.ranking import Ranking, Top, ranking_of
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.statistics.reports import Reports, estimate, points_in as points_in, reports_of
from geoveil.analyst.statistics.statistic import Contaminated, Means, Statistic
from geoveil.analyst.statistics.trends import Trends, trend
from geoveil.analyst.vocabulary import (
    NAME_PROPERTY as NAME_PROPERTY,
    STATISTICS as STATISTICS,
    VOCABULARY as VOCABULARY,
    StatisticFamily,
    all_given as all_given,
    any_numbers_in as any_numbers_in,
    left_out as left_out,
    numbers_in as numbers_in,
    place_in as place_in,
    questions_in,
    statistics_in,
)
from geoveil.analyst.whole_file import whole_file as whole_file
from geoveil.analyst.xlsform import FormRowsError, ImportedForm, form_of_workbook, workbook_of
from geoveil.campaign import TLS
from geoveil.gp import __version__ as __version__, not_private

__all__ = [
    "TLS",
    "Above",
    "Analyst",
    "AnalystError",
    "AnalystQuestion",
    "Answer",
    "AsyncAnalyst",
    "Between",
    "ByGroup",
    "CampaignEstimates",
    "CentralPrivacy",
    "CentralWish",
    "Change",
    "Changes",
    "ChosenBands",
    "Cohorts",
    "Contaminated",
    "ContaminatedEstimate",
    "Contamination",
    "Coordinate",
    "Correlation",
    "Covariance",
    "CrossTable",
    "Curve",
    "CurveBy",
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
    "Estimand",
    "Forecast",
    "FormReports",
    "FormRowsError",
    "FormStatistic",
    "GeometricMean",
    "Gini",
    "GroupEstimates",
    "HeapedPrior",
    "Histogram",
    "HistogramPrior",
    "ImportedForm",
    "JointEstimates",
    "LabelledEstimate",
    "LogNormalPrior",
    "Map",
    "Mean",
    "MeanBy",
    "MeanMap",
    "MeanMapEstimates",
    "MeanOf",
    "MeanValue",
    "Means",
    "MeansByGroup",
    "Nearest",
    "NumberOf",
    "Option",
    "Outside",
    "OverTime",
    "ParameterEstimates",
    "PartialCorrelation",
    "PartitionShares",
    "Parts",
    "People",
    "PlanRequest",
    "PlannedPoints",
    "PlannedQuestion",
    "PlannedQuestions",
    "PlanningSession",
    "Predictions",
    "Prior",
    "PublicPrior",
    "PublishedCampaign",
    "QuantileBy",
    "QuantileEstimates",
    "Quantiles",
    "Quantity",
    "Ranking",
    "Regression",
    "RegressionEstimates",
    "ReportRows",
    "Reports",
    "ResponseRates",
    "Result",
    "RobustInterval",
    "SamplePrior",
    "Score",
    "ServerError",
    "ShareAbove",
    "ShareBetween",
    "ShareInside",
    "ShareTable",
    "ShareWithin",
    "Shares",
    "SharesGiven",
    "Softness",
    "Statistic",
    "StatisticBy",
    "StatisticFailedError",
    "StatisticFamily",
    "TLSMissingError",
    "Term",
    "TokenInClearError",
    "Top",
    "TopShare",
    "Trends",
    "Within",
    "area_of",
    "ask_changes",
    "asked_alike",
    "asked_of_points",
    "campaign_asking",
    "campaign_for_points",
    "campaign_of",
    "central_privacy",
    "coastline",
    "compare",
    "contributions",
    "critical_value",
    "estimate",
    "fields_of_toml",
    "form_of_workbook",
    "form_reports_of",
    "hard_shares",
    "holm",
    "new_york_boroughs",
    "partition_shares",
    "pilot_prior",
    "plan_for",
    "planned_contamination",
    "planned_participants",
    "planned_periods",
    "planned_points",
    "planned_quantiles",
    "questions_in",
    "ranking_of",
    "reports_of",
    "softness_of_points",
    "statistics_in",
    "toml_of",
    "trend",
    "workbook_of",
    "worst_case",
]

not_private.declare_experiments(__name__)
