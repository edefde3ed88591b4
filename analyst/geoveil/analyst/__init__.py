"""The asker of a question: which mechanism suits it, its campaign, and what the answer is worth."""

from geoveil.analyst.plan_files import campaign_of, planned_participants
from geoveil.analyst.planner import (
    HistogramPrior,
    LogNormalPrior,
    Prior,
    RasterPrior,
    SamplePrior,
)
from geoveil.analyst.planning import PlannedQuestion, PlannedQuestions, plan_for
from geoveil.analyst.questions import (
    QUESTIONS,
    AnalystQuestion,
    DensityAt,
    MeanOf,
    QuestionFamily,
    ShareAbove,
    ShareBetween,
    ShareInside,
    ShareWithin,
    Softness,
    questions_in,
)
from geoveil.analyst.request import PlanRequest, PublicPrior
from geoveil.gp import not_private
from geoveil.gp.version import __version__ as __version__

__all__ = [
    "QUESTIONS",
    "AnalystQuestion",
    "DensityAt",
    "HistogramPrior",
    "LogNormalPrior",
    "MeanOf",
    "PlanRequest",
    "PlannedQuestion",
    "PlannedQuestions",
    "Prior",
    "PublicPrior",
    "QuestionFamily",
    "RasterPrior",
    "SamplePrior",
    "ShareAbove",
    "ShareBetween",
    "ShareInside",
    "ShareWithin",
    "Softness",
    "campaign_of",
    "plan_for",
    "planned_participants",
    "questions_in",
]

not_private.declare_experiments(__name__)
