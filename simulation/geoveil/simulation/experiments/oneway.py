"""The paper's experiment on one threshold: the share of households above it [SGP §5, App. B.1].

One repetition draws n people X₁, …, X_n, with replacement and by weight; each sends a report Yᵢ
about the soft threshold; the estimate is their mean. Its error is taken against the share of that
very sample that lies above the hard threshold, h(x) = 1[x > T]. So the error is the mean of n
independent differences Dᵢ = Yᵢ − h(Xᵢ). With m(x) and v(x) the mean and variance of a report at x,

    E D = E[m − h] =: μ,     Var D = E[v] + Var[m − h],

expectations over the population, and hence the mean squared error is exactly

    E[((1/n) Σ Dᵢ)²] = μ² + (E[v] + Var[m − h])/n.

μ² stays however many people take part: it is what the soft threshold, and for GP_loc the noise,
misjudges. E[v]/n is what privacy adds to that.

The paper draws one sample for each n and repeats the noise only. Its errors scatter about this mean
by the last term, Var[m − h]/n.

`ONE_WAY` are those who take part. The paper's own answer the linear ramp, at the paper's
calibration and reach; geoveil's answer at the same ε for each query. Those that need a slope
without jumps answer a smoothstep over the same band as the ramp, so that about the same people are
blurred.

A soft threshold misjudges the share above the hard one; with many people that is most of the error.
Incomes are reported in round numbers: one household in a hundred has exactly 100,000 dollars, which
is not above 100,000 and yet counts one half. Somebody who knows an earlier survey can do better:
for each width, put the centre of the band where that survey's soft share is its hard share, and
take the width of the least expected error [MATH §8]. The choice uses public numbers only, so it
costs no privacy. The survey here is a stand-in for an earlier year's: `SURVEY_SIZE` households
drawn from the population. What it happens to get wrong stays in the bias of the "aimed" query;
results are means over `SURVEYS` such surveys.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np

from geoveil.analyst.planner import Reports
from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalLaplace,
    Query,
    SmoothMechanism,
    Threshold,
)
from geoveil.simulation.comparison import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Array,
    Contestant,
    Setting,
    perturbed_points,
)
from geoveil.simulation.experiment import Cell, Experiment
from geoveil.simulation.experiments.draws import Draws, drawn_blocks, drawn_error
from geoveil.simulation.experiments.own import (
    AS_PUBLISHED,
    OwnInput,
    distinct_values,
    with_own,
)
from geoveil.simulation.experiments.published import IN_FULL, Asked, published
from geoveil.simulation.experiments.rows import LOCAL, OURS, PRIOR, SEED, SEED_PRIOR, ErrorRow
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    ONE_WAY_REPETITIONS,
    OneWayPanel,
)
from geoveil.simulation.figures.thresholds import draw_errors
from geoveil.simulation.populations import household_incomes

SURVEY_SIZE = 100_000
"""Households in a public survey; the real one has 141,199."""
SURVEYS = 5
"""Surveys that might have been made."""
PEOPLE = 1_600_000
"""Number of people for whom the width is best: the middle of the paper's."""
WIDTHS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Widths that are tried, in widths of the paper's band."""
_HALVINGS = 40


@lru_cache(maxsize=SURVEYS)
def incomes_in(survey: int) -> tuple[Array, Array]:
    """Return the distinct incomes of a survey, and the share of it at each.

    Args:
        survey: its number, which fixes who is in it.
    """
    incomes = household_incomes().sample(SURVEY_SIZE, np.random.default_rng(survey))
    values, counts = np.unique(incomes, return_counts=True)
    return values, counts / SURVEY_SIZE


@lru_cache(maxsize=128)
def aimed(setting: Setting, survey: int) -> Setting:
    """Return the setting with its soft threshold aimed by a survey, for DebiasedLaplace.

    Args:
        setting: `soft` is a smoothstep `Threshold`.
        survey: the number of the survey.
    """
    soft = _best(setting.soft, lambda q: DebiasedLaplace(q, setting.privacy), survey)
    return replace(setting, soft=soft)


