"""Plans for reasonable wishes about numbers and places: check that none crashes and all are right.

Half of the wishes are about numbers and half about places. People, questions, privacy and the
number of participants are random. Each plan is carried out: people are drawn from its prior, and
their reports by its campaign. The error printed for the population is compared with the planned
one. If a plan is refused, the error of the same question asked of perturbed values is printed.
"""

import math
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plans import LATER
from geoveil.analyst import (
    PlanRequest,
    PublicPrior,
    ShareAbove,
    ShareBetween,
    ShareWithin,
    plan_for,
)
from geoveil.analyst.planner import LogNormalPrior
from geoveil.campaign import ValueCampaign
from geoveil.gp import GeoVeilError, NotPrivateWarning
from geoveil.gp.intervals import interval_of_mean
from geoveil.simulation.populations import collisions
from geoveil.simulation.priors import public_prior

WISHES, QUICK_WISHES, SEED = 200, 40, 2026
WITHIN, OF_USE = 0.1, 0.1
"""The relative difference allowed between planned and printed ±, and the largest useful ±."""
MOST_REFUSED = 0.05
FEWEST, MOST, REPORTS = 4, 400, 1_000_000
"""Campaigns per plan, at least and at most; and the reports that they should have in total."""
Array = np.ndarray[Any, np.dtype[np.float64]]


