"""One way to ask, with the error that is to be expected of it."""

from dataclasses import dataclass

from geoveil.analyst.planner.kinds import Parameters, Reports
from geoveil.analyst.planner.prediction import Prediction
from geoveil.gp.deconvolution import SmoothedRegion
from geoveil.gp.privacy import GeoPrivacy
from geoveil.gp.queries.base import Query


@dataclass(frozen=True)
class Alternative:
    """One way to ask, with the error to expect."""

    kind: str
    """A name in `KINDS`, or "LinearProgramMechanism"."""
    query: Query | SmoothedRegion
    """What is asked, softly."""
    privacy: GeoPrivacy
    """What each report promises; for a kind that does not keep it, what was asked for."""
    parameters: Parameters
    reports: Reports
    """The mechanism; for a value campaign with its estimator."""
    prediction: Prediction
    keeps: bool = True
    """Whether it keeps ε-GP, so that it may be chosen."""
    answers_all: bool = False
    """Whether one report answers every question."""