@lru_cache(maxsize=128)
def aimed_seed(setting: Setting, survey: int) -> Setting:
    """Return the setting with the paper's threshold aimed, for the paper's Student-t mechanism.

    Args:
        setting: `seed` is a linear `Threshold`.
        survey: the number of the survey.
    """
    seed = _best(setting.seed, lambda q: STUDENT_T(replace(setting, seed=q)), survey)
    return replace(setting, seed=seed)


def _best(query: Query, build: Callable[[Threshold], Reports], survey: int) -> Threshold:
    assert isinstance(query, Threshold)
    choices = [_centred(query, factor * query.width, survey) for factor in WIDTHS]
    return min(choices, key=lambda q: _expected(q, query.at, build(q), survey))


def _centred(query: Threshold, width: float, survey: int) -> Threshold:
    """Return the threshold of this width whose soft share of the survey is the hard share."""
    x, shares = incomes_in(survey)
    target = shares[x > query.at].sum()
    low, high = query.at - width, query.at + width
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        candidate = Threshold(middle, width, profile=query.profile)
        if np.sum(shares * candidate.value(x)) > target:
            low = middle  # the soft share falls as the centre rises
        else:
            high = middle
    return Threshold(high, width, profile=query.profile)


def _expected(candidate: Threshold, at: float, answer: Reports, survey: int) -> float:
    """Return the mean squared error to expect, up to the bias that the survey can see."""
    x, shares = incomes_in(survey)
    misjudged = float(np.sum(shares * np.square(candidate.value(x) - (x > at))))
    noise = float(np.sum(shares * answer.variance(x)))
    return (noise + misjudged) / PEOPLE + misjudged / SURVEY_SIZE


def _aimed(survey: int) -> Callable[[Setting], Reports]:
    return lambda s: DebiasedLaplace(aimed(s, survey).soft, s.privacy)


def _aimed_seed(survey: int) -> Callable[[Setting], Reports]:
    return lambda s: STUDENT_T(aimed_seed(s, survey))


_OURS, _SEEDS = (tuple(map(make, range(SURVEYS))) for make in (_aimed, _aimed_seed))

ONE_WAY: Mapping[str, Contestant] = MappingProxyType(
    {
        "GP_loc": Contestant(
            SEED,
            lambda s: perturbed_points(s.privacy, s.seed, debias=False),
            answers_every_query=True,
        ),
        "GP_Lip": Contestant(SEED, lambda s: LipschitzMechanism(s.seed, s.privacy)),
        "Student-t": Contestant(SEED, STUDENT_T),
        "generalized Cauchy": Contestant(SEED, GENERALIZED_CAUCHY),
        LOCAL: Contestant(SEED, lambda s: LocalLaplace(s.seed, s.local)),
        "LaplacePareto": Contestant(OURS, lambda s: SmoothMechanism(s.seed, s.privacy)),
        "PowerLaw": Contestant(OURS, lambda s: SmoothMechanism(s.soft, s.privacy)),
        "DebiasedLaplace": Contestant(OURS, lambda s: DebiasedLaplace(s.soft, s.privacy)),
        "deconvolved": Contestant(
            OURS,
            lambda s: perturbed_points(s.privacy, s.soft, debias=True),
            answers_every_query=True,
        ),
        "aimed Student-t": Contestant(SEED_PRIOR, _SEEDS[0], _SEEDS[1:]),
        "aimed": Contestant(PRIOR, _OURS[0], _OURS[1:]),
    }
)
"""Name → contestant, for one threshold. On a line, "deconvolved" points have the error of
DebiasedLaplace; but they answer every threshold for one ε. "aimed" is DebiasedLaplace about a band
that a public survey chose, "aimed Student-t" the paper's with the same help."""


BLOCK = 1 << 17
"""People who are drawn together, from a seed of their own."""
_row = partial(ErrorRow, experiment="oneway", measure="MSE")


def all_contestants(given: OwnInput) -> Mapping[str, Contestant]:
    """Return all who take part, by name: those of a file too, and no survey of other people."""
    surveyed = (SEED_PRIOR, PRIOR) if given.data is not None else ()
    known = {name: c for name, c in ONE_WAY.items() if c.origin not in surveyed}
    return with_own(known, given)


