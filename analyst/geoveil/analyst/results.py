"""The common interface of results: sentences, rows, pandas, JSON and notebooks.

A result states its numbers once, in `rows`, and the facts needed to read them once, in `notes`. An
answer states one of them in a sentence: a number with its unit and interval, then its meaning.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from geoveil.analyst.pictures import Axes, draw_intervals
from geoveil.campaign import Attribute, digits
from geoveil.gp import (
    Array,
    GeoPrivacy,
    LogScale,
    Query,
    Range,
    SoftIndicator,
    Threshold,
    UnsupportedError,
    needed_for,
)

_SIGNS = MappingProxyType({"dollar": "$", "euro": "€", "pound": "£"})
"""Name of a currency → the sign before its amounts."""
_LEAST_P = 0.001


@dataclass(frozen=True, slots=True)
class Answer:
    """A result in one sentence, shown before its details.

    Example:
        >>> print(Answer(0.495, "49.5 %", "48.8 to 50.3", "of people are left-handed"))
        49.5 % (48.8 to 50.3) of people are left-handed.
    """

    exact: float | None
    """The number as programs read it; None if there is none."""
    number: str
    """The number with its unit, rounded to its error."""
    interval: str
    """The two ends of its interval; empty if there is none."""
    rest: str
    """The end of the sentence, without a full stop."""

    def __str__(self) -> str:
        ends = f"({self.interval})" if self.interval else ""
        return " ".join(filter(None, (self.number, ends, self.rest))) + "."


def share_answer(value: float, low: float | None, high: float | None, rest: str) -> Answer:
    """Return a share of people as an answer in per cent.

    Example:
        >>> print(share_answer(0.4951, 0.4877, 0.5026, "of people cycle"))
        49.5 % (48.8 to 50.3) of people cycle.
    """

    def cent(x: float) -> float:
        return 100 * min(max(x, 0.0), 1.0)

    number, ends = _rounded(cent(value), low and cent(low), high and cent(high))
    return Answer(value, f"{number} %", " to ".join(ends), rest)


def amount_answer(
    value: float, low: float | None, high: float | None, unit: str, rest: str
) -> Answer:
    """Return an amount as an answer.

    Example:
        >>> print(amount_answer(59_754.0, 58_542.0, 61_037.0, "dollar", "is the median income"))
        $59,800 ($58,500 to $61,000) is the median income.
        >>> print(amount_answer(34.2, None, None, "year", "is the mean age"))
        34.2 years is the mean age.
    """
    number, ends = _rounded(value, low, high)
    sign = _SIGNS.get(unit, "")
    return Answer(value, measured(number, unit), " to ".join(sign + end for end in ends), rest)


def measured(number: str, unit: str) -> str:
    """Return an amount with its unit: the sign of a currency before it, other units after it.

    Example:
        >>> measured("100,000", "dollar"), measured("34", "year"), measured("2", "kg")
        ('$100,000', '34 years', '2 kg')
    """
    if unit in _SIGNS:
        return (_SIGNS[unit] + number).replace(f"{_SIGNS[unit]}-", f"−{_SIGNS[unit]}")
    is_word = unit.isalpha() and unit.islower() and len(unit) > 3 and unit[-1] != "s"
    return f"{number} {unit}{'s' if is_word and number != '1' else ''}".rstrip()


def counted(number: int, noun: str) -> str:
    """Return a number of things in words.

    Example:
        >>> counted(1, "trend"), counted(2_000, "trend")
        ('1 trend', '2,000 trends')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def chance_words(p: float) -> str:
    """Return the p value of a test in words.

    Example:
        >>> chance_words(0.0412), chance_words(3e-9)
        ('p = 0.041', 'p < 0.001')
    """
    return f"p < {_LEAST_P}" if p < _LEAST_P else f"p = {p:.2g}"


@singledispatch
def of_people(query: Query, label: str, attribute: Attribute, about: str) -> str:
    """Return the end of a sentence that says which people a share counts.

    Args:
        about: "about " where its edge is soft; empty where it is sharp.
    """
    return f"is the mean of “{label}”"


@of_people.register(SoftIndicator)
def _(query: SoftIndicator, label: str, attribute: Attribute, about: str) -> str:
    return f"of people have {_one(attribute.name)} {about}within “{label}”"


