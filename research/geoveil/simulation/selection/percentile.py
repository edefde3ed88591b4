"""Percentiles of counts: errors for ε from 0.1 to 100 [SNM Figure 2].

As in the paper, the records are the 4,096 counts of a histogram. The paper's measure is the
absolute expected error |x_k − E[A]|, in which errors on both sides cancel; the tables add the
expected absolute error E|x_k − A|. All probabilities are exact.

*As published* [SNM Propositions 5.3, 5.4]: the percentile repeats at least j times on either side,
δ = 1 from t = 2j + 1 on, and S' = e^{−(2j+1)β}. Both are wrong (docs/errata.md): e^β S' is a
2β-smooth upper bound, so a shift costs e^β times its price, a change of scale the price of 2β, and
local dampening 2ε.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from geoveil.gp import Noise, ParameterError
from geoveil.selection import LocalDampening, LocalUtilities, SmoothUtilities, spent
from geoveil.selection.contrib.percentile import PERCENTILE_RECIPES, Percentile
from geoveil.simulation.populations import household_incomes
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    Array,
    Choice,
    Compute,
    Made,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    by_nearness,
    compared,
    for_each_noise,
    of_recipes,
    published_mechanism,
)

NOTE = (
    "Absolute expected error, the papers' measure: how far the mean of what is chosen is from the"
    " percentile, with errors in both directions cancelling. Expected absolute error: how far "
    "what is chosen"
    " is from it on average. Both are in the unit of the records, which are counts in a "
    "histogram; INCOME counts households in bins of $250 of income."
)
DRAWN: Mapping[str, Any] = MappingProxyType(
    {
        "title": "Percentile of a histogram's counts; INCOME: households by $250 of income",
        "unit": "count in a bin",
        "linear_below": 1.0,
    }
)
"""Options of the figures."""
PERCENTS = (50, 90, 99)
EPSILONS = tuple(10.0**k for k in np.arange(-1.0, 2.01, 0.25))
_QUICK = (0.1, 1.0, 10.0)
_BOUNDS = {"HEPTH": (1_000, 1), "PATENT": (20_000, 1), "INCOME": (200_000, 10)}
"""Dataset → the largest candidate, and the step between candidates, assumed public."""


def repeats(records: Array, p: float) -> int:
    """Return j: the lesser number of repeats of the percentile before and after its position."""
    ordered = np.sort(records)
    at = math.floor(p * len(ordered) / 100)
    before, after = (int((part == ordered[at]).sum()) for part in np.split(ordered, [at]))
    return min(before, after - 1)


def published_dampening(epsilon: float, indicator: Array, j: int) -> Array:
    """Return the probabilities of local dampening as printed."""
    steps = np.zeros(len(indicator)), np.ones(len(indicator))
    scores = LocalUtilities(indicator, lambda t: steps[int(t >= 2 * j + 1)])
    return LocalDampening(epsilon, 1.0).probabilities(scores)


def _dampening(j: int, epsilon: float, _: int) -> Made:
    return Made(
        lambda known: published_dampening(epsilon, known.as_indicator().values, j), 2 * epsilon
    )


def _noisy_max(j: int, noise: Noise, epsilon: float, outcomes: int) -> Made:
    mechanism = published_mechanism(epsilon, outcomes, noise)
    beta, delta = mechanism.beta, mechanism.delta
    bound = math.exp(-min((2 * j + 1) * beta, 200.0))

    def choice(known: Percentile) -> Array:
        scores = SmoothUtilities(known.as_indicator().values, bound, beta=beta)
        return mechanism.probabilities(scores)

    proved = spent(noise, mechanism.alpha * math.exp(beta), 2 * beta, outcomes, delta)
    return Made(choice, proved, delta)


def read_counts(file: Path) -> dict[str, Array]:
    """Return the arrays of counts in a numpy file by name (.npz, or .npy with the file's name).

    Raises:
        ParameterError: if the file holds no one-dimensional arrays of counts.
    """
    try:
        if file.suffix == ".npy":
            counts = {file.name.split(".")[0]: np.load(file, allow_pickle=False)}
        else:
            with np.load(file, allow_pickle=False) as arrays:
                counts = dict(arrays)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ParameterError("data", str(file), "a file of arrays (.npz, .npy)") from error
    for name, array in counts.items():
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or array.min() < 0:
            raise ParameterError("data", name, "one-dimensional arrays of counts, integers >= 0")
    return {name: array.astype(np.float64) for name, array in counts.items()}


def shipped_counts() -> dict[str, Array]:
    """Return the histogram of California's household incomes in 4,096 bins of 250 dollars.

    It replaces the paper's INCOME, which may not be redistributed.
    """
    people, edges = household_incomes(), 250.0 * np.arange(4_097)
    counts = np.histogram(people.values, edges, weights=people.weights)[0]
    return {"INCOME": np.round(counts, -1).astype(np.float64)}


def candidates_for(name: str, counts: Array) -> Array:
    """Return about 10,000 candidates, assumed public: equal steps from 0 to a round number."""
    if name in _BOUNDS:
        top, step = _BOUNDS[name]
    else:
        top = 10 ** math.ceil(math.log10(max(float(counts.max()), 1.0) + 1))
        step = max(top // 10_000, 1)
    return np.arange(0, top + step, step, dtype=np.float64)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return parts by dataset and percentile; `data` has files of counts."""
    datasets = shipped_counts()
    for file in options.data:
        datasets |= read_counts(file)
    epsilons = _QUICK if options.quick else EPSILONS
    own = brought(options.own, by_nearness)
    return {
        f"{name} p={p}": partial(rows_of, name, counts, p, epsilons, own)
        for name, counts in datasets.items()
        for p in PERCENTS
    }


def rows_of(
    name: str,
    counts: Array,
    p: int,
    epsilons: Sequence[float],
    own: Sequence[SelectionContestant] = (),
) -> Iterator[SelectionRow]:
    """Yield the rows of one percentile of one dataset."""
    utilities, j = Percentile(counts, p, candidates_for(name, counts)), repeats(counts, p)
    values, truth = utilities.candidates, float(utilities.candidates[utilities.winner])
    contestants = [
        *of_recipes(PERCENTILE_RECIPES),
        *own,
        SelectionContestant("LD", partial(_dampening, j), NOMINAL),
        *for_each_noise(partial(_noisy_max, j)),
    ]

    def errors(choice: Choice, known: Percentile) -> Mapping[str, float]:
        law = choice(known)
        return {
            "absolute expected error": abs(float(law @ values) - truth),
            "expected absolute error": float(law @ np.abs(values - truth)),
        }

    place = {"application": "percentile", "dataset": name, "setting": f"p={p}"}
    for epsilon in epsilons:
        yield from compared(
            contestants, [epsilon], utilities.outcomes, [utilities], errors, **place
        )