def wishes(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a description of each wish, and the arguments of `PlanRequest.of`."""
    incomes, places = public_prior("incomes"), public_prior("collisions")
    accidents = collisions()
    held = np.sort(incomes.make(None).nodes()[0])
    for number in range(count):
        rng = np.random.default_rng([SEED, number])
        wish = {
            "epsilon": float(rng.choice([0.5, 1.0, 2.0])),
            "participants": round(math.exp(rng.uniform(math.log(500), math.log(100_000)))),
        }
        if number % 2:
            yield _of_places(rng, accidents.sample(1, rng)[0], places, wish)
        else:
            yield _of_numbers(rng, incomes, held, wish)


def _of_numbers(
    rng: np.random.Generator, incomes: PublicPrior, held: Array, wish: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if rng.random() < 0.5:
        law = LogNormalPrior(math.log(rng.uniform(30e3, 130e3)), rng.uniform(0.4, 1.0))
        source = PublicPrior.of_numbers(law, "dollar")
        ends = np.exp(law.mu + law.sigma * np.sort(rng.normal(size=3)))
    else:
        source, ends = incomes, np.quantile(held, np.sort(rng.uniform(0.03, 0.97, 3)))
    low, middle, high = (float(f"{end:.2g}") for end in ends)
    per = float(f"{math.exp(rng.uniform(math.log(1_000), math.log(20_000))):.1g}")
    asked: list[Any] = [ShareAbove(middle)]
    if low < high and rng.random() < 0.3:
        asked = [ShareBetween(low, high)]
    elif low < middle < high and rng.random() < 0.4:
        asked = [ShareAbove(at) for at in (low, middle, high)]
    said = ", ".join(question.label for question in asked)
    return f"{said}; per {per:g}", {"questions": asked, "source": source, "per": per} | wish


def _of_places(
    rng: np.random.Generator, near: Array, source: PublicPrior, wish: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    longitude, latitude = (round(float(degrees), 2) for degrees in near)
    radius = float(f"{math.exp(rng.uniform(math.log(500), math.log(8_000))):.1g}")
    per = float(f"{math.exp(rng.uniform(math.log(100), math.log(2_000))):.1g}")
    asked = [ShareWithin(longitude, latitude, radius)]
    wanted = {"questions": asked, "source": source, "per": per, "unit": "metre"}
    return f"{asked[0].label}; per {per:g}", wanted | wish


@dataclass(frozen=True)
class Outcome:
    """The outcome of a wish."""

    planned: float | None = None
    """Half the width of the population's interval for the first question."""
    printed: float | None = None
    """The same as printed by campaigns, on average."""
    refused: str = ""
    points: float = math.inf
    """The 95 % error of points if the plan was refused."""
    crashed: str = ""


def outcome(asked: dict[str, Any], rng: np.random.Generator) -> Outcome:
    try:
        request = PlanRequest.of(**asked)
    except GeoVeilError as error:
        return Outcome(refused=str(error))
    except Exception:  # noqa: BLE001 - a crash is what is looked for
        return Outcome(crashed=traceback.format_exc())
    try:
        planned = plan_for(request)
        return Outcome(*_printed(planned, rng))
    except GeoVeilError as error:
        return Outcome(refused=str(error), points=_of_points(asked))
    except Exception:  # noqa: BLE001 - a crash is what is looked for
        return Outcome(crashed=traceback.format_exc())


def _of_points(asked: dict[str, Any]) -> float:
    """Return the 95 % error of the first question if asked of perturbed values."""
    request = PlanRequest.of(
        **asked | {"questions": asked["questions"][:1], "allocation": "points"}
    )
    try:
        return float(plan_for(request).chosen().expected["error_95"])
    except GeoVeilError:
        return math.inf


def _printed(planned: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Return half the width of the first question's interval, planned and printed on average."""
    request, chosen = planned.request, planned.chosen()
    campaign = planned.campaign(**LATER)
    points, weights = request.prior.nodes()
    n = max(request.participants // chosen.parts, 2)
    law: Any
    if isinstance(campaign, ValueCampaign):
        noisy = campaign.point_mechanism
        law = noisy.estimator(chosen.alternatives[0].query, debias=True)
    else:
        noisy, law = None, campaign.mechanisms[0]
    halves = []
    for _ in range(min(max(REPORTS // n, FEWEST), MOST)):
        who = rng.choice(len(points), n, p=weights / weights.sum())
        held = points[who]
        if noisy is None:
            reports = law.simulate(held, rng)
        else:
            reports = law.value(noisy.simulate(held.reshape(n, -1), rng))
        found = interval_of_mean(n, float(reports.mean()), float(reports.var()), 0.95, law.limits)
        halves.append((found.high - found.low) / 2)
    expected = chosen.expected.get("answers", [chosen.expected])[0]
    return float(expected["population_error_95"]), float(np.mean(halves))


def table(*, quick: bool = False) -> None:
    """Print the plans that are off or refused, and their numbers."""
    warnings.simplefilter("ignore", NotPrivateWarning)
    count = QUICK_WISHES if quick else WISHES
    shown = Table("wish", "ε", "n", "±, planned", "printed over planned", "what is wrong")
    ratios, crashed, refused, of_use = [], 0, 0, 0
    for number, (said, asked) in enumerate(wishes(count)):
        found = outcome(asked, np.random.default_rng([SEED, 1, number]))
        wrong, planned, ratio = "", "–", "–"
        if found.planned is not None and found.printed is not None:
            ratios.append(found.printed / found.planned)
            planned, ratio = f"{found.planned:.3g}", f"{ratios[-1]:.3f}"
            wrong = "off" if _off(ratios[-1:]) else ""
        elif found.crashed:
            crashed, wrong = crashed + 1, found.crashed
        else:
            refused, of_use = refused + 1, of_use + (found.points < OF_USE)
            wrong = f"refused, where points give ±{found.points:.2g}: {found.refused}"
        if wrong:
            shown.add_row(
                said, f"{asked['epsilon']:g}", f"{asked['participants']:,}", planned, ratio, wrong
            )
    console = Console(width=130)
    console.print(shown)
    console.print(
        f"{count} wishes, seed {SEED}: {crashed} crashed, {refused} were refused, {of_use} of them"
        f" where points are within ±{OF_USE:g} (at most {MOST_REFUSED:.0%} may be). Printed over"
        f" planned: {min(ratios):.3f} to {max(ratios):.3f}, {_off(ratios)} beyond 0.9 to 1.1."
    )


def _off(ratios: list[float]) -> int:
    return sum(abs(ratio - 1) > WITHIN for ratio in ratios)