@of_people.register
def _(query: Threshold, label: str, attribute: Attribute, about: str) -> str:
    return f"of people have {_one(attribute.name)} of more than {about}{_edge(query.at, attribute)}"


@of_people.register
def _(query: Range, label: str, attribute: Attribute, about: str) -> str:
    low, high = _edge(query.low, attribute), _edge(query.high, attribute)
    return f"of people have {_one(attribute.name)} between {about}{low} and {high}"


def _edge(coordinate: float, attribute: Attribute) -> str:
    if attribute.scale is not None:
        coordinate = float(attribute.scale.from_log(coordinate))
    return measured(digits(float(f"{coordinate:.12g}")), attribute.value_unit)


def _one(name: str) -> str:
    """Return a name with its article, or without one if it is a plural."""
    if name.endswith("s"):
        return name
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _rounded(value: float, low: float | None, high: float | None) -> tuple[str, list[str]]:
    """Return a number and the ends of its interval, rounded to the first digit of the error."""
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    length = ends[1] - ends[0] if len(ends) == 2 else 0.0
    size = length / 4 if length > 0 else abs(value) / 100
    places = -math.floor(math.log10(size)) if size > 0 else 0
    shown = [digits(round(x, places)) for x in (value, *ends)]
    if places > 0:
        shown = [f"{x:z,.{places}f}" for x in (value, *ends)]
    return shown[0], shown[1:] if len(ends) == 2 else []


if TYPE_CHECKING:
    import geopandas
    import pandas


POPULATION = (
    "Estimates are for the population of which the participants are a random sample; errors "
    "include the noise of privacy and the sampling."
)
_INTERVALS = {
    "ci": "interval",
    "hard_share": "hard_share_interval",
    "cohort": "cohort_interval",
    "any_crowd": "any_crowd_interval",
    "worst_case": "worst_case_interval",
}
"""Beginning of columns "…_low" and "…_high" → the name of the cell with both ends."""
SMOOTH = "smooth at b"
"""The target of an interval for people blurred by a few noise scales."""
ANY_CROWD = "any_crowd_low", "any_crowd_high"
"""Columns of an interval for the values themselves, valid however people crowd."""
_LEAST = 1e-12
"""The number below which an exponent is used."""
_MOST_ROWS = 30
"""The most printed rows."""
_MEASURED = ("estimate", "standard_error", "hard_share", "cohort")
"""Columns rounded to the standard error, like intervals."""
_P_VALUES = "p", "p_value", "p_adjusted", "p_line"
"""Columns of p values."""
_LEAST_P_IN_TABLES = 0.0001
"""The number below which a table gives no p value: it has four decimals."""
_UNCUT = "uncut"
"""The column of estimates before clamping to possible values, which no table shows."""


