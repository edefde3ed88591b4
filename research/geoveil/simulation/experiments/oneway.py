"""The paper's experiment on one threshold: the share of households above it [SGP §5, App. B.1].

Errors against the sample's own hard share are exact [MATH §12.1]; the paper draws one sample for
each n. The paper's mechanisms answer the linear ramp with the paper's calibration and reach;
geoveil's have the same ε, and those that need a slope without jumps answer a smoothstep over the
same band.

An earlier public survey chooses the band of "aimed" queries. `SURVEY_SIZE` households drawn from
the population stand in for that survey, and results are means over `SURVEYS` surveys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

import numpy as np

from geoveil.analyst import ReportLaw
from geoveil.gp import Threshold, validation
from geoveil.simulation.comparison import MECHANISMS, STUDENT_T, Contestant, Setting
from geoveil.simulation.experiment import Cell, Experiment, mean_and_error
from geoveil.simulation.experiments.own import distinct_values
from geoveil.simulation.experiments.published import Panel, PaperRun, band, published
from geoveil.simulation.experiments.rows import PRIOR, SEED_PRIOR, ErrorRow
from geoveil.simulation.experiments.sums import drawn_blocks, summed
from geoveil.simulation.figures.published import draw_errors
from geoveil.simulation.populations import Array, household_incomes

SURVEY_SIZE = 100_000
"""Households in a simulated public survey; the real one has 141,199."""
SURVEYS = 5
"""The number of simulated surveys."""
AIMED_FOR = 1_600_000
"""The number of people for which the width is chosen: the middle of the paper's."""
WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Widths to try, in widths of the paper's band."""
_HALVINGS = 40
BLOCK = 1 << 17
"""The number of people per block; each block has its own seed."""
PEOPLE = (400_000, 800_000, 1_600_000, 3_200_000, 6_400_000)
_PERS = {
    10_000.0: (800.0, 1_200.0, 2_000.0),
    100_000.0: (8_000.0, 12_000.0, 20_000.0),
    500_000.0: (16_000.0, 24_000.0, 40_000.0),
    1_000_000.0: (32_000.0, 48_000.0, 80_000.0),
}
"""Threshold → the three 1/ε, in dollars; at the middle one the paper's ε_L is 1."""


@lru_cache(maxsize=SURVEYS)
def incomes_in(survey: int) -> tuple[Array, Array]:
    """Return the distinct incomes of a survey, and the share of households at each."""
    incomes = household_incomes().sample(SURVEY_SIZE, np.random.default_rng(survey))
    values, counts = np.unique(incomes, return_counts=True)
    return values, counts / SURVEY_SIZE


_AIMED = {"seed": STUDENT_T, "soft": MECHANISMS["DebiasedLaplace"].build}
"""The name of a setting's aimed query → the mechanism that answers it."""


@lru_cache(maxsize=256)
def aimed(setting: Setting, survey: int, side: str = "soft") -> Setting:
    """Return the setting with one of its thresholds aimed by a survey.

    `side` is "soft", for DebiasedLaplace, or "seed", for the paper's Student-t mechanism.
    """
    build, query = _AIMED[side], getattr(setting, side)
    choices: list[Any] = [{side: _centred(query, f * query.width, survey)} for f in WIDTHS]
    settings = (replace(setting, **choice) for choice in choices)
    return min(settings, key=lambda s: _expected(build(s), query.at, survey))


def _centred(query: Threshold, width: float, survey: int) -> Threshold:
    """Return the threshold of this width whose soft share in the survey equals the hard share."""
    x, shares = incomes_in(survey)
    target = shares[x > query.at].sum()
    low, high = query.at - width, query.at + width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        candidate = Threshold(middle, width, profile=query.profile)
        if np.sum(shares * candidate.value(x)) > target:
            low = middle  # a higher centre lowers the soft share
        else:
            high = middle
    return Threshold(high, width, profile=query.profile)


def _expected(answer: ReportLaw, at: float, survey: int) -> float:
    """Return the expected mean squared error, with the survey's estimate of the bias."""
    x, shares = incomes_in(survey)
    misjudged = float(np.sum(shares * np.square(answer.mean(x) - (x > at))))
    noise = float(np.sum(shares * answer.variance(x)))
    return (noise + misjudged) / AIMED_FOR + misjudged / SURVEY_SIZE


