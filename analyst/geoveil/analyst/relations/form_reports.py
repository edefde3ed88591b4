"""Reports of a form: read them, estimate relations between fields, and hand them on."""

import csv
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from geoveil.analyst.relations.terms import (
    Columns,
    Coordinate,
    NumberOf,
    Operator,
    Option,
    Score,
    Term,
    limits_of_product,
    operators,
)
from geoveil.analyst.results import Result
from geoveil.analyst.statistics.joint import JointEstimates
from geoveil.analyst.statistics.report_files import ReportRows, campaign_in, rows_in
from geoveil.analyst.statistics.reports import Reports
from geoveil.analyst.statistics.statistic import period_of
from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import (
    Campaign,
    CategoryField,
    ChoiceField,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    PlaceField,
    decode,
)
from geoveil.gp import Array, ParameterError, UnaryEncoding, needed_for, validation

Found = TypeVar("Found", bound=Result)
Weights: TypeAlias = ArrayLike | None
"""How many people of the population each person stands for; None for a simple random sample."""

AT_ONCE = 1 << 22
"""The most pseudo-values held in memory at once."""


@dataclass(frozen=True, eq=False)
class FormReports:
    """The reports of a form: one perturbed answer to every field from each person."""

    campaign: FormCampaign
    columns: Columns
    """The integers of the reports, (n, columns of the campaign)."""

    def __post_init__(self) -> None:
        columns = np.asarray(self.columns)
        if columns.ndim != 2 or columns.shape[1] != self.campaign.columns or len(columns) < 2:
            permitted = f"integers of shape (n, {self.campaign.columns}), n at least 2"
            raise ParameterError("columns", f"shape {columns.shape}", permitted)
        if columns.dtype != np.int64:
            raise ParameterError("columns", str(columns.dtype), "integers of 64 bits")

    @property
    def n(self) -> int:
        """The number of people who answered."""
        return len(self.columns)

    def ask(
        self,
        statistic: "FormStatistic[Found]",
        confidence: float = 0.95,
        weights: Weights = None,
    ) -> Found:
        """Return what the reports say.

        Args:
            confidence: of intervals, in (0, 1).
            weights: how many people of the population each person stands for, > 0, (n,); None: the
                people are a simple random sample.

        Raises:
            GeoVeilError: if the statistic can't be estimated from such a form.
        """
        return statistic.of(self, confidence, weights)

    def of(self, name: str) -> Reports:
        """Return the reports of a number or place field, which answer any statistic."""
        refuse_unasked(self.campaign, [NumberOf(name)])
        columns = tuple(column for column in self.columns[:, self.campaign.columns_of(name)].T)
        rows = ReportRows(np.zeros(self.n, np.uint32), None, columns)
        return Reports(self.campaign.campaign_of(name), lambda: iter([rows]))

    def gathered(self, number: str, fields: Iterable[str]) -> tuple["FormReports", Array]:
        """Return distinct reports in some fields, and the count of each.

        Numbers are first rounded to 1/256 of their noise scale, which moves means of functions
        that vary over the noise scale by about a millionth.

        Args:
            number: the name of a number field.
            fields: the names of the others.
        """
        of: Any = self.campaign.field(number)
        (column,) = range(self.campaign.columns)[self.campaign.columns_of(number)]
        unit = max(int(of.noise_scale / of.mechanism.step) >> 8, 1)
        columns = self.columns.copy()
        columns[:, column] = (columns[:, column] + unit // 2) // unit * unit
        key = np.zeros(self.n, np.int64)
        for name in (number, *fields):
            for values in columns[:, self.campaign.columns_of(name)].T:
                distinct, codes = np.unique(values, return_inverse=True)
                key = np.unique(key * len(distinct) + codes, return_inverse=True)[1]
        _, first, many = np.unique(key, return_index=True, return_counts=True)
        return replace(self, columns=columns[first]), many.astype(np.float64)

    def pseudo_values(self, products: Sequence[Sequence[Term]], sums: Array | None = None) -> Array:
        """Return the pseudo-values of each report, (n, m).

        Args:
            products: of functions of fields, m of them.
            sums: weights (m, k) of sums of these, which are returned in their place, (n, k).
        """
        blocks = (block for _, block in _blocks(self, _factors(self.campaign, products)))
        return np.concatenate([block if sums is None else block @ sums for block in blocks])

    def joint(
        self,
        products: Mapping[str, Sequence[Term]],
        confidence: float = 0.95,
        weights: Weights = None,
        alike: Array | None = None,
    ) -> JointEstimates:
        """Return unbiased estimates of the means of products of functions, with all covariances.

        Args:
            products: name → functions of fields.
            confidence: of intervals, in (0, 1).
            weights: as of `ask`.
            alike: how many people sent each report; None if one.
        """
        w = weights_of(self, weights)
        many = np.ones(self.n) if alike is None else alike
        factors = _factors(self.campaign, list(products.values()))
        sums = _Sums(len(products))
        for part, block in _blocks(self, factors):
            sums.add(w[part], block, many[part])
        return JointEstimates(
            labels=tuple(products),
            values=sums.means,
            covariance=sums.covariance,
            n=sums.n,
            answers=(counting(w, many),) * len(products),
            confidence=confidence,
            limits=tuple(limits_of_product([of for _, of in row]) for row in factors),
        )


class FormStatistic(ABC, Generic[Found]):
    """A statistic of several fields of a form."""

    @abstractmethod
    def of(self, reports: FormReports, confidence: float, weights: Weights) -> Found:
        """Return the result for reports: see `FormReports.ask`."""


def weights_of(reports: FormReports, weights: Weights) -> Array:
    """Return weights, (n,), or equal ones for None; an error shows no weight."""
    if weights is None:
        return np.ones(reports.n)
    checked = validation.float_array(weights)
    if checked is None or checked.shape != (reports.n,):
        raise ParameterError("weights", "something else", f"{reports.n} numbers > 0")
    if not (np.isfinite(checked).all() and (checked > 0).all()):
        raise ParameterError("weights", "something else", "all finite and > 0")
    return checked


def counting(weights: Array, many: Array | float = 1.0) -> int:
    """Return the sum of weights over the heaviest one, at least 2."""
    return max(int((weights * many).sum() / weights.max() * (1 + 1e-12)), 2)


Factors: TypeAlias = list[list[tuple[slice, Operator]]]
"""The columns and operators of each product, one for each field."""


def _factors(campaign: FormCampaign, products: Sequence[Sequence[Term]]) -> Factors:
    """Return the operators of products; equal functions of a field share one object."""
    made: dict[tuple[int, ...], tuple[slice, Operator]] = {}
    rows: Factors = []
    for terms in products:
        refuse_unasked(campaign, terms)
        row = []
        for field in dict.fromkeys(term.field for term in terms):
            of_field = [term for term in terms if term.field == field]
            key = tuple(map(id, of_field))
            if key not in made:
                (made[key],) = operators(campaign, of_field)
            row.append(made[key])
        rows.append(row)
    return rows


def refuse_unasked(campaign: FormCampaign, terms: Sequence[Term]) -> None:
    """Refuse a product that counts answers of people to whom the field does not apply."""
    for term in unasked(campaign, terms):
        condition = campaign.field(term.field).applies
        assert condition is not None
        who = " or ".join(condition.options)
        expected = f"asked of those with {condition.field}: {who}, by group or as a product"
        raise ParameterError("field", term.field, expected)


def unasked(campaign: FormCampaign, terms: Sequence[Term]) -> list[Term]:
    """Return the functions of fields that are asked of some, as no other function decides."""
    names = {term.field for term in terms}
    # Of choices, not to be asked is an option.
    kinds = {name: campaign.field(name) for name in names}
    conditional = {
        name
        for name, kind in kinds.items()
        if kind.applies is not None and not isinstance(kind, ChoiceField | MultipleField)
        if kind.applies.field not in names
    }
    return [term for term in terms if term.field in conditional]


def condition_of(campaign: FormCampaign, term: Term) -> list[Term]:
    """Return the functions that are 1 for people to whom a field applies; [] for everybody."""
    condition = campaign.field(term.field).applies
    if condition is None:
        return []
    decides = campaign.field(condition.field)
    chosen = [float(option in condition.options) for option in decides.attribute_options]
    return [Score(condition.field, chosen)]


def _blocks(reports: FormReports, factors: Factors) -> Iterator[tuple[slice, Array]]:
    """Yield slices of people, and their pseudo-values, (people, m)."""
    distinct = {id(factor): factor for row in factors for factor in row}
    rows = max(AT_ONCE // (len(factors) + len(distinct)), 1)
    for start in range(0, reports.n, rows):
        part = slice(start, start + rows)
        of_part = reports.columns[part]
        values = {key: of.value(of_part[:, at]) for key, (at, of) in distinct.items()}
        columns = [math.prod(values[id(factor)] for factor in row) for row in factors]
        yield part, np.stack(columns, axis=1)


class _Sums:
    """Weighted sums of pseudo-values and of their products."""

    def __init__(self, m: int) -> None:
        self._center: Array | None = None
        """The mean of the first people, the centre of the products."""
        self.n = 0
        self._weight = self._square = 0.0
        self._total, self._of_squares, self._products = np.zeros(m), np.zeros(m), np.zeros((m, m))

    def add(self, weights: Array, values: Array, many: Array) -> None:
        """Add rows: their weights (n,), values (n, m), and how many people each stands for (n,)."""
        center = values.mean(axis=0) if self._center is None else self._center
        self._center = center
        weighted = (values - center) * weights[:, None]
        self.n += int(many.sum())
        self._weight += float(many @ weights)
        self._square += float(many @ weights**2)
        self._total += many @ weighted
        self._of_squares += (many * weights) @ weighted
        self._products += (weighted * many[:, None]).T @ weighted

    @property
    def means(self) -> Array:
        assert self._center is not None
        return np.asarray(self._center + self._total / self._weight)

    @property
    def covariance(self) -> Array:
        """The covariance of the means, as if people were drawn with replacement."""
        moved = self._total / self._weight
        crossed = np.outer(self._of_squares, moved)
        about = self._products - crossed - crossed.T + self._square * np.outer(moved, moved)
        return np.asarray(about / self._weight**2 * (self.n / (self.n - 1)))


def form_reports_of(
    source: "str | os.PathLike[str] | Iterable[bytes | ReportRows]", period: int | None = None
) -> FormReports:
    """Return the reports of a form, all of them in memory.

    Args:
        source: a Parquet file of `geoveil campaign export`, or what `Analyst.export` yields.
        period: of a form that recurs, from 0.

    Raises:
        ParameterError: if it holds no reports of a form, or fewer than two.
    """
    campaign: Campaign | None = None
    parts: Iterable[bytes | ReportRows] = ()
    if isinstance(source, (str, os.PathLike)):
        campaign = campaign_in(Path(source))
        parts = rows_in(Path(source), campaign.labels)
    elif isinstance(source, Iterable):
        parts = source
    rows = []
    for part in parts:
        if isinstance(part, ReportRows):
            rows.append(part)
        else:
            campaign = decode(part)
    if not isinstance(campaign, FormCampaign):
        held = None if campaign is None else campaign.campaign_id
        raise ParameterError("source", held, "reports of a form; others are read by reports_of")
    of = period_of(campaign, period)
    columns = [np.stack(part.columns, axis=1)[part.periods == of] for part in rows]
    return FormReports(
        campaign, np.concatenate([np.empty((0, campaign.columns), np.int64), *columns])
    )


_BITS = 62
"""Options in each integer of a report with a bit for each option."""


def write_answers(reports: FormReports, file: Path) -> None:
    """Write reports to a CSV file in the format of XLSForm, with a column for each field.

    A place is "latitude longitude 0 0", and several options are separated by spaces. Answers are as
    devices sent them: they contain noise, and counts of options are not those of people.

    Args:
        file: is replaced whole.

    Raises:
        ParameterError: if it can't be written.
    """
    campaign = reports.campaign
    columns = [
        _cells(field, reports.columns[:, campaign.columns_of(field.name)])
        for field in campaign.fields
    ]
    with (
        whole_file("out", file) as beside,
        beside.open("w", newline="", encoding="utf-8") as stream,
    ):
        table = csv.writer(stream)
        table.writerow([field.name for field in campaign.fields])
        table.writerows(zip(*columns, strict=True))


def _cells(field: Field, part: Columns) -> Iterator[str]:
    if isinstance(field, NumberField):
        values, scale = part[:, 0] * field.mechanism.step, field.attribute.scale
        return map(repr, (values if scale is None else scale.from_log(values)).tolist())
    if isinstance(field, PlaceField):
        plane = field.attribute.coordinates
        assert plane is not None
        places = plane.unproject(part * field.mechanism.step)
        return (f"{lat:.7f} {lon:.7f} 0 0" for lon, lat in places.tolist())
    assert isinstance(field, CategoryField)
    options = np.array(field.options)
    if isinstance(field, MultipleField) or isinstance(field.mechanism, UnaryEncoding):
        bits = np.concatenate([of[:, None] >> np.arange(_BITS) & 1 for of in part.T], axis=1)
        return (" ".join(options[np.flatnonzero(row[: len(options)])]) for row in bits)
    return iter(options[part[:, 0]].tolist())


if TYPE_CHECKING:
    import pandas


def contributions(
    reports: FormReports,
    terms: Mapping[str, Sequence[Term] | Term] | Sequence[Term] | None = None,
    *,
    products: bool = False,
) -> "pandas.DataFrame":
    """Return each report's unbiased, noisy contributions, a row for each person.

    A mean of a column, with any survey weights, is an unbiased estimate of that of the function of
    people's values; a product of columns of different fields is as unbiased. A square of a column
    is not, nor a product of two columns of one field: name both in one product instead.

    Args:
        terms: functions of fields, or column → functions that are multiplied; by default the number
            of each number field, both coordinates of each place, and each option of the others.
        products: also a column `a * b` of every two columns, and of each with itself.

    Raises:
        UnsupportedError: if pandas is not installed.
    """
    with needed_for("a data frame"):
        import pandas as pd
    if terms is None:
        terms = dict(_all(reports.campaign))
    if not isinstance(terms, Mapping):
        terms = {term.text: term for term in validation.items("terms", terms, Term)}
    columns = {
        name: [of] if isinstance(of, Term) else list(validation.items(f"terms[{name!r}]", of, Term))
        for name, of in terms.items()
    }
    if products:
        pairs = list(combinations_with_replacement(columns.items(), 2))
        columns |= {f"{a} * {b}": [*of_a, *of_b] for (a, of_a), (b, of_b) in pairs}
    return pd.DataFrame(reports.pseudo_values(list(columns.values())), columns=list(columns))


def _all(campaign: FormCampaign) -> Iterator[tuple[str, Sequence[Term]]]:
    """Yield the column of a function of every field, or of several.

    A number counts as 0 for people who are not asked for it: dividing its mean by that of the
    answers that decide who is asked gives the mean of those who are.
    """
    for of in campaign.fields:
        terms: list[Term] = []
        if isinstance(of, NumberField):
            terms = [NumberOf(of.name)]
        elif isinstance(of, PlaceField):
            terms = [Coordinate(of.name, 0), Coordinate(of.name, 1)]
        elif isinstance(of, CategoryField):
            terms = [Option(of.name, option) for option in of.options]
        for term in terms:
            yield term.text, [term, *condition_of(campaign, term)]
