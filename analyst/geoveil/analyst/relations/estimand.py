"""Estimate your own parameter: correct its score, and find the root [MATH §16]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.relations.designs import design_of, terms_of
from geoveil.analyst.relations.form_reports import FormReports, FormStatistic, weights_of
from geoveil.analyst.relations.own_score import OwnScore, ScoreFunction
from geoveil.analyst.relations.parameters import ParameterEstimates
from geoveil.analyst.relations.place_terms import Coordinate
from geoveil.analyst.relations.solving import sandwich, solve
from geoveil.analyst.relations.terms import Term
from geoveil.gp import Array, ParameterError, UnsupportedError, validation


@dataclass(frozen=True)
class Estimand(FormStatistic[ParameterEstimates]):
    """Parameters at which the mean of a smooth score is 0, over the people behind reports.

    Example:
        >>> import numpy as np
        >>> def score(x, theta):
        ...     (growth,) = theta
        ...     return [x["savings"] - np.exp(growth * x["age"])]
        >>> Estimand(score, on=["savings", "age"], region={"growth": (0.0, 0.1)}).text
        'score'
    """

    score: ScoreFunction
    """(answers by name, parameters) → as many values as there are parameters.

    It is made of + − × ÷, powers and NumPy's functions, and oriented as the derivative of what is
    to be largest. Answers have the names of `Regression`'s covariates; options and sets are 1 or 0.
    """
    on: Sequence[str | Term]
    """Names of fields, or functions of them."""
    region: Mapping[str, tuple[float, float]]
    """Parameter → the ends of its search interval."""
    start: Sequence[float] | None = None
    """The starting point; by default the middle of the region."""

    @property
    def text(self) -> str:
        """The name of the score."""
        return getattr(self.score, "__name__", "score")

    def of(
        self, reports: FormReports, confidence: float = 0.95, weights: ArrayLike | None = None
    ) -> ParameterEstimates:
        validation.between("confidence", confidence, 0, 1, low_open=True, high_open=True)
        for name, (low, high) in self.region.items():
            validation.require_ends(f"region[{name!r}].", low, high)
        region = np.array(list(self.region.values()), np.float64).reshape(-1, 2)
        start = region.mean(axis=1) if self.start is None else np.array(self.start, np.float64)

        def inside(theta: Array) -> bool:
            return bool(((region[:, 0] <= theta) & (theta <= region[:, 1])).all())

        if not len(region) or start.shape != region.shape[:1] or not inside(start):
            raise ParameterError(
                "start", self.start, f"a number in the region of each: {self.region}"
            )
        terms = terms_of(reports.campaign, self.on)
        for term in terms:
            if isinstance(term, Coordinate):
                raise UnsupportedError(f"{term.text}: a place enters by sets, with Within")
        design, places = design_of(reports, terms)
        names = [terms[places[1:].index(i)].text for i in range(1, len(places))]
        w = weights_of(reports, weights)
        score = OwnScore(design, names, self.score, w, len(region))
        score.check(region)
        root = solve(score, start, inside, w, "state another region or start, or use more reports")
        errors = sandwich(root.influence, w)
        return ParameterEstimates(
            label=f"Root of {self.text}",
            names=tuple(self.region),
            values=root.theta,
            covariance=errors.covariance,
            degrees=errors.degrees,
            skewness=errors.skewness,
            farthest=None,
            largest=float(w.max() / w.sum()),
            confidence=confidence,
            n=reports.n,
            about=(
                "The score is corrected exactly for the noise of every field; its variance was"
                " checked to be finite at the centre and the corners of the region.",
            ),
        )
