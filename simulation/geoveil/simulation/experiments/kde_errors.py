"""The error of every contestant at every centre of the kernel experiment, exactly.

One repetition draws n people X₁, …, X_n from the population, with replacement, and asks for
(1/n) Σ f_t(X_i) at each centre t of the grid. Its error there, e_t, is taken against that very
number, the kernel mean of the repetition's own sample; the ASE is Σ_t E[e_t²]. With m_t(x) and
v_t(x) the mean and variance of one report at x, b_t = m_t − f_t, and means, variances and
covariances over the population:

**ε for each centre** (how the paper counts: m centres cost mε in all). e_t is the mean of n
independent numbers of mean b_t(X_i) and variance v_t(X_i), hence

    E[e_t²] = (mean b_t)² + (mean v_t + Var b_t)/n.

**ε for the whole grid**, by `partition` [MATH §7]: each person answers one centre, drawn uniformly.
N ~ Binomial(n, 1/m) people answer at t; the estimate is their mean. Given N, the answers of these
and the values f_t of all n make up e_t, a sum of independent numbers with

    E[e_t²] = (mean b_t)² + (mean v_t + Var m_t)/N − 2 Cov(m_t, f_t)/n + Var f_t/n,

and Var b = Var m + Var f − 2 Cov(m, f) turns the last two terms into (Var b_t − Var m_t)/n. 1/N is
replaced by its mean given N ≥ 1. Perturbed points answer every centre for one ε: for them both
numbers are the same.

That the centres share people, and for perturbed points the noise too, correlates the e_t but does
not change the sum of their second moments. It does change how much that sum varies between
repetitions, which is not given here.

m, v and f depend on the distance alone, so that one pass over the pairs of people and centres, by
`kde_sums`, serves all settings and contestants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.planner.prediction import mean_reciprocal
from geoveil.gp import ParameterError
from geoveil.simulation.comparison import Contestant
from geoveil.simulation.experiments.kde_moments import (
    KERNEL,
    DistanceNodes,
    Places,
    RadialMoments,
    radial_means,
)
from geoveil.simulation.experiments.kde_settings import KernelGrid, KernelSetting

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CentreErrors:
    """The law of the error e_t at each centre: its mean, and its variance with what is noise."""

    bias: Array
    """E[e_t], shape (k,)."""
    variance: Array
    """Var e_t."""
    noise: Array
    """The part of `variance` that is the noise of the reports, mean v_t over the number of them."""

    @property
    def ase(self) -> float:
        """Σ_t E[e_t²]."""
        return float(np.sum(np.square(self.bias) + self.variance))

    @property
    def squared_bias(self) -> float:
        """Σ_t (E e_t)²: the part of the ASE that does not shrink with n."""
        return float(np.sum(np.square(self.bias)))


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """The errors of one contestant in one setting, by what ε pays for."""

    per_centre: CentreErrors
    """ε for each centre."""
    whole_grid: CentreErrors
    """ε for all centres together."""


def centre_errors(
    settings: Iterable[KernelSetting],
    places: Places,
    grid: KernelGrid,
    *,
    chosen: NDArray[np.intp] | None = None,
    contestants: Mapping[str, Contestant] = KERNEL,
) -> list[dict[str, Errors]]:
    """Return the error of every contestant at every centre, one pass over the pairs for all.

    Args:
        settings: at least one.
        places: the population.
        grid: the centres.
        chosen: indices of the centres to look at; all by default. The privacy is shared out over
            the whole grid all the same.
        contestants: name → contestant.

    Returns:
        For each setting: name → errors.

    Raises:
        ParameterError: if there is no setting.
    """
    settings = tuple(settings)
    if not settings:
        raise ParameterError("settings", "none", "at least one setting")
    centres = grid.centres if chosen is None else grid.centres[chosen]
    near = min(min(s.per_m, grid.bandwidth(s.factor)) for s in settings)
    nodes = DistanceNodes(near, places.farthest(centres))
    r = nodes.distances
    columns = _Columns()
    tables: dict[tuple[float, float], dict[str, _ErrorTable]] = {}
    for s in settings:
        if (s.per_m, s.factor) not in tables:  # n is in the formulas only
            bandwidth = grid.bandwidth(s.factor)
            tables[s.per_m, s.factor] = {
                name: _ErrorTable(columns, RadialMoments.of(contestant, bandwidth, s.privacy, r))
                for name, contestant in contestants.items()
            }
    means = radial_means(places, centres, columns.stacked(), nodes)
    return [
        {
            name: table.errors(means, s.n, 1 if contestants[name].answers_every_query else grid.m)
            for name, table in tables[s.per_m, s.factor].items()
        }
        for s in settings
    ]


class _Columns:
    """Tabulated functions, each held once."""

    def __init__(self) -> None:
        self._columns: list[Array] = []
        self._places: dict[bytes, int] = {}

    def add(self, column: Array) -> int:
        """Return where the column is, after adding it if it is new."""
        key = column.tobytes()
        if key not in self._places:
            self._places[key] = len(self._columns)
            self._columns.append(column)
        return self._places[key]

    def stacked(self) -> Array:
        """Return all columns, shape (nodes, columns)."""
        return np.stack(self._columns, axis=1)


class _ErrorTable:
    """Where the functions of one contestant are among the columns."""

    def __init__(self, columns: _Columns, moments: RadialMoments) -> None:
        bias = moments.mean - moments.value
        self._mean = columns.add(moments.mean), columns.add(np.square(moments.mean))
        self._bias = columns.add(bias), columns.add(np.square(bias))
        self._variance = columns.add(moments.variance)

    def errors(self, means: Array, n: int, m: int) -> Errors:
        """Apply the formulas of the module to the means over the population."""
        noise = means[:, self._variance]
        bias, bias_spread = _mean_and_variance(means, self._bias)
        _, spread = _mean_and_variance(means, self._mean)
        per_centre = CentreErrors(bias, (noise + bias_spread) / n, noise / n)
        if m == 1:
            return Errors(per_centre, per_centre)
        share = mean_reciprocal(n, 1 / m)
        variance = (noise + spread) * share + (bias_spread - spread) / n
        return Errors(per_centre, CentreErrors(bias, variance, noise * share))


def _mean_and_variance(means: Array, columns: tuple[int, int]) -> tuple[Array, Array]:
    mean, mean_square = means[:, columns[0]], means[:, columns[1]]
    return mean, np.maximum(mean_square - np.square(mean), 0.0)
