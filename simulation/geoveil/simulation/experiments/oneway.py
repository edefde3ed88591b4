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
    Contestant,
    perturbed_points,
)
from geoveil.simulation.experiments.draws import Draws, drawn_blocks, drawn_error
from geoveil.simulation.experiments.own import (
    AS_PUBLISHED,
    OwnInput,
    distinct_values,
    own_contestants,
)
from geoveil.simulation.experiments.rows import LOCAL, OURS, PRIOR, SEED, SEED_PRIOR, ErrorRow
from geoveil.simulation.experiments.runs import ErrorCell
from geoveil.simulation.experiments.settings import (
    ONE_WAY_PANELS,
    ONE_WAY_REPETITIONS,
    OneWayPanel,
)


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


def all_contestants(given: OwnInput) -> Mapping[str, Contestant]:
    """Return all who take part, by name: those of a file too, and no survey of other people."""
    known = {
        name: contestant
        for name, contestant in ONE_WAY.items()
        if given.data is None or contestant.origin not in (SEED_PRIOR, PRIOR)
    }
    own = own_contestants(given)
    if known.keys() & own.keys():
        raise ParameterError("module", sorted(known.keys() & own.keys())[0], "another name")
    return {**known, **own}


def _suffix(given: OwnInput) -> str:
    return f" own={given.fingerprint}" if given.fingerprint else ""


@dataclass(frozen=True, slots=True)
class OneWayExactCell(ErrorCell):
    """One panel and one mechanism, by the formula of this module, for every n."""

    panel: OneWayPanel
    contestant: str
    given: OwnInput = AS_PUBLISHED

    @property
    def key(self) -> str:
        return f"oneway exact {self.contestant} {self.panel}{_suffix(self.given)}"

    @property
    def cost(self) -> float:
        return 1.0

    def rows(self) -> list[ErrorRow]:
        contestant = all_contestants(self.given)[self.contestant]
        versions = [self._moments(build(self.panel.setting)) for build in contestant.versions]
        squared_bias, noise, spread = np.array(versions).T
        rows = []
        for n in self.panel.people:
            errors = squared_bias + (noise + spread) / n
            scatter = float(errors.std(ddof=1)) if len(errors) > 1 else 0.0
            rows.append(
                _row(
                    self.panel,
                    (self.contestant, contestant.origin),
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
        x, shares = distinct_values(self.given)
        misjudged = answer.mean(x) - (x > self.panel.threshold)
        # Not matrix products: for vectors this short, starting threads takes longer than adding.
        bias = float(np.sum(shares * misjudged))
        noise = float(np.sum(shares * answer.variance(x)))
        return bias**2, noise, float(np.sum(shares * np.square(misjudged - bias)))


@dataclass(frozen=True, slots=True)
class OneWayMonteCarloCell(ErrorCell):
    """One panel, one mechanism and one n, by drawing people and noise."""

    panel: OneWayPanel
    contestant: str
    n: int
    repetitions: int
    seed: int
    given: OwnInput = AS_PUBLISHED

    @property
    def key(self) -> str:
        return (
            f"oneway monte-carlo {self.contestant} n={self.n} repetitions={self.repetitions}"
            f" seed={self.seed} {self.panel}{_suffix(self.given)}"
        )

    @property
    def cost(self) -> float:
        return float(self.n * self.repetitions)

    def rows(self) -> list[ErrorRow]:
        squares = [self.error(r) ** 2 for r in range(self.repetitions)]
        drawn = drawn_error(squares, self.seed)
        origin = all_contestants(self.given)[self.contestant].origin
        return [_row(self.panel, (self.contestant, origin), self.n, **drawn)]

    def error(self, repetition: int) -> float:
        """Return estimate less truth in one repetition."""
        x, shares = distinct_values(self.given)
        above = x > self.panel.threshold
        versions = all_contestants(self.given)[self.contestant].versions
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
    contestants: Sequence[str] | None = None,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorCell]:
    """Return the cells of the experiment.

    Args:
        mode: one of `MODES`.
        repetitions: ≥ 2; of each cell, in monte-carlo mode.
        seed: ≥ 0; the same seed gives the same rows.
        panels: the paper's twelve by default.
        contestants: their names; all by default.
        given: mechanisms and people of one's own.

    Raises:
        ParameterError: if there are fewer than two repetitions, or a file has no mechanisms.
    """
    chosen = tuple(all_contestants(given)) if contestants is None else contestants
    if mode == "exact":
        return [OneWayExactCell(p, c, given) for p in panels for c in chosen]
    if repetitions < 2:
        raise ParameterError("repetitions", repetitions, "an integer >= 2")
    return [
        OneWayMonteCarloCell(p, c, n, repetitions, seed, given)
        for p in panels
        for n in p.people
        for c in chosen
    ]


def _row(
    panel: OneWayPanel, contestant: tuple[str, str], n: int, *, error: float, **rest: object
) -> ErrorRow:
    mechanism, origin = contestant
    return ErrorRow(
        experiment="oneway",
        panel=panel.label,
        n=n,
        per=panel.per,
        mechanism=mechanism,
        origin=origin,
        measure="MSE",
        error=error,
        **rest,  # type: ignore[arg-type]  # of two types
    )
