"""Smooth private selection [SPS]: transmission tests, its figures and tables."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from geoveil.selection.contrib.transmission import (
    THRESHOLD,
    VARIANT_RECIPES,
    StudySetting,
    Transmission,
    largest,
)
from geoveil.simulation.ledger.reproduction import Key, Own, Reproduction
from geoveil.simulation.selection.experiment import Options
from geoveil.simulation.selection.published import published_one_sided
from geoveil.simulation.selection.transmission import (
    EPSILONS,
    FAMILIES,
    METOPIC_B,
    METOPIC_C,
    METOPIC_FAMILIES,
    simulated,
    simulated_tables,
)

_STUDIES, _QUICK = 100, 10
_TIMED = (20, 50, 100, 200, 500, 1_000)
_TIMED_EPSILON = 10.0
Chance = Callable[[Transmission, float], float]
"""The probability of the most significant variant, by what is known and ε."""


def _by_recipe(name: str) -> Chance:
    recipe = VARIANT_RECIPES[name]

    def chance(known: Transmission, epsilon: float) -> float:
        mechanism = recipe.build(epsilon, StudySetting(known.outcomes, known.families))
        return float(mechanism.probabilities(recipe.score(known, mechanism))[known.winner])

    return chance


def _one_sided(
    known: Transmission, epsilon: float, *, threshold: Callable[[int], float], gamma: float = 4.0
) -> float:
    at = threshold(known.families)
    return float(published_one_sided(epsilon, known, at, gamma)[0][known.winner])


def _six(families: int) -> float:
    return THRESHOLD


# The authors' two-sided cases are geoveil's: the same k, l and noise.
_CASES: Mapping[str, Chance] = {
    "EM": _by_recipe("exponential"),
    "PF": _by_recipe("permute-and-flip"),
    "SPS (I)": _by_recipe("two-sided, theorem 4"),
    "SPS (II)": partial(_one_sided, threshold=largest),
    "SPS (III)": _by_recipe("two-sided, theorem 5"),
    "SPS (IV)": partial(_one_sided, threshold=_six),
}
_GAMMAS: Mapping[str, Chance] = {
    f"γ = {gamma}": partial(_one_sided, threshold=_six, gamma=float(gamma))
    for gamma in (2, 4, 6, 10)
}


def _over_studies(cases: Mapping[str, Chance], options: Options) -> Mapping[Key, Own]:
    rng = np.random.default_rng(options.seed)
    many = _QUICK if options.quick else _STUDIES
    found: dict[Key, Own] = {}
    for variants in (5, 20) if options.quick else (5, 10, 15, 20):
        studies = [simulated(variants, rng) for _ in range(many)]
        found |= {
            (f"m = {variants}", quantity): own
            for quantity, own in _chances(cases, studies, options).items()
        }
    return found


def _chances(
    cases: Mapping[str, Chance], studies: Sequence[Transmission], options: Options
) -> dict[str, Own]:
    found = {}
    for epsilon in EPSILONS[::3] if options.quick else EPSILONS:
        for name, chance in cases.items():
            values = [chance(known, epsilon) for known in studies]
            error = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
            found[f"{name}, ε = {epsilon:.0f}"] = (float(np.mean(values)), error)
    return found


def _real(options: Options) -> Mapping[Key, Own]:
    known = Transmission(METOPIC_B, METOPIC_C, METOPIC_FAMILIES)
    setting = "six variants, 215 families"
    return {(setting, key): own for key, own in _chances(_CASES, [known], options).items()}


def _seconds(options: Options) -> Mapping[Key, Own]:
    named = {
        "EM": "exponential",
        "PF": "permute-and-flip",
        "SPS, Theorem 4": "one-sided, theorem 4",
        "SPS, Theorem 5": "one-sided, theorem 5",
    }
    rng = np.random.default_rng(options.seed)
    found: dict[Key, Own] = {}
    for variants in (20, 1_000) if options.quick else _TIMED:
        tables = simulated_tables(variants, rng)
        for name, recipe in ((name, VARIANT_RECIPES[key]) for name, key in named.items()):
            taken = []
            for _ in range(3):
                fresh = Transmission(*tables, FAMILIES)
                started = time.process_time()
                mechanism = recipe.build(
                    _TIMED_EPSILON, StudySetting(fresh.outcomes, fresh.families)
                )
                mechanism.select(recipe.score(fresh, mechanism))
                taken.append(time.process_time() - started)
            found[f"m = {variants}", f"{name}, seconds"] = (min(taken), 0.0)
    return found


_DRAWN = (
    "The authors' numbers, stored in their notebooks, are shares of 200 runs, each with a study of"
    " its own; geoveil's are exact over the noise, and means over 100 studies (10 with --quick),"
    " the same for all ε. The stored numbers of one-sided noise with γ = 4, and a little with 6,"
    " are higher, by up to 0.2, than what their functions give: run again over 400 studies with"
    " their table of noise, for example m = 20 and ε = 9, they find 0.545 ± 0.012 and store 0.66"
    " and 0.745, where geoveil has 0.55. What else the notebooks did is not in them."
)

ROWS = (
    Reproduction(
        name="sps-figure-1",
        paper="SPS",
        item="Figure 1",
        what="Probability of the most significant variant, by mechanism",
        compute=partial(_over_studies, _CASES),
        command="geoveil simulate selection --application tdt",
        reason=_DRAWN
        + " Case (II) is affected as (IV); EM, PF, (I) and (III) agree. As in the code"
        " lβ is at most β/(m − 1) in one-sided cases.",
    ),
    Reproduction(
        name="sps-figure-2",
        paper="SPS",
        item="Figure 2",
        what="The same of case (IV), by γ",
        compute=partial(_over_studies, _GAMMAS),
        command="geoveil simulate selection --application tdt",
        reason=_DRAWN + " γ = 2 and 10 agree.",
    ),
    Reproduction(
        name="sps-table-1",
        paper="SPS",
        item="Table I",
        what="Seconds for one choice",
        compute=_seconds,
        command="python -m benchmarks selection",
        reason="Seconds of a processor, the least of three, on whatever computes them. geoveil's"
        " choice is exact on a real computer, the paper's is drawn in floats. The bounds of both"
        " theorems are found by one closed form; the paper goes through all tables for each. To"
        " calibrate the noise takes 3 ms once, more than all else where m is small.",
    ),
    Reproduction(
        name="sps-table-2",
        paper="SPS",
        item="Table II",
        what="The same of six variants of a real study",
        compute=_real,
        command="geoveil simulate selection --application tdt",
        reason="The paper prints no tables (b, c), and its repository has no code for this one."
        " geoveil takes the only integers that fit the P-values and odds ratios of the study's"
        " abstract. On them the exponential mechanism, whose probabilities are a formula, has 0.24"
        " to 0.61 where the paper has 0.30 to 0.83 in 40 runs: all seven together differ by more"
        " than three standard errors. So the paper's input is another. The authors' functions on"
        " geoveil's input (code) give 0.25 to 0.68 for (IV): their lβ is worked out for N = 150 and"
        " their noise is drawn from a table.",
    ),
)
"""All of them, in the paper's order."""