def _aimed(origin: str, side: str) -> Contestant:
    build = _AIMED[side]
    versions = [lambda s, of=survey: build(aimed(s, of, side)) for survey in range(SURVEYS)]
    return Contestant(origin, versions[0], tuple(versions[1:]))


ONE_WAY: Mapping[str, Contestant] = MappingProxyType(
    {
        **{name: c for name, c in MECHANISMS.items() if name != "GP_rad"},
        "aimed Student-t": _aimed(SEED_PRIOR, "seed"),
        "aimed": _aimed(PRIOR, "soft"),
    }
)
"""Name → contestant for one threshold. "deconvolved" points have DebiasedLaplace's error, but
answer every threshold for one ε. A public survey chooses the "aimed" bands."""


@dataclass(frozen=True, kw_only=True)
class OneWayPanel(Panel):
    """One panel of the paper's figures 3 and 8: a threshold T > 0, in dollars, and an ε."""

    experiment = "oneway"
    measure = "MSE"
    of_papers = ONE_WAY
    repetitions = 100, 10
    quick_people = 100_000
    threshold: float
    people: tuple[int, ...] = PEOPLE

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.positive("threshold", self.threshold)

    @property
    def label(self) -> str:
        return f"T={self.threshold:.15g}, 1/ε={self.per:.15g}"

    @property
    def setting(self) -> Setting:
        """The question and the privacy."""
        return self.asked(partial(Threshold, self.threshold, band(self.threshold, self.per)))

    def drawn_once(self, name: str, n: int, repetition: int, seed: int) -> Array:
        x, shares = distinct_values(self.given)
        above = x > self.threshold
        versions = self.contestants[name].versions
        total = summed(versions[repetition % len(versions)](self.setting), x)
        error = 0.0
        for people, rng in drawn_blocks(
            f"oneway {self.label} {name}", n, size=BLOCK, seed=seed, repetition=repetition
        ):
            # Only the number of people at each income matters, not their order.
            counts = rng.multinomial(people, shares)
            error += total(counts, rng) - float(counts @ above)
        return np.array(error / n)


PANELS = tuple(
    OneWayPanel(threshold=threshold, per=per, footing=pers[1])
    for threshold, pers in _PERS.items()
    for per in pers
)
"""All panels, row by row."""


def exact(panel: OneWayPanel, name: str) -> list[ErrorRow]:
    """Return the exact errors of one mechanism in one panel for every n."""
    of_versions = [
        moments(panel, build(panel.setting)) for build in panel.contestants[name].versions
    ]
    squared_bias, noise, spread = np.array(of_versions).T
    rows = []
    for n in panel.people:
        errors = squared_bias + (noise + spread) / n
        error, scatter = mean_and_error(errors)
        rows.append(
            panel.row(
                name,
                n,
                error=error,
                standard_error=scatter,
                squared_bias=float(squared_bias.mean()),
                noise=float(noise.mean()) / n,
            )
        )
    return rows


def moments(panel: OneWayPanel, answer: ReportLaw) -> tuple[float, float, float]:
    """Return μ², E[v] and Var[m − h] of a mechanism."""
    x, shares = distinct_values(panel.given)
    misjudged = answer.mean(x) - (x > panel.threshold)
    # No matrix products: for such short vectors, starting threads takes longer than adding.
    bias = float(np.sum(shares * misjudged))
    noise = float(np.sum(shares * answer.variance(x)))
    return bias**2, noise, float(np.sum(shares * np.square(misjudged - bias)))


def experiment(asked: PaperRun) -> Experiment[ErrorRow]:
    """Return the experiment with one threshold on incomes (figures 3 and 8), or on a user's people.

    Raises:
        ParameterError: if a file has no mechanisms, or a table comes without a question.
    """
    panels = PANELS[1::3] if asked.quick else PANELS
    if question := asked.given.question(1):
        (threshold,), per = question
        panels = (OneWayPanel(threshold=threshold, per=per, footing=per),)
    return published(
        asked,
        panels,
        lambda panels, names: [Cell(exact, (p, name)) for p in panels for name in names],
        draw_errors,
    )
