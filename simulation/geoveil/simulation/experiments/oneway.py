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
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from geoveil.analyst.planner import Reports
from geoveil.gp import (
    DebiasedLaplace,
    LipschitzMechanism,
    LocalLaplace,
    ParameterError,
    SmoothMechanism,
)
from geoveil.simulation.comparison import Setting
from geoveil.simulation.experiments.aimed import SURVEYS, aimed, aimed_seed
from geoveil.simulation.experiments.contestants import (
    GENERALIZED_CAUCHY,
    STUDENT_T,
    Array,
    Contestant,
    perturbed_points,
)
from geoveil.simulation.experiments.draws import Draws, drawn_blocks, drawn_error
from geoveil.simulation.experiments.rows import LOCAL, OURS, PRIOR, SEED, SEED_PRIOR, ErrorRow
from geoveil.simulation.experiments.runs import ExperimentCell
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    ONE_WAY_REPETITIONS,
    OneWayPanel,
)
from geoveil.simulation.populations import household_incomes


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


@lru_cache(maxsize=1)
def distinct_incomes() -> tuple[Array, Array]:
    """Return the distinct household incomes and the share of households at each, which add to 1.

    12,899 numbers stand for 141,199 rows: incomes are published rounded.
    """
    households = household_incomes()
    values, row = np.unique(households.values, return_inverse=True)
    shares = np.bincount(row, households.weights)
    return values, shares / shares.sum()


@dataclass(frozen=True, slots=True)
class OneWayExactCell(ExperimentCell):
    """One panel and one mechanism, by the formula of this module, for every n."""

    panel: OneWayPanel
    contestant: str

    @property
    def key(self) -> str:
        return f"oneway exact {self.contestant} {self.panel}"

    @property
    def cost(self) -> float:
        return 1.0

    def rows(self) -> list[ErrorRow]:
        versions = [
            self._moments(build(self.panel.setting)) for build in ONE_WAY[self.contestant].versions
        ]
        squared_bias, noise, spread = np.array(versions).T
        rows = []
        for n in self.panel.people:
            errors = squared_bias + (noise + spread) / n
            scatter = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
            rows.append(
                _row(
                    self.panel,
                    self.contestant,
                    n,
                    error=float(errors.mean()),
                    standard_error=scatter / math.sqrt(len(errors)),
                    squared_bias=float(squared_bias.mean()),
                    noise=float(noise.mean()) / n,
                )
            )
        return rows

    def _moments(self, answer: Reports) -> tuple[float, float, float]:
        """Return μ², E[v] and Var[m − h]."""
        x, shares = distinct_incomes()
        misjudged = answer.mean(x) - (x > self.panel.threshold)
        # Not matrix products: for vectors this short, starting threads takes longer than adding.
        bias = float(np.sum(shares * misjudged))
        noise = float(np.sum(shares * answer.variance(x)))
        return bias**2, noise, float(np.sum(shares * np.square(misjudged - bias)))


@dataclass(frozen=True, slots=True)
class OneWayMonteCarloCell(ExperimentCell):
    """One panel, one mechanism and one n, by drawing people and noise."""

    panel: OneWayPanel
    contestant: str
    n: int
    repetitions: int
    seed: int

    @property
    def key(self) -> str:
        return (
            f"oneway monte-carlo {self.contestant} n={self.n} repetitions={self.repetitions}"
            f" seed={self.seed} {self.panel}"
        )

    @property
    def cost(self) -> float:
        return float(self.n * self.repetitions)

    def rows(self) -> list[ErrorRow]:
        squares = [self.error(r) ** 2 for r in range(self.repetitions)]
        drawn = drawn_error(squares, self.seed)
        return [_row(self.panel, self.contestant, self.n, **drawn)]

    def error(self, repetition: int) -> float:
        """Return estimate less truth in one repetition."""
        x, shares = distinct_incomes()
        above = x > self.panel.threshold
        versions = ONE_WAY[self.contestant].versions
        draws = Draws(versions[repetition % len(versions)](self.panel.setting), x)
        name = f"oneway {self.panel.label} {self.contestant}"
        total = 0.0
        for people, rng in drawn_blocks(
            name, self.n, size=BLOCK, seed=self.seed, repetition=repetition
        ):
            # How many of the block have each income: all that order could tell is who is who.
            counts = rng.multinomial(people, shares)
            total += draws.total(counts, rng) - float(counts @ above)
        return total / self.n


def cells(
    *,
    mode: str = "exact",
    repetitions: int = ONE_WAY_REPETITIONS,
    seed: int = 1,
    panels: Sequence[OneWayPanel] = ONE_WAY_PANELS,
    contestants: Sequence[str] = tuple(ONE_WAY),
) -> list[ExperimentCell]:
    """Return the cells of the experiment.

    Args:
        mode: one of `MODES`.
        repetitions: ≥ 2; of each cell, in monte-carlo mode.
        seed: ≥ 0; the same seed gives the same rows.
        panels: the paper's twelve by default.
        contestants: names in `ONE_WAY`.
    """
    if mode == "exact":
        return [OneWayExactCell(p, c) for p in panels for c in contestants]
    if repetitions < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    return [
        OneWayMonteCarloCell(p, c, n, repetitions, seed)
        for p in panels
        for n in p.people
        for c in contestants
    ]


def _row(panel: OneWayPanel, contestant: str, n: int, *, error: float, **rest: object) -> ErrorRow:
    return ErrorRow(
        experiment="oneway",
        panel=panel.label,
        n=n,
        per=panel.per,
        mechanism=contestant,
        origin=ONE_WAY[contestant].origin,
        measure="MSE",
        error=error,
        **rest,  # type: ignore[arg-type]  # of two types
    )
