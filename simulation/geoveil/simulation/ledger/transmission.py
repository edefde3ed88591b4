"""Smooth private selection [SPS]: transmission tests, its figures and tables."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from geoveil.selection.contrib.transmission import VARIANT_RECIPES, StudySetting, Transmission
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection.experiment import NOMINAL, Options, SelectionContestant
from geoveil.simulation.selection.transmission import (
    CONTESTANTS,
    EPSILONS,
    FAMILIES,
    metopic,
    published_one_sided,
    rows_of,
    simulated,
    six,
)

_STUDIES, _QUICK = 100, 10
_TIMED = (20, 50, 100, 200, 500, 1_000)
_TIMED_EPSILON = 10.0
_OURS = {
    "EM": "exponential",
    "PF": "permute-and-flip",
    # The authors' two-sided cases are geoveil's: the same k, l and noise.
    "SPS (I)": "two-sided, theorem 4",
    "SPS (II)": "SPS (II)",
    "SPS (III)": "two-sided, theorem 5",
    "SPS (IV)": "SPS (IV)",
}
_BY_NAME = {contestant.name: contestant for contestant in CONTESTANTS}
_CASES = [replace(_BY_NAME[ours], name=name) for name, ours in _OURS.items()]
_GAMMAS = [
    SelectionContestant(
        f"γ = {gamma}", partial(published_one_sided, six, gamma=float(gamma)), NOMINAL
    )
    for gamma in (2, 4, 6, 10)
]


def _over_studies(gammas: bool, options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    many = _QUICK if options.quick else _STUDIES
    for variants in (5, 20) if options.quick else (5, 10, 15, 20):
        studies = [simulated(variants, rng) for _ in range(many)]
        cases = _GAMMAS if gammas else _CASES
        yield from _chances(f"m = {variants}", studies, cases, options)


def _chances(
    setting: str,
    studies: Sequence[Transmission],
    cases: Sequence[SelectionContestant],
    options: Options,
) -> Iterator[Told]:
    epsilons = EPSILONS[::3] if options.quick else EPSILONS
    for row in rows_of("", studies, epsilons, cases):
        yield setting, f"{row.mechanism}, ε = {row.epsilon:.0f}", row.value, row.standard_error


def _real(options: Options) -> Iterator[Told]:
    return _chances("six variants, 215 families", [metopic()], _CASES, options)


def _seconds(options: Options) -> Iterator[Told]:
    named = {
        "EM": "exponential",
        "PF": "permute-and-flip",
        "SPS, Theorem 4": "one-sided, theorem 4",
        "SPS, Theorem 5": "one-sided, theorem 5",
    }
    for variants in (20, 1_000) if options.quick else _TIMED:
        for name, key in named.items():
            recipe, taken = VARIANT_RECIPES[key], []
            for _ in range(3):
                fresh = simulated(variants, np.random.default_rng(options.seed))
                started = time.process_time()
                mechanism = recipe.build(_TIMED_EPSILON, StudySetting(variants, FAMILIES))
                mechanism.select(recipe.score(fresh, mechanism))
                taken.append(time.process_time() - started)
            yield f"m = {variants}", f"{name}, seconds", min(taken)


NUMBERS: Mapping[str, Numbers] = {
    "sps-figure-1": partial(_over_studies, False),
    "sps-figure-2": partial(_over_studies, True),
    "sps-table-1": _seconds,
    "sps-table-2": _real,
}
"""Row of the ledger → what computes its numbers."""
