"""The most significant variant: the probability of finding it, by ε [SPS Figures 1, 2, Table II].

The studies are simulated, with N = 150 families as in the paper and 5 to 1,000 variants, or six
variants of a real study. Results are exact over the noise, and means with standard errors over
simulated studies.

*As published* [SPS Theorem 3]: the one-sided mechanism with α' = α(kε), β' = β(lε) and
k + (m − 1) l/2 = 1 was said to keep ε; its authors have withdrawn the proof. For the half of
1/(1 + z⁴) the one-sided theorem gives less than ε.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from geoveil.gp import ParameterError
from geoveil.selection import (
    HalfGeneralizedCauchy,
    HeavyGeneralizedCauchy,
    SmoothNoisyMax,
    scale_price,
)
from geoveil.selection.contrib.transmission import (
    THRESHOLD,
    VARIANT_RECIPES,
    StudySetting,
    Transmission,
    largest,
)
from geoveil.selection.contrib.transmission_sensitivity import threshold_beta
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    Choice,
    Compute,
    Made,
    Options,
    SelectionContestant,
    SelectionRow,
    brought,
    by_nearness,
    compared,
    of_recipes,
)

FAMILIES = 150
VARIANTS = (5, 10, 15, 20, 100, 1_000)
EPSILONS = (3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0)
STUDIES = 10
"""The number of simulated studies for each number of variants."""
METOPIC_FAMILIES = 215
METOPIC_B = (139, 150, 36, 67, 67, 66)
METOPIC_C = (57, 69, 105, 150, 148, 150)
"""The only integers that give the abstract's P and odds ratio in Justice et al., Human Genetics
139 (2020): rs781716, rs6127972, rs62590971, rs2522623, rs2573826, rs2754857."""


def published_one_sided(
    epsilon: float,
    setting: StudySetting,
    *,
    threshold: Callable[[int], float] = lambda families: THRESHOLD,
    gamma: float = 4.0,
) -> Made:
    """Return the withdrawn mechanism at the nominal ε, and its proved price; m ≥ 2.

    As in the authors' code, β' is the largest that the threshold permits, but at most β/(m − 1),
    so that k is at least a half. T depends on N; γ ≥ 2 is the exponent of 1/(1 + z^γ).
    """
    whole, half = HeavyGeneralizedCauchy(gamma), HalfGeneralizedCauchy(gamma)
    m, at = setting.variants, threshold(setting.families)
    most = epsilon / (2 * whole.scale_cost)
    beta = min(threshold_beta(setting.families, at), most / (m - 1))
    k = 1 - (m - 1) * beta / (2 * most)
    # S/α' with α' = kε/2 over the price of a shift is 2S/α with this α.
    alpha = k * epsilon / whole.max_score
    price = float(scale_price(half, m))
    proved = alpha * half.hazard + beta * price
    mechanism = SmoothNoisyMax(proved, m, half, share=beta * price / proved)
    return Made(
        lambda known: mechanism.probabilities(known.as_threshold(min(beta, mechanism.beta), at)),
        mechanism.guarantee.epsilon,
    )


CONTESTANTS = (
    *of_recipes(VARIANT_RECIPES),
    SelectionContestant("SPS (II)", partial(published_one_sided, threshold=largest), NOMINAL),
    SelectionContestant("SPS (IV)", published_one_sided, NOMINAL),
)
"""The paper's cases I and III, which keep their ε, appear as "two-sided"."""


def simulated(variants: int, rng: np.random.Generator) -> Transmission:
    """Return a study without linkage: b + c ~ Bin(2N, 2/3), b ~ Bin(b + c, 1/2) [SPS §V-A]."""
    total = rng.binomial(2 * FAMILIES, 2 / 3, variants)
    b = rng.binomial(total, 0.5)
    return Transmission(b, total - b, FAMILIES)


def metopic() -> Transmission:
    """Return the six variants of the real study."""
    return Transmission(METOPIC_B, METOPIC_C, METOPIC_FAMILIES)


def parts(options: Options) -> Mapping[str, Compute]:
    """Return parts for the real study and for each number of variants; it takes no data."""
    if options.data:
        raise ParameterError("data", str(options.data[0]), "absent: this application takes none")
    epsilons = EPSILONS[::3] if options.quick else EPSILONS
    variants, studies = ((5, 20), 2) if options.quick else (VARIANTS, STUDIES)
    everyone = (*CONTESTANTS, *brought(options.own, by_nearness))

    rng = np.random.default_rng(options.seed)
    every = {m: [simulated(m, rng) for _ in range(studies)] for m in variants}
    of_parts = {f"m={m}": ("simulated", drawn) for m, drawn in every.items()}
    of_parts = {"metopic": ("metopic craniosynostosis", [metopic()]), **of_parts}
    return {part: partial(rows_of, *of, epsilons, everyone) for part, of in of_parts.items()}


def rows_of(
    dataset: str,
    studies: Sequence[Transmission],
    epsilons: Sequence[float],
    contestants: Sequence[SelectionContestant] = CONTESTANTS,
) -> Iterator[SelectionRow]:
    """Yield the rows averaged over studies of one size."""
    setting = StudySetting(studies[0].outcomes, studies[0].families)
    place = {"application": "tdt", "dataset": dataset, "setting": f"m={setting.variants}"}

    def found(choice: Choice, known: Transmission) -> Mapping[str, float]:
        return {"probability of the most significant": float(choice(known)[known.winner])}

    for epsilon in epsilons:
        yield from compared(contestants, [epsilon], setting, studies, found, **place)
