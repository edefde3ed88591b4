"""Private selection by smooth sensitivity [SPS]: the most significant variant."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from geoveil.selection.contrib.transmission import VARIANT_RECIPES, StudySetting, Transmission
from geoveil.simulation.experiment import mean_and_error
from geoveil.simulation.ledger.reproduction import Numbers, Told
from geoveil.simulation.selection import transmission
from geoveil.simulation.selection.experiment import (
    NOMINAL,
    Options,
    SelectionContestant,
)

_OURS = {
    "EM": "exponential",
    "PF": "permute-and-flip",
    # The authors' two-sided cases equal geoveil's: the same k, l and noise.
    "SPS (I)": "two-sided, theorem 4",
    "SPS (II)": "SPS (II)",
    "SPS (III)": "two-sided, theorem 5",
    "SPS (IV)": "SPS (IV)",
}
_CASES = [
    replace(contestant, name=name)
    for name, ours in _OURS.items()
    for contestant in transmission.CONTESTANTS
    if contestant.name == ours
]
_GAMMAS = [
    SelectionContestant(f"γ = {g:g}", partial(transmission.published_one_sided, gamma=g), NOMINAL)
    for g in (2.0, 4.0, 6.0, 10.0)
]


def _over_studies(gammas: bool, options: Options) -> Iterator[Told]:
    rng = np.random.default_rng(options.seed)
    many = 10 if options.quick else 100
    for variants in (5, 20) if options.quick else (5, 10, 15, 20):
        studies = [transmission.simulated(variants, rng) for _ in range(many)]
        cases = _GAMMAS if gammas else _CASES
        yield from _chances(f"m = {variants}", studies, cases, options)


def _chances(
    setting: str,
    studies: Sequence[Transmission],
    cases: Sequence[SelectionContestant],
    options: Options,
) -> Iterator[Told]:
    epsilons = transmission.EPSILONS[::3] if options.quick else transmission.EPSILONS
    size = StudySetting(studies[0].outcomes, studies[0].families)
    chances: dict[str, list[NDArray[np.float64]]] = {}
    for case in cases:
        for epsilon in epsilons:
            choice = case.make(epsilon, size).choice
            of_winner = np.array([choice(study)[study.winner] for study in studies], dtype=float)
            chances.setdefault(case.name, []).append(of_winner)
            yield setting, f"{case.name}, ε = {epsilon:.0f}", *mean_and_error(of_winner)
    for name, others in _ORDERS:
        if name in chances:
            # The same studies for all, so that chance differences are smaller.
            best = [
                max((chances[key][place] for key in others), key=np.mean)
                for place in range(len(epsilons))
            ]
            compared_with = others[0] if len(others) == 1 else "the best of " + ", ".join(others)
            gains = [
                mean_and_error(ours - theirs)
                for ours, theirs in zip(chances[name], best, strict=True)
            ]
            yield setting, f"{name} less {compared_with}, least of all ε", *min(gains)


_ORDERS: Sequence[tuple[str, Sequence[str]]] = (
    ("SPS (III)", ("EM", "PF")),
    ("SPS (IV)", ("EM", "PF", "SPS (I)", "SPS (II)", "SPS (III)")),
    ("SPS (II)", ("SPS (I)",)),
    ("SPS (III)", ("SPS (I)",)),
    ("SPS (IV)", ("SPS (II)",)),
    ("SPS (IV)", ("SPS (III)",)),
    ("γ = 4", ("γ = 2", "γ = 6", "γ = 10")),
    ("γ = 6", ("γ = 10",)),
)
"""Mechanism → the mechanisms that, by the paper's statements, it outperforms."""


def _real(options: Options) -> Iterator[Told]:
    setting = "six variants, 215 families"
    for row in _chances(setting, [transmission.metopic()], _CASES, options):
        yield row
        if row[1].startswith("SPS (IV), ε"):
            yield setting, f"{row[1]}, the authors' functions", row[2]


def _seconds(options: Options) -> Iterator[Told]:
    variants, taken = 1_000, {}
    for key in ("exponential", "one-sided, theorem 4", "one-sided, theorem 5"):
        recipe, seconds = VARIANT_RECIPES[key], []
        for _ in range(3):
            fresh = transmission.simulated(variants, np.random.default_rng(options.seed))
            started = time.process_time()
            mechanism = recipe.build(10.0, StudySetting(variants, transmission.FAMILIES))
            mechanism.select(recipe.score(fresh, mechanism))
            seconds.append(time.process_time() - started)
        taken[key] = min(seconds)
    exponential, fourth, fifth = taken.values()
    yield f"m = {variants}", "SPS, Theorem 4, seconds over those of EM", fourth / exponential
    yield f"m = {variants}", "SPS, Theorem 5, under a minute", fifth


NUMBERS: Mapping[str, Numbers] = {
    "sps-figure-1": partial(_over_studies, False),
    "sps-figure-2": partial(_over_studies, True),
    "sps-table-1": _seconds,
    "sps-table-2": _real,
}
"""Row of the ledger → the function that computes its numbers."""
