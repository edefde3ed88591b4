"""Regressions on 10⁶ private reports of five fields, against statsmodels on values in the clear."""

import warnings
from collections.abc import Callable

import numpy as np
import statsmodels.api as sm

from benchmarks.timing import Figure, medians, show
from geoveil.analyst.relations.fitting import fit
from geoveil.analyst.relations.scores import Category, Design, Model

REPORTS, NOISE, ROUNDS = 1_000_000, 0.3, 3


def table() -> list[Figure]:
    """Print seconds of regressions on five perturbed numbers, and on three and two choices."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(REPORTS, 5))
    index = x @ np.array([0.5, -0.8, 0.3, 0.2, 0.1])
    normal = index + rng.normal(size=REPORTS)
    binary = (rng.random(REPORTS) < 1 / (1 + np.exp(-index))).astype(float)
    counts = rng.poisson(np.exp(index)).astype(float)
    z = x + NOISE * rng.laplace(size=x.shape)
    choices = {m: [_randomised(rng, k) for k in of] for m, of in ((3, (3, 2)), (2, (4, 3)))}
    clear, weights = sm.add_constant(x), np.ones(REPORTS)

    def private(y: np.ndarray, model: Model, numbers: int = 5) -> Callable[[], object]:
        noise = np.full(numbers, NOISE)
        of = choices.get(numbers, [])
        return lambda: fit(
            Design(y, z[:, :numbers], noise, 2 * noise**2, of), weights, model, width=1.0
        )

    of_line, of_index = "statsmodels OLS, HC3, in the clear", "statsmodels GLM, HC0, in the clear"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        linear = {
            of_line: lambda: sm.OLS(normal, clear).fit(cov_type="HC3").bse,
            "linear, 5 numbers": private(normal, "linear"),
            "linear, 3 numbers, 2 choices": private(normal, "linear", 3),
            "median, 5 numbers": private(normal, "median"),
        }
        binomial = sm.families.Binomial()
        others = {
            of_index: lambda: sm.GLM(binary, clear, family=binomial).fit(cov_type="HC0").bse,
            "logistic, 5 numbers": private(binary, "logistic"),
            "logistic, 3 numbers, 2 choices": private(binary, "logistic", 3),
            "logistic, 2 numbers, choices of 4 and 3": private(binary, "logistic", 2),
            "Poisson, 5 numbers": private(counts, "poisson"),
        }
        return [
            *show("linear and median regression", "s", 1, medians(linear, ROUNDS), of_line),
            *show("logistic and Poisson regression", "s", 1, medians(others, ROUNDS), of_index),
        ]


def _randomised(rng: np.random.Generator, options: int) -> Category:
    """Return a choice that says nothing, through randomised response at ε = 2."""
    law = np.ones((options, options)) + (np.exp(2) - 1) * np.eye(options)
    weights = np.linalg.inv(law / law.sum(axis=1))[rng.integers(0, options, REPORTS)]
    return Category(weights, np.eye(options)[:, 1:])
