"""Shares of options, and cross-tables of two or three separately private fields [MATH §17].

The share of a cell is the mean of a product of operators, one of each field; that of an option is
the mean of its own. All of them are estimated together, with their covariances.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import numpy as np

from geoveil.analyst.contamination import (
    UNSTATED,
    WORST_CASE,
    ResponseRates,
    note_of_invited,
    require_invited,
    worst_case,
)
from geoveil.analyst.relations.by import By, groups_in
from geoveil.analyst.relations.form_reports import (
    FormReports,
    FormStatistic,
    Weights,
    condition_of,
    unasked,
    weights_of,
)
from geoveil.analyst.relations.terms import Term
from geoveil.analyst.results import (
    Answer,
    Result,
    Series,
    chance_words,
    estimated,
    rows_of,
    share_answer,
)
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS
from geoveil.campaign import FormCampaign
from geoveil.gp import Array, ParameterError, kept_within, validation

MOST_CELLS = MOST_QUESTIONS
_NO_SPREAD = 1e-9
"""Variance, relative to the largest, below which an option counts as constant."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellShares(Series):
    """Shares of people in the cells of a table of one to three fields, a dimension for each.

    The values are unbiased, so that they may be below 0; the intervals are separate.
    """

    names: tuple[str, ...]
    """The definitions of rows, columns and layers."""
    labels: tuple[tuple[str, ...], ...]
    """The options or parts of each."""

    @property
    def cells(self) -> dict[str, Any]:
        """The columns of rows, with one for each cell."""
        named = dict(zip(self.names, zip(*product(*self.labels), strict=True), strict=True))
        numbers = (self.values, self.standard_errors, self.low, self.high)
        return named | estimated(*(column.ravel() for column in numbers))

    def rows(self) -> list[dict[str, Any]]:
        return rows_of(self.cells)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShareTable(CellShares):
    """The shares of the people in the cells of a table."""

    coverage = (
        "Each interval covers at {of.percent} by itself; all bands together cover at {of.percent}."
    )
    band_low: Array
    """Simultaneous intervals of all shares."""
    band_high: Array
    margins: tuple[Array, ...]
    """The share of each option of each field."""
    joint: JointEstimates = field(repr=False)
    """The estimates of the cells, in order, then of the options of each field and of the cells of
    each pair of three fields."""
    test: tuple[float, int, float] | None
    """χ² for independence, its degrees of freedom and the p value; None for one field."""
    invited: int | None = None
    """The people who were invited; None if that is not stated."""

    @property
    def title(self) -> str:
        return f"Shares by {' and '.join(self.names)}, from {self.n:,} reports"

    @property
    def sentences(self) -> Sequence[Answer]:
        if self.values.ndim > 1:
            return self._of_test()
        columns = (of.tolist() for of in (self.values, self.low, self.high))
        return [
            share_answer(value, low, high, f"of people have {self.names[0]} “{label}”")
            for label, value, low, high in zip(self.labels[0], *columns, strict=True)
        ]

    def _of_test(self) -> Sequence[Answer]:
        if self.test is None or math.isnan(self.test[2]):
            return ()
        p, names = self.test[2], " and ".join(self.names)
        rest = f"if {names} were independent, for a table as uneven as this"
        return (Answer(p, chance_words(p), "", rest),)

    @property
    def notes(self) -> Sequence[str]:
        tested: tuple[str, ...] = ()
        if self.test is not None:
            square, freedom, p = self.test
            tested = (
                f"Test of independence: χ² = {square:.4g} with {freedom:,} degrees of freedom,"
                f" p = {p:.3g}; Pearson's, with the noise of privacy in its variances.",
            )
        return (
            *super().notes,
            *tested,
            UNSTATED if self.invited is None else note_of_invited(self.n, self.invited),
        )

    def rows(self) -> list[dict[str, Any]]:
        columns = self.cells | {
            "band_low": self.band_low.ravel(),
            "band_high": self.band_high.ravel(),
        }
        if self.invited is not None:
            ends = zip(columns["ci_low"], columns["ci_high"], strict=True)
            worst = [worst_case(*pair, self.n, self.invited, (0.0, 1.0)) for pair in ends]
            columns |= dict(zip(WORST_CASE, np.array(worst).T, strict=True))
        if len(self.names) > 1:
            shares = {f"share of {of}": self._given(k) for k, of in enumerate(self.names)}
            columns |= {name: given.ravel() for name, given in shares.items()}
        return rows_of(columns)

    def among_invited(self, invited: int) -> "ShareTable":
        """Return the table with worst-case intervals for the shares of everybody invited.

        Raises:
            ParameterError: if fewer were invited than answered, or reports have weights, which
                already stand for people who did not answer.
        """
        self._require_unweighted()
        require_invited(self.n, invited)
        return replace(self, invited=invited)

    def response(self, invited: Mapping[str, int]) -> ResponseRates:
        """Return the rate at which the people of each group answered, for a table of one field.

        Args:
            invited: group → the number of its people who were asked to take part.

        Raises:
            ParameterError: if it is a table of several fields, reports have weights, or `invited`
                does not name each group once.
        """
        self._require_unweighted()
        (name, *others), groups = self.names, self.labels[0]
        if others or set(invited) != set(groups):
            expected = f"a number for each group, of a table of one field: {', '.join(groups)}"
            raise ParameterError("invited", ", ".join(invited), expected)
        for group in groups:
            validation.require_count(f"invited: {group}", invited[group])
        counts = self.n * np.stack([self.values, self.band_low, self.band_high])
        return ResponseRates(
            name=name,
            invited=dict(invited),
            answered=dict(zip(groups, map(tuple, counts.T.tolist()), strict=True)),
            confidence=self.confidence,
        )

    def _require_unweighted(self) -> None:
        if self.joint.answers != (self.n,) * len(self.joint.labels):
            expected = "left out with weights, which stand for people who did not answer"
            raise ParameterError("invited", "given", expected)

    def _given(self, axis: int) -> Array:
        others = [k for k in range(len(self.names)) if k != axis]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.values / np.expand_dims(self.margins[axis], others))

    def given(self, name: str) -> "SharesGiven":
        """Return the shares among the people of each option of a field, with intervals.

        Of a table of two fields these are row shares, given the first, or column shares.
        """
        if name not in self.names or len(self.names) == 1:
            raise ParameterError(
                "name", name, f"one of {self.names}, for a table of several fields"
            )
        axis = self.names.index(name)
        first = self.values.size + sum(map(len, self.labels[:axis]))
        ends = np.empty((3, *self.values.shape))
        for cell, place in enumerate(np.ndindex(self.values.shape)):
            ratio = self.joint.ratio(cell, first + place[axis])
            low, high = kept_within(ratio.ci_low, ratio.ci_high, (0.0, 1.0))
            ends[:, *place] = low, high, ratio.standard_error
        return SharesGiven(
            names=self.names,
            labels=self.labels,
            name=name,
            values=self._given(axis),
            standard_errors=ends[2],
            low=ends[0],
            high=ends[1],
            **self.common,
        )

    @property
    def row_shares(self) -> "SharesGiven":
        """The shares among the people of each row."""
        return self.given(self.names[0])

    @property
    def column_shares(self) -> "SharesGiven":
        """The shares among the people of each column."""
        return self.given(self.names[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class SharesGiven(CellShares):
    """The shares of cells among the people of each option of a field."""

    coverage = (
        "Each interval covers at {of.percent} by itself; it is Fieller's, and goes from 0 to 1"
        " where a group may be empty. Standard errors come from the delta method."
    )
    name: str
    """The field."""

    @property
    def title(self) -> str:
        return f"Shares within each {self.name}, from {self.n:,} reports"


@dataclass(frozen=True)
class CrossTable(FormStatistic[ShareTable]):
    """The shares of the people in the cells of a table, with a test of independence.

    It has at most 900 cells.
    """

    a: By
    """The rows: the name of a field with options, or parts of a number or a place."""
    b: By
    """The columns."""
    c: By | None = None
    """The layers, if there are any."""

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> ShareTable:
        by = [self.a, self.b] if self.c is None else [self.a, self.b, self.c]
        return _table(reports, by, confidence, weights)


@dataclass(frozen=True)
class Shares(FormStatistic[ShareTable]):
    """The shares of the people who chose each option, or are in each part, with a joint band."""

    by: By

    def of(self, reports: FormReports, confidence: float, weights: Weights) -> ShareTable:
        return _table(reports, [self.by], confidence, weights)


def _table(
    reports: FormReports, by: Sequence[By], confidence: float, weights: Weights
) -> ShareTable:
    grouped = [groups_in(reports.campaign, of) for of in by]
    names = tuple(name for name, _ in grouped)
    of_fields = [{term.field for term in groups.values()} for _, groups in grouped]
    if any(a & b for a, b in combinations(of_fields, 2)):
        raise ParameterError("fields", names, "different ones")
    shape = tuple(len(groups) for _, groups in grouped)
    validation.require_count("number of cells", math.prod(shape), 1, MOST_CELLS)
    every = tuple(range(len(shape)))
    parts = [f for size in range(1, len(shape)) for f in combinations(every, size)]
    products = dict(
        each
        for fields in (every, *parts)
        for each in _products(reports.campaign, [grouped[k] for k in fields], whole=fields == every)
    )
    joint = reports.joint(products, confidence, weights)
    sizes = [math.prod(shape[k] for k in fields) for fields in (every, *parts)]
    means = dict(zip((every, *parts), np.split(joint.values, np.cumsum(sizes)[:-1]), strict=True))
    means = {fields: of.reshape([shape[k] for k in fields]) for fields, of in means.items()}
    count = math.prod(shape)
    cells = joint.combined(np.eye(count, len(products)), joint.labels[:count], joint.limits[:count])
    ends = [end.reshape(shape) for end in (*cells.intervals(), *cells.band())]
    return ShareTable(
        names=names,
        labels=tuple(tuple(groups) for _, groups in grouped),
        values=means[every],
        standard_errors=cells.standard_errors.reshape(shape),
        low=ends[0],
        high=ends[1],
        band_low=ends[2],
        band_high=ends[3],
        margins=tuple(means[k,] for k in every),
        joint=joint,
        confidence=confidence,
        n=reports.n,
        test=None if not parts else _test(reports, joint, means, weights),
    )


def _products(
    campaign: FormCampaign, grouped: Sequence[tuple[str, Mapping[str, Term]]], *, whole: bool
) -> Iterator[tuple[str, list[Term]]]:
    """Yield the name and the functions of each cell of a table, or of a part of its fields."""
    for cell in product(*(groups.items() for _, groups in grouped)):
        text, terms = " × ".join(label for label, _ in cell), [term for _, term in cell]
        if whole:
            yield text, terms
            continue
        conditions = [
            of for term in unasked(campaign, terms) for of in condition_of(campaign, term)
        ]
        yield f"{text} of {' × '.join(name for name, _ in grouped)}", [*terms, *conditions]


def _test(
    reports: FormReports,
    joint: JointEstimates,
    means: Mapping[tuple[int, ...], Array],
    weights: Weights,
) -> tuple[float, int, float]:
    """Return χ² of independence, its degrees of freedom and the p value.

    Where fields are independent, so are their pseudo-values, and the covariance of central products
    of several fields is the product of the fields' covariances. Of values in the clear the sum is
    Pearson's χ², by Lancaster's partition.
    """
    from scipy.special import chdtrc

    w = weights_of(reports, weights)
    every = max(means, key=len)
    people, start, roots = float(w.sum() ** 2 / (w @ w)), means[every].size, []
    for k in every:
        block = slice(start, start := start + means[k,].size)
        # Of single people, from that of means.
        covariance = joint.covariance[block, block] * people * (reports.n - 1) / reports.n
        roots.append(_root(covariance[:-1, :-1]))
    total, freedom = 0.0, 0
    for fields in means:
        if len(fields) > 1:
            central = _central(means, fields)[(slice(-1),) * len(fields)]
            for k in fields:  # the first axis goes last, so that all come around
                central = np.tensordot(central, roots[k], axes=(0, 0))
            total += float((central**2).sum())
            freedom += central.size
    square = total * people
    return square, freedom, float(chdtrc(freedom, square)) if freedom else math.nan


def _central(means: Mapping[tuple[int, ...], Array], fields: tuple[int, ...]) -> Array:
    """Return the mean products of deviations from the means of each field."""
    central = np.zeros(means[fields].shape)
    for size in range(len(fields) + 1):
        for kept in combinations(fields, size):
            factor: Array = means[kept] if kept else np.ones(())
            factor = np.expand_dims(factor, [i for i, k in enumerate(fields) if k not in kept])
            for i, k in enumerate(fields):
                if k not in kept:
                    others = [j for j in range(len(fields)) if j != i]
                    factor = factor * -np.expand_dims(means[k,], others)
            central = central + factor
    return central


def _root(covariance: Array) -> Array:
    """Return R with R Rᵀ the inverse of a covariance, (m, r), without constant directions."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > _NO_SPREAD * max(float(values[-1]), 0.0) if len(values) else values > 0
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def with_invited(results: Sequence[Result], invited: str) -> Iterator[Result]:
    """Yield tables with worst cases, or with response rates.

    Args:
        invited: the number of people who were invited, or that of each option: OPTION=N,...

    Raises:
        ParameterError: if it is neither, or a result is no table of shares.
    """
    parts = [part.partition("=") for part in invited.split(",")]
    by_group = parts[0][1] == "="
    try:
        counts = {name.strip(): int(count if by_group else name) for name, _, count in parts}
    except ValueError:
        counts = {}
    if len(counts) < len(parts) or (len(parts) > 1 and not by_group):
        raise ParameterError("invited", invited, "a whole number, or OPTION=N,...")
    for result in results:
        if not isinstance(result, ShareTable):
            raise ParameterError("invited", invited, "given with --shares or --table only")
        if by_group:
            yield from (result, result.response(counts))
        else:
            yield result.among_invited(*counts.values())