class Result(ABC):
    """Numbers in rows, with sentences that explain them.

    Example:
        >>> class Shares(Result):
        ...     title = "Two shares"
        ...     notes = ("Both are of the population.",)
        ...     def rows(self):
        ...         return [{"name": "low", "estimate": 0.25}, {"name": "high", "estimate": 0.75}]
        >>> Shares().to_dict()["rows"][1]
        {'name': 'high', 'estimate': 0.75}
    """

    @property
    @abstractmethod
    def title(self) -> str:
        """The subject of the rows, in a few words."""

    @property
    @abstractmethod
    def notes(self) -> Sequence[str]:
        """Sentences on the population, on the target of intervals, and on assumptions."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary per row, all with the same keys, of text, numbers, bools and None."""

    @property
    def sentences(self) -> Sequence[Answer]:
        """The answers in a sentence each, with unit and interval, to read first."""
        return ()

    def held(self, scale: LogScale) -> Self:
        """Return a result about logarithms in people's values."""
        return self

    @property
    def axis_label(self) -> str:
        """The caption of its picture, which explains dots, lines and population."""
        return "estimate and interval, of the population"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values: title, rows and notes; numbers without a value are None."""
        rows = [{key: finite(value) for key, value in row.items()} for row in self.rows()]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the rows as a data frame; the notes are in its `attrs`.

        Raises:
            UnsupportedError: if pandas is not installed.
        """
        with needed_for("a data frame"):
            import pandas as pd
        frame = pd.DataFrame(self.rows())
        frame.attrs |= {"title": self.title, "notes": list(self.notes)}
        return frame

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result, in new axes unless some are given, and return them.

        Raises:
            UnsupportedError: if a result of this kind has no picture, or matplotlib is missing.
        """
        rows = self.rows()
        if not rows or not {"estimate", "ci_low", "ci_high"} <= rows[0].keys():
            raise UnsupportedError(f"{self.title} has no picture: its rows say all of it")
        return draw_intervals(ax, self.title, rows, self.axis_label)

    def __str__(self) -> str:
        """Return title, table and notes as text; a long table shows its first rows."""
        rows = self.rows()
        table = [cells(row) for row in rows[:_MOST_ROWS]]
        heads = {key: key.replace("_", " ") for key in (table[0] if table else ())}
        widths = [max(len(row[key]) for row in (heads, *table)) for key in heads]
        lines = []
        for row in (heads, *table) if table else ():
            # The first column names the row, and the others are numbers.
            (name, width), *numbers = zip(row.values(), widths, strict=True)
            padded = [name.ljust(width), *(text.rjust(width) for text, width in numbers)]
            lines.append("  ".join(padded).rstrip())
        if len(rows) > _MOST_ROWS:
            lines.append(f"… and {len(rows) - _MOST_ROWS:,} rows more")
        return "\n".join([*map(str, self.sentences), self.title, *lines, *self.notes])

    def _repr_html_(self) -> str:
        rows = [cells(row) for row in self.rows()]
        heads = "".join(
            f"<th>{escape(key.replace('_', ' '))}</th>" for key in (rows[0] if rows else ())
        )
        lines = "".join(
            "<tr>" + "".join(f"<td>{escape(value)}</td>" for value in row.values()) + "</tr>"
            for row in rows
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<table><caption>{escape(self.title)}</caption><thead><tr>{heads}</tr></thead>"
            f"<tbody>{lines}</tbody></table>{notes}"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates(Result):
    """Estimates at one confidence from the reports of people."""

    coverage: ClassVar[str] = "Each interval covers at {of.percent} by itself."
    """The note on what the intervals of an estimate `of` hold."""
    confidence: float = 0.95
    """The confidence of intervals, in (0, 1)."""
    n: int = 0
    """People; 0 if weights stand for them."""
    privacy: GeoPrivacy | None = None
    """The privacy of a whole report; None if unknown, or if it differs between questions."""
    population: str = POPULATION
    """A sentence that names the population."""
    about: tuple[str, ...] = ()
    """Further sentences."""

    @property
    def percent(self) -> str:
        """The confidence in per cent."""
        return f"{100 * self.confidence:.4g} %"

    @property
    def value_unit(self) -> str:
        """The unit of people's values; empty if unknown."""
        return (self.privacy and (self.privacy.value_unit or self.privacy.unit)) or ""

    @property
    def common(self) -> dict[str, Any]:
        """The fields that results made from these estimates have in common with them."""
        names = "confidence", "n", "privacy", "population"
        return {name: getattr(self, name) for name in names}

    @property
    def notes(self) -> Sequence[str]:
        return (self.population, self.coverage.format(of=self), *self.about)


@dataclass(frozen=True, kw_only=True, eq=False)
class Series(Estimates):
    """Several estimates, each with an interval; all arrays have one shape."""

    values: Array
    """The estimates; infinite or NaN where there is none."""
    standard_errors: Array
    """Noise and sampling together."""
    low: Array
    """Lower ends of intervals; infinite where the reports set none."""
    high: Array
    """Upper ends."""

    @property
    def columns(self) -> dict[str, Array]:
        """The columns of rows."""
        ends = {"ci_low": self.low, "ci_high": self.high}
        return {"estimate": self.values, "standard_error": self.standard_errors, **ends}


