"""The most significant variant: the probability of finding it, over ε [SPS Figures 1, 2, Table II].

Simulated studies of N = 150 families as in the paper, with 5 to 1,000 variants, and six variants of
a real one. Exact over the noise; over simulated studies a mean with its standard error.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.audit import OwnSelection
from geoveil.gp import ParameterError
from geoveil.selection.contrib.transmission import (
    THRESHOLD,
    VARIANT_RECIPES,
    StudySetting,
    Transmission,
    largest,
)
from geoveil.simulation.selection.experiment import (
    KEPT,
    NOMINAL,
    OWN,
    Compute,
    Options,
    SelectionExperiment,
    SelectionRow,
)
from geoveil.simulation.selection.published import published_one_sided

FAMILIES = 150
VARIANTS = (5, 10, 15, 20, 100, 1_000)
EPSILONS = (3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0)
STUDIES = 10
"""Simulated for each number of variants."""
METOPIC_FAMILIES = 215
METOPIC_B = (139, 150, 36, 67, 67, 66)
METOPIC_C = (57, 69, 105, 150, 148, 150)
"""Justice et al., Human Genetics 139 (2020): the only integers that give the P and the odds ratio
in its abstract; rs781716, rs6127972, rs62590971, rs2522623, rs2573826, rs2754857."""
MEASURE = "probability of the most significant"
_PUBLISHED: Mapping[str, Callable[[int], float]] = MappingProxyType(
    {"SPS (II)": largest, "SPS (IV)": lambda _: THRESHOLD}
)
"""Case in the paper → its threshold by N. Cases I and III keep their ε: "two-sided"."""


def simulated(variants: int, rng: np.random.Generator) -> Transmission:
    """Return a study without linkage: b + c ~ Bin(2N, 2/3), b ~ Bin(b + c, 1/2) [SPS §V-A]."""
    return Transmission(*simulated_tables(variants, rng), FAMILIES)


def simulated_tables(
    variants: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return b and c of the same."""
    total = rng.binomial(2 * FAMILIES, 2 / 3, variants)
    b = rng.binomial(total, 0.5)
    return b, total - b


def parts(options: Options) -> Mapping[str, Compute]:
    """Return what is computed: of the real study, and by number of variants. It takes no data.

    Raises:
        ParameterError: if it is given data.
    """
    if options.data:
        raise ParameterError("data", str(options.data[0]), "absent: this application takes none")
    epsilons = EPSILONS[::3] if options.quick else EPSILONS
    variants, studies = ((5, 20), 2) if options.quick else (VARIANTS, STUDIES)

    known = Transmission(METOPIC_B, METOPIC_C, METOPIC_FAMILIES)
    real = partial(rows_of, "metopic craniosynostosis", [known], epsilons, options.own)

    def drawn(asked: int) -> Iterator[SelectionRow]:
        rng = np.random.default_rng(options.seed)
        # One generator draws all studies, those of the others too.
        every = {m: [simulated(m, rng) for _ in range(studies)] for m in variants}
        return rows_of("simulated", every[asked], epsilons, options.own)

    return {"metopic": real, **{f"m={m}": partial(drawn, m) for m in variants}}


def rows_of(
    dataset: str,
    studies: Sequence[Transmission],
    epsilons: Sequence[float],
    own: Mapping[str, OwnSelection] = MappingProxyType({}),
) -> Iterator[SelectionRow]:
    """Yield the rows of studies of one size, averaged; one's own mechanisms choose by nearness."""
    first = studies[0]
    setting = StudySetting(first.outcomes, first.families)
    label = f"m={setting.variants}"
    row = partial(
        SelectionRow.averaged, application="tdt", dataset=dataset, setting=label, measure=MEASURE
    )
    for epsilon in epsilons:
        of = partial(row, epsilon=epsilon)
        for name, recipe in VARIANT_RECIPES.items():
            kept = recipe.build(epsilon, setting)
            laws = [kept.probabilities(recipe.score(known, kept)) for known in studies]
            proved = kept.guarantee.epsilon
            yield of(_winners(laws, studies), name, KEPT, proved)
        for name, given in own.items():
            laws = [given.at(epsilon).probabilities(known.as_nearness()) for known in studies]
            yield of(_winners(laws, studies), name, OWN, math.inf)
        for name, threshold in _PUBLISHED.items():
            at = threshold(first.families)
            printed = [published_one_sided(epsilon, known, at) for known in studies]
            yield of(_winners([p for p, _ in printed], studies), name, NOMINAL, printed[0][1])


def _winners(laws: Sequence[NDArray[np.float64]], studies: Sequence[Transmission]) -> list[float]:
    return [float(p[known.winner]) for p, known in zip(laws, studies, strict=True)]


EXPERIMENT = SelectionExperiment("tdt", parts)
