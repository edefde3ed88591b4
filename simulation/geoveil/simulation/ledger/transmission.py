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
from geoveil.simulation.ledger.reproduction import Key, Numbers, Own
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


NUMBERS: Mapping[str, Numbers] = {
    "sps-figure-1": partial(_over_studies, _CASES),
    "sps-figure-2": partial(_over_studies, _GAMMAS),
    "sps-table-1": _seconds,
    "sps-table-2": _real,
}
"""Row of the ledger → what computes its numbers."""
