"""Reports weighted to a population: survey weights, and the errors of what is weighted with them.

A report is an unbiased answer of one person, so that a survey's estimators take it in place of the
answer: what they estimate is the same, and their variances, which are of the reports, hold noise
and sampling together. Weights are chosen after the reports and cost no privacy [MATH §8].

Variances are linearised, with people (or clusters of them) as if drawn with replacement within
strata [SSW92 §5.5]; of weights that fit margins, those of the residuals of a regression on the
margins [DSS93].
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.analyst.statistics.groups import WEIGHTED, GroupEstimates
from geoveil.analyst.statistics.joint import Quantity
from geoveil.gp import ParameterError, TableFileError, UnsupportedError, lazy, validation

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Margins = Mapping[str, Mapping[str, float]]
"""Variable → label → how many people of the population have it, or their share."""

_FITS = 1e-12
"""The largest relative distance of raked weights from a margin."""
_MOST_ROUNDS = 1_000
_MOST_LEFT_OUT = 5_000
"""The most clusters, or people, that a jackknife leaves out one by one."""


def raking_weights(
    labels: Mapping[str, ArrayLike], margins: Margins, weights: ArrayLike | None = None
) -> Array:
    """Return the weights next to given ones whose sums fit known margins, shape (n,).

    With one variable this is post-stratification; with several, iterative proportional fitting
    [DS40], to 10⁻¹² of each margin.

    Args:
        labels: variable → the label of each person, n of them.
        margins: variable → label → size, a count or a share; the sizes of all variables have one
            sum. Every label that somebody has, and no other, is listed.
        weights: to begin with, > 0, shape (n,); equal by default.

    Raises:
        ParameterError: if a label is missing or unknown, a size is not > 0, or sums differ.
        UnsupportedError: if no weights fit all margins.

    Example:
        >>> margins = {"region": {"north": 3, "south": 3}, "sex": {"f": 4, "m": 2}}
        >>> people = {"region": ["north", "north", "south", "south"], "sex": ["f", "m", "f", "f"]}
        >>> raking_weights(people, margins).round(9).tolist()
        [1.0, 2.0, 1.5, 1.5]
    """
    if not labels or set(labels) != set(margins):
        raise ParameterError("variables of the margins", sorted(margins), f"{sorted(labels)}")
    people = len(np.asarray(next(iter(labels.values()))))
    raked = np.ones(people) if weights is None else _weights(weights, people)
    wanted = [_margin(name, labels[name], margins[name], people) for name in labels]
    total = float(wanted[0][1].sum())
    for name, (_, sizes) in zip(labels, wanted, strict=True):
        if not math.isclose(sizes.sum(), total, rel_tol=1e-6):
            raise ParameterError(f"sum of margins[{name!r}]", float(sizes.sum()), f"{total:g}")
    # As sizes are rounded where they were published, the sum is that of the first.
    wanted = [(codes, sizes * (total / sizes.sum())) for codes, sizes in wanted]
    for _ in range(_MOST_ROUNDS):
        for codes, sizes in wanted:
            raked = raked * (sizes / np.bincount(codes, raked, len(sizes)))[codes]
        if all(_fits(raked, codes, sizes) for codes, sizes in wanted):
            return raked
    raise UnsupportedError(
        "no weights fit all margins: they contradict each other, or nobody has some combination of"
        " labels; join labels"
    )


def margins_from_csv(path: str | Path) -> dict[str, dict[str, float]]:
    r"""Read the sizes of groups from a CSV file with a header.

    Of one variable it has two columns, whose first header names the variable: region,people. Of
    several it has three: variable,label,people. Sizes are counts or shares; in any language, the
    names of the columns are free.

    Raises:
        TableFileError: naming the file, and the line and column where it has something else.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     census = Path(folder, "census.csv")
        ...     _ = census.write_text("region,people\nnorth,700\nsouth,300\n", encoding="utf-8")
        ...     margins_from_csv(census)
        {'region': {'north': 700.0, 'south': 300.0}}
    """
    path = Path(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            return _margins_in(path, csv.reader(stream, strict=True))
    except OSError as error:
        raise TableFileError(path, "it", f"a file that can be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error):
        raise TableFileError(path, "it", "text in UTF-8, separated by commas") from None


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
        weights = _weights(self.design_weights)
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

    def total(self, reports: ArrayLike) -> Quantity:
        """Return Horvitz and Thompson's estimate of the sum over the population.

        Args:
            reports: unbiased answers, shape (n,).
        """
        y = self._numbers("reports", reports)
        return self._estimate("total", float(self.weights @ y), y)

    def mean(self, reports: ArrayLike) -> Quantity:
        """Return Hájek's estimate of the mean over the population, Σwy/Σw."""
        return self._ratio("mean", self._numbers("reports", reports), np.ones(len(self.weights)))

    def ratio(self, reports: ArrayLike, per: ArrayLike) -> Quantity:
        """Return the estimate of a ratio of two totals.

        Args:
            reports: unbiased answers to the question above the line, shape (n,).
            per: to that below, of the same people.

        Raises:
            ParameterError: if the total below the line is not > 0.
        """
        below = self._numbers("per", per)
        if not self.weights @ below > 0:
            raise ParameterError("total of per", float(self.weights @ below), "> 0")
        return self._ratio("ratio", self._numbers("reports", reports), below)

    def means(self, reports: ArrayLike, groups: ArrayLike) -> GroupEstimates:
        """Return the mean within each group of people, with all covariances.

        Args:
            reports: unbiased answers, shape (n,).
            groups: the group of each person.
        """
        y = self._numbers("reports", reports)
        names, codes = _coded("groups", groups, len(y))
        inside = np.eye(len(names))[codes]  # (n, groups)
        sizes = self.weights @ inside
        values = (self.weights * y) @ inside / sizes
        scores = (y[:, None] - values) * inside / sizes
        return GroupEstimates(
            labels=tuple(names),
            values=values,
            covariance=self._covariance(scores),
            n=tuple(np.bincount(codes).tolist()),
            confidence=self.confidence,
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
        validation.choice("method", method, ("bootstrap", "jackknife"))
        validation.require_count("replicates", replicates, 2, 100_000)
        centre = float(statistic(self.weights))
        squares = 0.0
        drawn = self._bootstrap(replicates, seed) if method == "bootstrap" else self._jackknife()
        for factors, share in drawn:
            kept = factors[self._unit] > 0
            squares += share * (float(statistic(self._refitted(factors, kept))) - centre) ** 2
        return self._shown("statistic", centre, math.sqrt(squares))

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

    def _ratio(self, name: str, y: Array, x: Array) -> Quantity:
        below = float(self.weights @ x)
        value = float(self.weights @ y) / below
        return self._estimate(name, value, (y - value * x) / below)

    def _estimate(self, name: str, value: float, scores: Array) -> Quantity:
        error = math.sqrt(float(self._covariance(scores[:, None])[0, 0]))
        return self._shown(name, value, error)

    def _shown(self, name: str, value: float, error: float) -> Quantity:
        from scipy.special import stdtrit

        freedom = len(self._stratum_of_unit) - int(self._stratum_of_unit.max()) - 1
        reach = float(stdtrit(freedom, (1 + self.confidence) / 2)) * error
        return Quantity(
            label=name,
            value=value,
            standard_error=error,
            ci_low=value - reach,
            ci_high=value + reach,
            confidence=self.confidence,
            n=len(self.weights),
            about=(WEIGHTED,),
        )

    def _covariance(self, scores: Array) -> Array:
        """Return the covariance of Σ w·score, shape (m, m), of scores of shape (n, m)."""
        weighted = self.weights[:, None] * self._residuals(scores)
        of_units = _sums(weighted, self._unit, len(self._stratum_of_unit))
        sizes = np.bincount(self._stratum_of_unit)
        means = _sums(of_units, self._stratum_of_unit, len(sizes)) / sizes[:, None]
        off = of_units - means[self._stratum_of_unit]
        return np.asarray((off * (sizes / (sizes - 1))[self._stratum_of_unit][:, None]).T @ off)

    def _residuals(self, scores: Array) -> Array:
        """Return what of scores is not explained by the margins: their sums have no error."""
        if not self.margins:
            return scores
        columns = [
            np.eye(len(names))[codes]
            for name in self.margins
            for names, codes in [_coded(name, self.labels[name], len(scores))]
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

    def _codes(self, name: str) -> Codes:
        return _coded(name, getattr(self, name), len(self.weights))[1]

    def _numbers(self, name: str, given: ArrayLike) -> Array:
        numbers = validation.float_array(given)
        if numbers is None or numbers.shape != self.weights.shape or not np.isfinite(numbers).all():
            raise ParameterError(name, "something else", f"{len(self.weights):,} finite numbers")
        return numbers


def _weights(given: ArrayLike, n: int | None = None) -> Array:
    checked = validation.float_array(given)
    if checked is None or checked.ndim != 1 or len(checked) != (len(checked) if n is None else n):
        raise ParameterError("weights", "something else", f"{n or 'one-dimensional'} numbers > 0")
    if not len(checked) or not (np.isfinite(checked).all() and (checked > 0).all()):
        raise ParameterError("weights", "something else", "at least one, all finite and > 0")
    return checked


def _coded(name: str, labels: ArrayLike, n: int) -> tuple[list[str], Codes]:
    """Return the distinct labels, sorted, and which of them each person has."""
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ParameterError(name, f"labels of shape {given.shape}", f"one for each of {n:,}")
    names, codes = np.unique(given.astype(str), return_inverse=True)
    return names.tolist(), codes


def _margin(
    name: str, labels: ArrayLike, sizes: Mapping[str, float], n: int
) -> tuple[Codes, Array]:
    names, codes = _coded(f"labels of {name!r}", labels, n)
    for label in names:
        if label not in sizes:
            raise ParameterError(f"labels in margins[{name!r}]", sorted(sizes), f"with {label!r}")
    for label, size in sizes.items():
        if label not in names:
            raise ParameterError(
                f"labels in margins[{name!r}]",
                sorted(sizes),
                f"those that somebody has: nobody is {label!r}; join it to another",
            )
        if not (isinstance(size, (int, float)) and math.isfinite(size) and size > 0):
            raise ParameterError(f"margins[{name!r}][{label!r}]", size, "a finite number > 0")
    return codes, np.array([sizes[label] for label in names], np.float64)


def _fits(weights: Array, codes: Codes, sizes: Array) -> bool:
    return bool((abs(np.bincount(codes, weights, len(sizes)) / sizes - 1) <= _FITS).all())


def _sums(rows: Array, codes: Codes, groups: int) -> Array:
    """Return the sums of rows of each group, shape (groups, m)."""
    if len(codes) == groups and (codes == np.arange(groups)).all():
        return rows
    sums = [np.bincount(codes, column, groups) for column in rows.T]
    return np.stack(sums, axis=1).astype(np.float64)


def _margins_in(path: Path, lines: Any) -> dict[str, dict[str, float]]:
    header = [name.strip() for name in next(lines, [])]
    if len(header) not in (2, 3) or not all(header):
        raise TableFileError(
            path,
            "line 1, the header,",
            "two names (region,people) or three (variable,label,people)",
        )
    margins: dict[str, dict[str, float]] = {}
    for line in lines:
        if not line:  # an empty line, as many programs leave at the end
            continue
        where = f"line {lines.line_num}"
        if len(line) != len(header):
            raise TableFileError(path, where, f"of {len(header)} fields, as the header")
        *variable, label, size = (text.strip() for text in line)
        for column, text in zip(header, (*variable, label), strict=False):
            if not text:
                raise TableFileError(path, f"{where}, column {column!r}", "a name")
        of_variable = margins.setdefault(variable[0] if variable else header[0], {})
        if label in of_variable:
            raise TableFileError(
                path, f"{where}, column {header[-2]!r}", f"another label: {label!r} was before"
            )
        of_variable[label] = _size(path, f"{where}, column {header[-1]!r}", size)
    if not margins:
        raise TableFileError(path, "line 2", "the size of a group")
    return margins


def _size(path: Path, where: str, text: str) -> float:
    try:
        size = float(text)
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        raise TableFileError(path, where, "a finite number > 0")
    return size
