"""What the planner chooses against what the first one chose, by their mean squared errors.

The settings are thresholds and ranges of the Californian incomes, 10,000 to 1.6 million reports, ε
of 0.5 to 2, planned from all of the households, from one half of them, and from a law. Either
planner is asked as a library, with every kind of mechanism, and as a command. The squared error of
a choice is bias² + noise/n, and what the prior does not know of the bias, V/N, 0 to 2 times:

* 0 times, if people are as the prior says: then the widest band is the best, which repeats it;
* once, by which choices are made: people are those of whom the prior is a sample;
* twice, the expectation over halves of a survey, one to plan and one to judge.

What the first planner chose is in first_planner.json. This file, run as a script with the packages
of commit e07ce75 in place of these, prints it.
"""

import json
import math
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).with_suffix(".json")
THRESHOLDS = ((30_000.0,), (55_500.0,), (100_000.0,), (150_000.0,), (212_500.0,))
RANGES = ((50_000.0, 100_000.0), (30_000.0, 60_000.0), (100_000.0, 250_000.0))
PER = 8_000.0
WAYS = ("library", "command")
TIMES = (0, 1, 2)
"""How often V/N counts."""


class Setting(NamedTuple):
    """What is planned: all that is needed to plan it again."""

    prior: str
    question: tuple[float, ...]
    n: int
    epsilon: float


def settings() -> Iterator[Setting]:
    """Yield the settings."""
    questions = (*THRESHOLDS, *RANGES)
    for question in questions:
        for n in (10_000, 200_000, 1_600_000):
            for epsilon in (0.5, 1.0, 2.0):
                yield Setting("survey", question, n, epsilon)
    for prior in ("half", "law"):
        for question in questions:
            for n in (200_000, 1_600_000):
                yield Setting(prior, question, n, 1.0)


def choices(setting: Setting) -> dict[str, list[float]]:
    """Return bias, noise and V/N of what is chosen, by the way in which it is asked for."""
    try:
        planner: Any = import_module("geoveil.analyst.planner")
    except ModuleNotFoundError:  # where the first one was
        planner = import_module("geoveil.gp.planner")
    asked, n = setting.question, setting.n
    question = (planner.HardRange if len(asked) > 1 else planner.HardThreshold)(*asked)
    privacy = import_module("geoveil.gp").GeoPrivacy(setting.epsilon, PER)
    prior = _prior(planner, setting.prior)
    found = {"library": planner.plan(question, privacy, prior, n).choice}
    request = SimpleNamespace(
        questions=[question],
        plane_privacy=privacy,
        prior=prior,
        participants=n,
        allocation=None,
    )
    if planner.__name__ == "geoveil.gp.planner":
        planned, _ = import_module("geoveil.cli.plan_choice").planned_for(request)
    else:
        searches = import_module("geoveil.analyst.planner.allocation").Searches()
        planned, _ = import_module("geoveil.analyst.planning").planned_alone(request, searches)
    found["command"] = planned.choice
    return {way: _told(choice.prediction) for way, choice in found.items()}


def _told(found: Any) -> list[float]:
    apart = getattr(found, "misjudged", None)  # as the first planner called it
    apart = found.bias_variance if apart is None else apart
    return [float(f"{x:.7g}") for x in (found.bias, found.noise, apart / found.prior_size)]


def _prior(planner: Any, name: str) -> Any:
    if name == "law":
        return planner.LogNormalPrior(math.log(98_000), 0.83)
    people: Any = import_module("geoveil.simulation.populations").household_incomes()
    rows = np.arange(len(people.values))
    if name == "half":
        rows = np.random.default_rng(0).permutation(rows)[: len(rows) // 2]
    return planner.SamplePrior(people.values[rows], people.weights[rows])


def first() -> dict[Setting, dict[str, list[float]]]:
    """Return what the first planner chose."""
    rows = json.loads(FILE.read_text())
    return {
        Setting(prior, tuple(question), n, epsilon): chosen
        for (prior, question, n, epsilon), chosen in rows
    }


def ratios(setting: Setting, now: list[float], before: list[float]) -> list[float]:
    """Return by how many times the squared error of a choice is another's, for `TIMES`."""

    def error(chosen: list[float], times: int) -> float:
        bias, noise, unknown = chosen
        return bias**2 + noise / setting.n + times * unknown

    return [error(now, times) / error(before, times) for times in TIMES]


def table(*, quick: bool = False) -> None:
    """Print the ratios of squared errors at the thresholds, and the greatest of all.

    Args:
        quick: the thresholds at n = 1.6 million and ε = 1 only.
    """
    from rich.console import Console
    from rich.table import Table

    warnings.simplefilter("ignore")
    shown = Table("threshold", "way", *(f"V/N {times} times" for times in TIMES))
    every: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for setting, before in first().items():
        largest = setting.n == 1_600_000 and setting.epsilon == 1 and len(setting.question) == 1
        if quick and not (largest and setting.prior == "survey"):
            continue
        now = choices(setting)
        for way in WAYS:
            found = ratios(setting, now[way], before[way])
            every[way].append(found)
            if largest and setting.prior == "survey":
                numbers = [f"{ratio:.3f}" for ratio in found]
                shown.add_row(f"{setting.question[0]:,.0f}", way, *numbers)
    console = Console(width=110)
    console.print("Squared errors over the first planner's, n = 1,600,000, ε = 1 per $8,000:")
    console.print(shown)
    for way, found in every.items():
        greatest, means = np.max(found, axis=0), np.mean(found, axis=0)
        more = np.sum(np.array(found) > 1.0005, axis=0)
        told = [
            f"{times} times: at most {a:.4f}, mean {b:.3f}, more in {c}"
            for times, a, b, c in zip(TIMES, greatest, means, more, strict=True)
        ]
        console.print(f"{way}, {len(found)} settings. V/N {'; '.join(told)}.")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    made = ",\n ".join(json.dumps([each, choices(each)]) for each in settings())
    sys.stdout.write(f"[{made}]\n")