def feature_collection(
    geometries: Iterable[Mapping[str, Any]], properties: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return GeoJSON of geometries, each with its properties."""
    features = [
        {"type": "Feature", "properties": of, "geometry": geometry}
        for geometry, of in zip(geometries, properties, strict=True)
    ]
    return {"type": "FeatureCollection", "features": features}


class GeoResult(Result):
    """A result with rows about places, which geographic libraries can read."""

    @abstractmethod
    def to_geojson(self) -> dict[str, Any]:
        """Return a FeatureCollection with the row of each place [RFC 7946]."""

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The interface of geographic libraries, equal to `to_geojson`."""
        return self.to_geojson()

    def to_geopandas(self) -> "geopandas.GeoDataFrame":
        """Return the places as a GeoDataFrame in WGS 84; the notes are in its `attrs`.

        Raises:
            UnsupportedError: if GeoPandas is not installed.
        """
        with needed_for("a GeoDataFrame"):
            import geopandas
        frame = geopandas.GeoDataFrame.from_features(self.to_geojson(), crs="EPSG:4326")
        frame.attrs |= {"title": self.title, "notes": list(self.notes)}
        return frame


def rows_of(columns: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return a dictionary for each row of equally long columns, with Python numbers.

    Example:
        >>> rows_of({"name": ("a", "b"), "n": [1, 2]})
        [{'name': 'a', 'n': 1}, {'name': 'b', 'n': 2}]
    """
    values = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def possible(values: Any, low: Any, high: Any) -> dict[str, Any]:
    """Return columns: the nearest estimates within their intervals, and the original ones.

    Args:
        values: estimates, one or an array; None or NaN where there is none.
    """
    if values is None or low is None:
        return {"estimate": values, _UNCUT: values}
    cut = np.clip(values, low, high)
    return {"estimate": cut if np.ndim(cut) else float(cut), _UNCUT: values}


def estimated(values: Any, errors: Any, low: Any, high: Any) -> dict[str, Any]:
    """Return the columns of estimates with their standard errors and intervals."""
    columns = possible(values, low, high)
    return {**columns, "standard_error": errors, "ci_low": low, "ci_high": high}


def what_holds(rows: int, any_crowd: Iterable[Any] | None) -> dict[str, Iterable[Any]]:
    """Return columns: the target of an interval, and the interval for the values themselves."""
    ends = {} if any_crowd is None else dict(zip(ANY_CROWD, any_crowd, strict=True))
    return {"holds": [SMOOTH] * rows, **ends}


def finite(value: Any) -> Any:
    """Return a number or another value, or None for a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the cells of a row, with the two ends of an interval in one.

    If there is a standard error, its first two digits determine the decimals.
    """
    error = row.get("standard_error") or 0.0
    decimals = max(1 - math.floor(math.log10(error)), 0) if 0 < error < math.inf else None
    texts = {}
    for key, value in row.items():
        of, _, end = key.rpartition("_")
        if of in _INTERVALS and end == "low":
            ends = [cell_text(row[f"{of}_{end}"], decimals) for end in ("low", "high")]
            finite = value is not None and value == value
            texts[_INTERVALS[of]] = " – ".join(ends) if finite else "–"
        elif key in _P_VALUES and isinstance(value, float) and value < _LEAST_P_IN_TABLES:
            texts[key] = f"below {_LEAST_P_IN_TABLES}"
        elif key != _UNCUT and (of not in _INTERVALS or end != "high"):
            texts[key] = cell_text(value, decimals if key in _MEASURED else None)
    return texts


def cell_text(value: object, decimals: int | None = None) -> str:
    """Return a cell of a table: a dash for nothing, decimals that suit the size of a number.

    Example:
        >>> [cell_text(value) for value in (None, 0.25, 55_512.4, 12.5, 7, "above")]
        ['–', '0.2500', '55,512', '12.50', '7', 'above']
        >>> cell_text(0.000123, decimals=6)
        '0.000123'
    """
    if value is None or value != value:  # not a number
        return "–"
    if not isinstance(value, float):
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:,}" if isinstance(value, int) else str(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if decimals is None and 0 < abs(value) < 1e-3:
        return digits(float(f"{value:.3g}")) if abs(value) > _LEAST else "about 0"
    if decimals is None:
        decimals = 0 if abs(value) >= 1e4 else 2 if abs(value) >= 10 else 4
    return f"{value:z,.{decimals}f}"
