"""Priors by name: shipped ones, formulas, and files of public data."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from geoveil.analyst import (
    Heap,
    HistogramPrior,
    LogNormalPrior,
    Prior,
    PublicPrior,
    Reports,
    SamplePrior,
    pilot_prior,
    reports_of,
)
from geoveil.campaign import added, foreign, load
from geoveil.gp import AzimuthalEquidistant, ParameterError, UnsupportedError
from geoveil.simulation.people_files import FORMATS, GEOPACKAGE, TableFileError, read_csv
from geoveil.simulation.populations import Population, collisions, household_incomes

KNOWN = (
    "incomes, collisions, lognormal:MEDIAN,SIGMA, histogram:FILE.csv, pilot:FILE.parquet, FILE.csv"
    ", FILE.parquet or FILE.gpkg"
)
_GROUP = "geoveil.priors"
"""The entry point group through which other packages add priors."""
_TAKEN = frozenset({"incomes", "collisions", "lognormal", "histogram", "pilot"})


def public_prior(
    text: str,
    columns: Sequence[str] = (),
    weights: str | None = None,
    heaps: Sequence[Heap] = (),
) -> PublicPrior:
    """Return the prior with a name.

    Args:
        text: one of `KNOWN`, or an entry point in `geoveil.priors`, a function that returns a
            `PublicPrior`.
        columns: a file's column of values, or those of longitudes and latitudes.
        weights: the column with each row's number of people.
        heaps: additional people who all hold exactly the same value.

    Raises:
        ParameterError: if the name is unknown, or its numbers are out of range.
        TableFileError: with the file, the row and the column.

    Example:
        >>> source = public_prior("lognormal:98000,0.83")
        >>> round(source.make(None).expectation(lambda x: x > 98_000, breaks=[98_000]), 6)
        0.5
    """
    match text.split(":", 1):
        case ["incomes"]:
            prior = _of_population(household_incomes(), text, "household income")
        case ["collisions"]:
            prior = _of_population(collisions(), text, "location")
        case ["lognormal", numbers] if numbers:
            prior = _lognormal(text, numbers)
        case ["histogram", file] if file:
            prior = _histogram(text, Path(file))
        case ["pilot", file] if file:
            return pilot_prior(_pilot(text, file), heaps=heaps)
        case _ if Path(text).suffix in FORMATS:
            return _of_rows(text, columns, weights).with_heaps(heaps)
        case _ if text in added(_GROUP, _TAKEN):
            prior = _added(text)
        case _:
            more = "".join(f", {name}" for name in added(_GROUP, _TAKEN))
            raise ParameterError("prior", text, f"one of {KNOWN}{more}")
    if columns or weights is not None:
        raise ParameterError("columns", [*columns], f"left out: {text} has no columns")
    return prior.with_heaps(heaps)


def with_scenarios(
    known: Callable[[str], PublicPrior], text: str, scenarios: Sequence[str], scale: float
) -> PublicPrior:
    """Return a prior with its scenarios; a file of rows has the columns of the prior.

    Args:
        known: returns the prior with a name.
        text: the name of the prior.
        scenarios: NAME=PRIOR each.
        scale: relative error of the prior's numbers; see `PublicPrior.doubted`.

    Raises:
        ParameterError: with the scenario that can't be used.
    """
    source, others = known(text), {}
    for scenario in scenarios:
        name, _, prior = scenario.partition("=")
        if not name.strip() or not prior:
            expected = "NAME=PRIOR, for example 2019=incomes2019.csv"
            raise ParameterError("scenario", scenario, expected)
        try:
            others[name.strip()] = known(prior)
        except ParameterError as error:
            of = "--prior-column" if error.name == "columns" else "the prior"
            expected = f"NAME=PRIOR, {of} {error.expected}"
            raise ParameterError("scenario", scenario, expected) from error
    return source.doubted(others, scale)


def _pilot(text: str, file: str) -> Reports:
    try:
        return reports_of(file)
    except ParameterError as error:
        if error.name != "file":
            raise
        raise ParameterError("prior", text, f"pilot:FILE, {error.expected}") from error


def _added(name: str) -> PublicPrior:
    make = cast(Callable[[], PublicPrior], load(_GROUP, name, _TAKEN))
    with foreign(name):
        prior = make()
    if not isinstance(prior, PublicPrior):
        raise UnsupportedError(f"the entry point {name!r} in {_GROUP!r} makes no PublicPrior")
    return prior


def _of_rows(text: str, columns: Sequence[str], weights: str | None) -> PublicPrior:
    if not Path(text).is_file():
        raise ParameterError("prior", text, f"a file that exists: there is no file {text!r}")
    places = Path(text).suffix == GEOPACKAGE
    if not places and not 1 <= len(columns) <= 2:
        expected = "one column of values, or a longitude and a latitude"
        raise ParameterError("columns", [*columns], expected)
    people = Population.from_file(text, values=columns, weights=weights)
    return _of_population(people, text, columns[0] if len(columns) == 1 else "location")


def _of_population(people: Population, name: str, attribute: str) -> PublicPrior:
    def make(plane: AzimuthalEquidistant | None) -> Prior:
        values = people.values if plane is None else plane.project(people.values)
        return SamplePrior(values, people.weights)

    own = None if people.unit == "unit" else people.unit
    unit = "metre" if people.dimension == 2 else own
    return PublicPrior(name, attribute, unit, people.dimension, make)


def _lognormal(text: str, numbers: str) -> PublicPrior:
    expected = "lognormal:MEDIAN,SIGMA: two numbers, the median > 0, SIGMA in [1e-06, 10]"
    try:
        median, sigma = (float(part) for part in numbers.split(","))
        prior = LogNormalPrior(math.log(median), sigma)
    except ValueError:  # including ParameterErrors
        raise ParameterError("prior", text, expected) from None
    return PublicPrior(text, "value", None, 1, lambda _: prior)


def _histogram(text: str, path: Path) -> PublicPrior:
    low, high, count = read_csv(path, ["low", "high", "count"])
    gap = np.abs(high[:-1] - low[1:]) > 1e-9 * np.maximum(np.abs(high[:-1]), 1.0)
    if gap.any():
        where = f"row {int(np.argmax(gap)) + 2}, column 'low'"
        raise TableFileError(path, where, "where the row before it ends")
    if (count < 0).any():
        where = f"row {int(np.argmax(count < 0)) + 1}, column 'count'"
        raise TableFileError(path, where, "a number of people, 0 or more")
    prior = HistogramPrior([*low, *high[-1:]], count)
    return PublicPrior(text, "value", None, 1, lambda _: prior)
