"""Regressions on 10⁶ private reports of five fields, against statsmodels on the true values."""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import statsmodels.api as sm

from benchmarks.timing import Figure, seconds_of, show
from geoveil.analyst import FormReports, Option, Regression
from geoveil.analyst.planned_forms import simulated
from geoveil.campaign import Attribute, ChoiceField, Field, FormCampaign, NumberField
from geoveil.gp import GeoPrivacy

REPORTS, NOISE, ROUNDS = 1_000_000, 0.3, 3
NUMBERS, CHOICES = ("a", "b", "c", "d", "e"), {"two": 2, "three": 3, "four": 4}


def table() -> list[Figure]:
    """Print seconds of regressions on five perturbed numbers, and on three and two choices."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(REPORTS, 5))
    index = x @ np.array([0.5, -0.8, 0.3, 0.2, 0.1])
    normal = index + rng.normal(size=REPORTS)
    binary = (rng.random(REPORTS) < 1 / (1 + np.exp(-index))).astype(float)
    counts = rng.poisson(np.exp(index)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reports = _reports(rng, [*x.T, normal, counts, binary])
        clear = sm.add_constant(x)

        def private(y: Any, on: list[str], model: Any) -> Callable[[], object]:
            return lambda: reports.ask(Regression(y, on, model))

        five, yes = list(NUMBERS), Option("binary", "1")
        of_line, of_index = (
            "statsmodels OLS, HC3, in the clear",
            "statsmodels GLM, HC0, in the clear",
        )
        linear = {
            of_line: lambda: sm.OLS(normal, clear).fit(cov_type="HC3").bse,
            "linear, 5 numbers": private("normal", five, "linear"),
            "linear, 3 numbers, 2 choices": private(
                "normal", [*five[:3], "three", "two"], "linear"
            ),
            "median, 5 numbers": private("normal", five, "median"),
        }
        binomial = sm.families.Binomial()
        others = {
            of_index: lambda: sm.GLM(binary, clear, family=binomial).fit(cov_type="HC0").bse,
            "logistic, 5 numbers": private(yes, five, "logistic"),
            "logistic, 3 numbers, 2 choices": private(yes, [*five[:3], "three", "two"], "logistic"),
            "logistic, 2 numbers, choices of 4 and 3": private(
                yes, [*five[:2], "four", "three"], "logistic"
            ),
            "Poisson, 5 numbers": private("counts", five, "poisson"),
        }
        return [
            *show("linear and median regression", "s", 1, seconds_of(linear, ROUNDS), of_line),
            *show("logistic and Poisson regression", "s", 1, seconds_of(others, ROUNDS), of_index),
        ]


def _reports(rng: np.random.Generator, answers: list[Any]) -> FormReports:
    """Return reports of the numbers, the binary answer, and choices unrelated to them."""
    numbers = (*NUMBERS, "normal", "counts")
    fields: list[Field] = [
        NumberField(
            attribute=Attribute(name=name, unit="unit"), privacy=GeoPrivacy(1, NOISE, "unit")
        )
        for name in numbers
    ]
    fields += [
        ChoiceField(name=name, options=tuple(map(str, range(k))), epsilon=2.0)
        for name, k in {"binary": 2, **CHOICES}.items()
    ]
    form = FormCampaign(
        campaign_id="regression",
        title="Regression",
        fields=tuple(fields),
        opens=datetime(2026, 1, 1, tzinfo=UTC),
        closes=datetime(2027, 1, 1, tzinfo=UTC),
    )
    choices = [rng.integers(0, k, REPORTS) for k in CHOICES.values()]
    return simulated(form, [*answers[:-1], answers[-1].astype(np.int64), *choices], rng)
