"""Percentiles of counts: the error over ε from 0.1 to 100 [SNM Figure 2].

As in the paper, the records are the 4,096 counts of a histogram. The paper's measure is the
absolute expected error |x_k − E[A]|, in which errors to both sides cancel; the expected absolute
error E|x_k − A| is shown beside it. All probabilities are exact.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.audit import OwnSelection
from geoveil.gp import ParameterError
from geoveil.selection.contrib.percentile import PERCENTILE_RECIPES, Percentile
from geoveil.simulation.populations.table import household_incomes
from geoveil.simulation.selection.experiment import (
    KEPT,
    NOMINAL,
    OWN,
    Compute,
    Options,
    SelectionExperiment,
    SelectionRow,
)
from geoveil.simulation.selection.published import (
    PUBLISHED_NOISE,
    published_dampening,
    published_noisy_max,
    repeats,
)

Array = NDArray[np.float64]

PERCENTS = (50, 90, 99)
EPSILONS = tuple(10.0**k for k in np.arange(-1.0, 2.01, 0.25))
_QUICK = (0.1, 1.0, 10.0)
_BOUNDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"HEPTH": (1_000, 1), "PATENT": (20_000, 1), "INCOME": (200_000, 10)}
)
"""Dataset → the largest candidate, and the step between them: taken as public."""
_FEW = 10_000
"""Candidates at most for data of other names."""
_BINS, _BIN = 4_096, 250.0
"""The candidates for the incomes that ship: their number, and their width in dollars."""
_MEASURES: Mapping[str, Callable[[Array, Array, float], float]] = MappingProxyType(
    {
        "absolute expected error": lambda p, values, truth: abs(float(p @ values) - truth),
        "expected absolute error": lambda p, values, truth: float(p @ np.abs(values - truth)),
    }
)


def read_counts(file: Path) -> dict[str, Array]:
    """Return the arrays of counts in a file of numpy's (.npz, .npy), by name.

    The one array of a .npy has the name of the file, up to its first dot.

    Raises:
        ParameterError: if the file holds no one-dimensional arrays of counts.
    """
    try:
        if file.suffix == ".npy":
            counts = {file.name.split(".")[0]: np.load(file, allow_pickle=False)}
        else:
            with np.load(file, allow_pickle=False) as arrays:
                counts = {name: np.asarray(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, AttributeError) as error:
        raise ParameterError("data", str(file), "a file of arrays (.npz, .npy)") from error
    for name, array in counts.items():
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu" or array.min() < 0:
            raise ParameterError("data", name, "one-dimensional arrays of counts, integers >= 0")
    return {name: array.astype(np.float64) for name, array in counts.items()}


def shipped_counts() -> dict[str, Array]:
    """Return the histogram of California's household incomes, in 4,096 bins of 250 dollars.

    It stands in for the paper's INCOME, which may not be redistributed; its counts go up to 200,000
    and are rounded to tens, so that there are fewer candidates.
    """
    people = household_incomes()
    edges = _BIN * np.arange(_BINS + 1)
    counts = np.histogram(people.values, edges, weights=people.weights)[0]
    return {"INCOME": np.round(counts, -1).astype(np.float64)}


def candidates_for(name: str, counts: Array) -> Array:
    """Return the candidates, assumed public: 0 to a round number, in equal steps."""
    if name in _BOUNDS:
        top, step = _BOUNDS[name]
    else:
        top = 10 ** math.ceil(math.log10(max(float(counts.max()), 1.0) + 1))
        step = max(top // _FEW, 1)
    return np.arange(0, top + step, step, dtype=np.float64)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed, by dataset and percentile; `data` are files of counts.

    Raises:
        ParameterError: if a file can't be read.
    """
    datasets = shipped_counts()
    for file in options.data:
        datasets |= read_counts(file)
    epsilons = _QUICK if options.quick else EPSILONS

    return {
        f"{name} p={p}": partial(rows_of, name, counts, p, epsilons, options.own)
        for name, counts in datasets.items()
        for p in PERCENTS
    }


def rows_of(
    name: str,
    counts: Array,
    p: int,
    epsilons: Sequence[float],
    own: Mapping[str, OwnSelection] = MappingProxyType({}),
) -> Iterator[SelectionRow]:
    """Yield the rows of one percentile of one dataset; one's own mechanisms choose by nearness."""
    known = Percentile(counts, p, candidates_for(name, counts))
    truth = float(known.candidates[known.winner])

    def rows(
        p_of: Array, mechanism: str, standing: str, proved: float, delta: float = 0.0
    ) -> Iterator[SelectionRow]:
        for measure, of in _MEASURES.items():
            yield SelectionRow(
                application="percentile",
                dataset=name,
                setting=f"p={p}",
                mechanism=mechanism,
                standing=standing,
                epsilon=epsilon,
                proved_epsilon=proved,
                delta=delta,
                measure=measure,
                value=of(p_of, known.candidates, truth),
            )

    for epsilon in epsilons:
        for mechanism, recipe in PERCENTILE_RECIPES.items():
            selection = recipe.build(epsilon, known.outcomes)
            p_of, kept = (
                selection.probabilities(recipe.score(known, selection)),
                selection.guarantee,
            )
            yield from rows(p_of, mechanism, KEPT, kept.epsilon, kept.delta)
        for mechanism, given in own.items():
            p_of = given.at(epsilon).probabilities(known.as_nearness())
            yield from rows(p_of, mechanism, OWN, math.inf)
        indicator, j = known.as_indicator().values, repeats(counts, p)
        p_of, proved = published_dampening(epsilon, indicator, j)
        yield from rows(p_of, "LD", NOMINAL, proved)
        for mechanism, noise in PUBLISHED_NOISE.items():
            p_of, proved, delta = published_noisy_max(epsilon, indicator, j, noise)
            yield from rows(p_of, mechanism, NOMINAL, proved, delta)


EXPERIMENT = SelectionExperiment("percentile", parts, unit="counts", linear_below=1.0)
