"""Reports weighted to a population: survey weights, and the errors of what is weighted with them.

A report is an unbiased answer of one person, so that a survey's estimators take it in place of the
answer: what they estimate is the same, and their variances, which are of the reports, hold noise
and sampling together. Weights are chosen after the reports and cost no privacy [MATH §8].

Variances are linearised, with people (or clusters of them) as if drawn with replacement within
strata [SSW92 §5.5]; of weights that fit margins, those of the residuals of a regression on the
margins [DSS93].
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.statistics.groups import WEIGHTED, GroupEstimates
from geoveil.analyst.statistics.joint import limits_of_sum
from geoveil.analyst.statistics.quantity import Quantity, ratios_within
from geoveil.analyst.statistics.raking import Margins, checked_weights, coded, raking_weights
from geoveil.gp import (
    UNLIMITED,
    Array,
    Interval,
    IntervalMethod,
    Limits,
    ParameterError,
    UnsupportedError,
    interval_of_weighted_mean,
    lazy,
    validation,
)

Codes = NDArray[np.intp]

_ENDLESS = (
    "No limits of a report were said: the interval is right once so many people take part that the"
    " weighted mean is nearly normal, and says nothing of people rarer than that."
)
_MOST_LEFT_OUT = 5_000
"""The most clusters, or people, that a jackknife leaves out one by one."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WeightedSample:
    """People with weights, and how they were drawn: weighted totals, means, ratios and groups.

    Args:
        design_weights: how many people of the population each stands for, > 0, shape (n,):
            1/(probability to take part). Equal ones, n of them, for a simple random sample.
        strata: the stratum that each was drawn in; None: one.
        clusters: the cluster in which each was drawn, within their stratum; None: by themselves.
        labels: variable → the label of each person; those that `margins` names.
        margins: what the weights are made to fit: see `raking_weights`. None: nothing.
        confidence: of intervals, in (0, 1).

    Raises:
        ParameterError: if something is out of range, lengths differ, or a stratum has one cluster.

    Example:
        >>> sample = WeightedSample(design_weights=[10, 10, 30, 30])
        >>> reports = [0.2, 1.1, -0.1, 0.9]  # unbiased answers of four people
        >>> print(round(sample.total(reports).value, 6), round(sample.mean(reports).value, 6))
        37.0 0.4625
        >>> fitted = sample.fitted({"region": ["n", "n", "s", "s"]}, {"region": {"n": 8, "s": 2}})
        >>> print(round(fitted.mean(reports).value, 6))
        0.6
    """

    design_weights: ArrayLike
    strata: ArrayLike | None = None
    clusters: ArrayLike | None = None
    labels: Mapping[str, ArrayLike] = field(default_factory=dict)
    margins: Margins = field(default_factory=dict)
    confidence: float = 0.95

    def __post_init__(self) -> None:
        validation.between("confidence", self.confidence, 0, 1, low_open=True, high_open=True)
        weights = checked_weights(self.design_weights)
        object.__setattr__(self, "design_weights", weights)
        object.__setattr__(self, "margins", MappingProxyType(dict(self.margins)))
        _ = self.weights
        lone = np.flatnonzero(np.bincount(self._stratum_of_unit) < 2)
        if len(lone):
            raise ParameterError(
                "clusters of a stratum", 1, "at least 2 in every stratum; join strata"
            )

    @lazy
    def weights(self) -> Array:
        """The weights that fit the margins, shape (n,)."""
        design = np.asarray(self.design_weights, np.float64)
        if not self.margins:
            return design
        named = {name: self.labels[name] for name in self.margins if name in self.labels}
        return raking_weights(named, self.margins, design)

    def fitted(self, labels: Mapping[str, ArrayLike], margins: Margins) -> "WeightedSample":
        """Return the same people with weights that fit margins: see `raking_weights`."""
        return replace(self, labels=labels, margins=margins)

    def total(self, reports: ArrayLike, limits: Limits = UNLIMITED) -> Quantity:
        """Return Horvitz and Thompson's estimate of the sum over the population.

        Args:
            reports: unbiased answers, shape (n,).
            limits: what a report, and a mean of them, can be; else the interval is Student's.
        """
        y = self._numbers("reports", reports)
        if self.margins:  # which say how many people there are
            people = float(self.weights.sum())
            return self.mean(y, limits).scaled(people, "total")
        heaviest = len(self._stratum_of_unit) * float(self._weight_of_unit.max())
        reports, means = (
            (heaviest * min(low, 0.0), heaviest * max(high, 0.0))
            for low, high in (limits.reports, limits.means)
        )
        largest = 1 / len(self._stratum_of_unit)
        return self._shown("total", float(self.weights @ y), y, Limits(reports, means), largest)

    def mean(self, reports: ArrayLike, limits: Limits = UNLIMITED) -> Quantity:
        """Return Hájek's estimate of the mean over the population, Σwy/Σw; arguments of `total`."""
        y, people = self._numbers("reports", reports), float(self.weights.sum())
        value = float(self.weights @ y) / people
        return self._shown("mean", value, (y - value) / people, limits)

    def ratio(
        self,
        reports: ArrayLike,
        per: ArrayLike,
        limits: Limits = UNLIMITED,
        limits_of_per: Limits = UNLIMITED,
    ) -> Quantity:
        """Return the estimate of a ratio of two totals.

        Where reports have ends, its interval holds all r for which that of a − r·b holds 0.

        Args:
            reports: unbiased answers to the question above the line, shape (n,).
            per: to that below, of the same people.
            limits: of the former.
            limits_of_per: of the latter.

        Raises:
            ParameterError: if the total below the line is not > 0.
        """
        y, x = self._numbers("reports", reports), self._numbers("per", per)
        people, below = float(self.weights.sum()), float(self.weights @ x)
        if not below > 0:
            raise ParameterError("total of per", below, "> 0")
        value = float(self.weights @ y) / below
        shown = self._shown("ratio", value, (y - value * x) / below)
        both = (limits, limits_of_per)
        if not all(limit.bounded for limit in both):
            return shown

        def contrast(r: float) -> tuple[float, float]:
            mean = float(self.weights @ (y - r * x)) / people
            of_sum = limits_of_sum(both, np.array([1.0, -r]))
            interval = self._interval(mean, (y - r * x - mean) / people, of_sum)
            return interval.low, interval.high

        low, high = -math.inf, math.inf
        if self.mean(x, limits_of_per).ci_low > 0:
            low, high = ratios_within(contrast, shown, falls=True)
        return replace(shown, ci_low=low, ci_high=high)

    def means(
        self, reports: ArrayLike, groups: ArrayLike, limits: Limits = UNLIMITED
    ) -> GroupEstimates:
        """Return the mean within each group of people, with all covariances.

        Args:
            reports: unbiased answers, shape (n,).
            groups: the group of each person.
            limits: what a report, and a mean of them, can be.
        """
        y = self._numbers("reports", reports)
        names, codes = coded("groups", groups, len(y))
        inside = np.eye(len(names))[codes]  # (n, groups)
        sizes = self.weights @ inside
        values = (self.weights * y) @ inside / sizes
        scores = (y[:, None] - values) * inside / sizes
        each = [
            self._interval(value, of_group, limits, members=codes == i)
            for i, (value, of_group) in enumerate(zip(values.tolist(), scores.T, strict=True))
        ]
        margins = [[v - e.low, e.high - v] for v, e in zip(values.tolist(), each, strict=True)]
        return GroupEstimates(
            labels=tuple(names),
            values=values,
            covariance=self._covariance(scores),
            n=tuple(np.bincount(codes).tolist()),
            confidence=self.confidence,
            limits=limits,
            margins=np.array(margins).T,
        )

    def replicated(
        self,
        statistic: Callable[[Array], float],
        method: str = "bootstrap",
        replicates: int = 500,
        seed: int = 0,
    ) -> Quantity:
        """Return a statistic of the weights with an error from replicate weights.

        For what has no formula: every replicate draws clusters again, within strata, and is fitted
        to the margins again.

        Args:
            statistic: of weights of shape (n,): for example a weighted median.
            method: "bootstrap", n_h − 1 of n_h clusters with replacement [RW88], or
                "jackknife", which leaves each cluster out once.
            replicates: of the bootstrap, 2 to 100,000.
            seed: of the bootstrap.

        Raises:
            ParameterError: if an argument is out of range.
            UnsupportedError: if there are too many clusters to leave out each.
        """
        from scipy.special import stdtrit

        validation.choice("method", method, ("bootstrap", "jackknife"))
        validation.require_count("replicates", replicates, 2, 100_000)
        centre = float(statistic(self.weights))
        squares = 0.0
        drawn = self._bootstrap(replicates, seed) if method == "bootstrap" else self._jackknife()
        for factors, share in drawn:
            kept = factors[self._unit] > 0
            squares += share * (float(statistic(self._refitted(factors, kept))) - centre) ** 2
        free = len(self._stratum_of_unit) - int(self._stratum_of_unit.max()) - 1
        margin = float(stdtrit(free, (1 + self.confidence) / 2)) * math.sqrt(squares)
        return Quantity(
            label="statistic",
            value=centre,
            standard_error=math.sqrt(squares),
            ci_low=centre - margin,
            ci_high=centre + margin,
            confidence=self.confidence,
            n=len(self.weights),
            about=(WEIGHTED, _ENDLESS),
        )

    def _refitted(self, factors: Array, kept: NDArray[np.bool_]) -> Array:
        """Return weights of all people where each cluster counts by a factor; 0 of some."""
        weights = np.asarray(self.design_weights) * factors[self._unit]
        if self.margins:
            labels = {name: np.asarray(self.labels[name])[kept] for name in self.margins}
            weights[kept] = raking_weights(labels, self.margins, weights[kept])
        return weights

    def _bootstrap(self, replicates: int, seed: int) -> Iterator[tuple[Array, float]]:
        rng = np.random.default_rng(seed)
        in_stratum = np.bincount(self._stratum_of_unit)
        units = [np.flatnonzero(self._stratum_of_unit == h) for h in range(len(in_stratum))]
        for _ in range(replicates):
            factors = np.zeros(len(self._stratum_of_unit))
            for of_stratum in units:
                n = len(of_stratum)
                drawn = np.bincount(rng.integers(n, size=n - 1), minlength=n)
                factors[of_stratum] = drawn * (n / (n - 1))
            yield factors, 1 / replicates

    def _jackknife(self) -> Iterator[tuple[Array, float]]:
        many = len(self._stratum_of_unit)
        if many > _MOST_LEFT_OUT:
            raise UnsupportedError(
                f"a jackknife of {many:,} clusters takes too long, more than {_MOST_LEFT_OUT:,}:"
                " take the bootstrap"
            )
        in_stratum = np.bincount(self._stratum_of_unit)
        for unit, stratum in enumerate(self._stratum_of_unit):
            n = int(in_stratum[stratum])
            factors = np.where(self._stratum_of_unit == stratum, n / (n - 1), 1.0)
            factors[unit] = 0.0
            yield factors, (n - 1) / n

    def _shown(
        self,
        name: str,
        value: float,
        scores: Array,
        limits: Limits = UNLIMITED,
        largest: float | None = None,
    ) -> Quantity:
        interval = self._interval(value, scores, limits, largest)
        return Quantity(
            label=name,
            value=value,
            standard_error=math.sqrt(float(self._covariance(scores[:, None])[0, 0])),
            ci_low=interval.low,
            ci_high=interval.high,
            confidence=self.confidence,
            n=len(self.weights),
            about=(WEIGHTED, *((_ENDLESS,) if interval.method is IntervalMethod.STUDENT else ())),
        )

    def _interval(
        self,
        value: float,
        scores: Array,
        limits: Limits,
        largest: float | None = None,
        members: NDArray[np.bool_] | None = None,
    ) -> Interval:
        """Return the interval of Σ w·score about a value; of a group, with who its members are."""
        parts = self._parts(scores[:, None])[:, 0]
        square = float(parts @ parts)
        of_unit = self._weight_of_unit
        if members is not None:
            of_unit = np.bincount(self._unit, self.weights * members).astype(np.float64)
        of_unit = of_unit[of_unit > 0]
        alike = float(of_unit.sum() ** 2 / (of_unit @ of_unit))
        free = len(of_unit) - len(np.unique(self._stratum_of_unit))
        return interval_of_weighted_mean(
            value,
            square,
            self.confidence,
            limits,
            largest=float(of_unit.max() / of_unit.sum()) if largest is None else largest,
            skewness=float((parts**3).sum() / square**1.5) if square else 0.0,
            freedom=max(min(free, alike - 1) if limits.bounded else free, 1.0),
        )

    def _covariance(self, scores: Array) -> Array:
        """Return the covariance of Σ w·score, shape (m, m), of scores of shape (n, m)."""
        parts = self._parts(scores)
        return np.asarray(parts.T @ parts)

    def _parts(self, scores: Array) -> Array:
        """Return what each cluster adds to the error of Σ w·score, shape (clusters, m)."""
        weighted = self.weights[:, None] * self._residuals(scores)
        of_units = _sums(weighted, self._unit, len(self._stratum_of_unit))
        sizes = np.bincount(self._stratum_of_unit)
        means = _sums(of_units, self._stratum_of_unit, len(sizes)) / sizes[:, None]
        off = of_units - means[self._stratum_of_unit]
        return np.asarray(off * np.sqrt(sizes / (sizes - 1))[self._stratum_of_unit][:, None])

    def _residuals(self, scores: Array) -> Array:
        """Return what of scores is not explained by the margins: their sums have no error."""
        if not self.margins:
            return scores
        columns = [
            np.eye(len(names))[codes]
            for name in self.margins
            for names, codes in [coded(name, self.labels[name], len(scores))]
        ]
        explained, roots = np.hstack(columns), np.sqrt(self.weights)[:, None]
        slopes = np.linalg.lstsq(roots * explained, roots * scores, rcond=None)[0]
        return np.asarray(scores - explained @ slopes)

    @lazy
    def _units(self) -> tuple[Codes, Codes]:
        """The cluster of each person, and the stratum of each cluster."""
        n = len(self.weights)
        strata = np.zeros(n, np.intp) if self.strata is None else self._codes("strata")
        if self.clusters is None:
            return np.arange(n), strata
        pairs = np.stack([strata, self._codes("clusters")], axis=1)
        units, unit = np.unique(pairs, axis=0, return_inverse=True)
        return unit.reshape(-1), units[:, 0]

    @property
    def _unit(self) -> Codes:
        return self._units[0]

    @property
    def _stratum_of_unit(self) -> Codes:
        return self._units[1]

    @property
    def _weight_of_unit(self) -> Array:
        return np.bincount(self._unit, self.weights).astype(np.float64)

    def _codes(self, name: str) -> Codes:
        return coded(name, getattr(self, name), len(self.weights))[1]

    def _numbers(self, name: str, given: ArrayLike) -> Array:
        numbers = validation.float_array(given)
        if numbers is None or numbers.shape != self.weights.shape or not np.isfinite(numbers).all():
            raise ParameterError(name, "something else", f"{len(self.weights):,} finite numbers")
        return numbers


def _sums(rows: Array, codes: Codes, groups: int) -> Array:
    """Return the sums of rows of each group, shape (groups, m)."""
    if len(codes) == groups and (codes == np.arange(groups)).all():
        return rows
    sums = [np.bincount(codes, column, groups) for column in rows.T]
    return np.stack(sums, axis=1).astype(np.float64)