def exact(panel: OneWayPanel, name: str, given: OwnInput = AS_PUBLISHED) -> list[ErrorRow]:
    """Return the errors of one mechanism in one panel for every n, by the formula of this module.

    Args:
        panel: the setting.
        name: of the mechanism.
        given: mechanisms and people of one's own.
    """
    contestant = all_contestants(given)[name]
    versions = [moments(panel, build(panel.setting), given) for build in contestant.versions]
    squared_bias, noise, spread = np.array(versions).T
    rows = []
    for n in panel.people:
        errors = squared_bias + (noise + spread) / n
        scatter = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
        rows.append(
            _row(
                panel=panel.label,
                n=n,
                per=panel.per,
                mechanism=name,
                origin=contestant.origin,
                error=float(errors.mean()),
                standard_error=scatter / math.sqrt(len(errors)),
                squared_bias=float(squared_bias.mean()),
                noise=float(noise.mean()) / n,
            )
        )
    return rows


def moments(
    panel: OneWayPanel, answer: Reports, given: OwnInput = AS_PUBLISHED
) -> tuple[float, float, float]:
    """Return μ², E[v] and Var[m − h] of a mechanism."""
    x, shares = distinct_values(given)
    misjudged = answer.mean(x) - (x > panel.threshold)
    # Not matrix products: for vectors this short, starting threads takes longer than adding.
    bias = float(np.sum(shares * misjudged))
    noise = float(np.sum(shares * answer.variance(x)))
    return bias**2, noise, float(np.sum(shares * np.square(misjudged - bias)))


def drawn(
    panel: OneWayPanel,
    name: str,
    n: int,
    repetitions: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return the error of one mechanism in one panel for one n, by drawing people and noise."""
    squares = [drawn_once(panel, name, n, r, seed, given) ** 2 for r in range(repetitions)]
    return [
        _row(
            panel=panel.label,
            n=n,
            per=panel.per,
            mechanism=name,
            origin=all_contestants(given)[name].origin,
            **drawn_error(squares, seed),
        )
    ]


def drawn_once(
    panel: OneWayPanel,
    name: str,
    n: int,
    repetition: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> float:
    """Return estimate less truth in one repetition."""
    x, shares = distinct_values(given)
    above = x > panel.threshold
    versions = all_contestants(given)[name].versions
    draws = Draws(versions[repetition % len(versions)](panel.setting), x)
    total = 0.0
    for people, rng in drawn_blocks(
        f"oneway {panel.label} {name}", n, size=BLOCK, seed=seed, repetition=repetition
    ):
        # How many of the block have each income: all that order could tell is who is who.
        counts = rng.multinomial(people, shares)
        total += draws.total(counts, rng) - float(counts @ above)
    return total / n


def cells(
    asked: Asked = IN_FULL,
    panels: Sequence[OneWayPanel] | None = None,
    contestants: Sequence[str] | None = None,
) -> list[Cell[ErrorRow]]:
    """Return the cells of the experiment.

    Args:
        asked: how it is run.
        panels: those that are asked for by default: the paper's twelve, or a question of one's own.
        contestants: their names; all by default.

    Raises:
        ParameterError: if a file has no mechanisms, or there is a table without a question.
    """
    given = asked.given
    chosen = tuple(all_contestants(given)) if contestants is None else contestants
    panels = _panels(asked) if panels is None else panels
    if not asked.drawn:
        return [Cell(exact, (p, c, given)) for p in panels for c in chosen]
    runs = asked.runs(ONE_WAY_REPETITIONS, 10)
    return [
        Cell(drawn, (p, c, n, runs, asked.seed, given), cost=float(n * runs))
        for p in panels
        for n in p.people
        for c in chosen
    ]


def _panels(asked: Asked) -> tuple[OneWayPanel, ...]:
    panels = ONE_WAY_PANELS[1::3] if asked.quick else ONE_WAY_PANELS
    if question := asked.given.question(1):
        (threshold,), per = question
        panels = (OneWayPanel(threshold, per, footing=per),)
    return tuple(replace(p, people=(100_000,)) for p in panels) if asked.quick else panels


def experiment(asked: Asked) -> Experiment[ErrorRow]:
    """Return one threshold on incomes: twelve settings, figures 3 and 8 of the paper."""
    return published("oneway", asked, cells(asked), draw_errors)
