"""The words of an analyst's questions, shared by plans, campaigns and estimates.

threshold  100000                  the share of people above a value
range      50000,100000            the share between two values
place      Midtown=-73.98,40.75    the density of people at a place
circle     -73.98,40.75,2000       the share within a circle, of a radius in metres
region     district.geojson        the share inside the polygons of a file, by their names
query      range:low=1,high=5,...  the mean of a query of any family, as it is
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from geoveil.analyst.errors import code_of_packages
from geoveil.analyst.geojson import outlines_in, places_in, read_file
from geoveil.analyst.questions import (
    AnalystQuestion,
    DensityAt,
    MeanOf,
    Place,
    ShareAbove,
    ShareBetween,
    ShareWithin,
    on_earth,
)
from geoveil.analyst.statistics.distribution import Density, DistributionFunction
from geoveil.analyst.statistics.districts import Districts, Nearest
from geoveil.analyst.statistics.inequality import GeometricMean, Gini, MeanValue, TopShare
from geoveil.analyst.statistics.map import Map
from geoveil.analyst.statistics.partition import Histogram
from geoveil.analyst.statistics.quantiles import Quantiles
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic
from geoveil.campaign import QUERIES, Attribute, Family, Registry
from geoveil.gp import ParameterError, validation

NAME_PROPERTY = "name-property"
"""The property that names the regions of a file."""


def questions_in(words: Mapping[str, Sequence[object]]) -> list[AnalystQuestion]:
    """Return the questions for the words at the top of this module.

    Args:
        words: a word that stands there → what is written after it. `name-property` beside them
            is the property of features that names regions, `name` by default.

    Raises:
        ParameterError: naming the word, what was written, and what is permitted.

    Example:
        >>> asked = questions_in({"threshold": ["100000"], "range": ["50000,100000"]})
        >>> [question.label for question in asked]
        ['above 100,000', '50,000 to 100,000']
        >>> questions_in({"place": ["Times Square=-73.9855,40.758"]})[0].label
        'Times Square'
    """
    questions: list[AnalystQuestion] = []
    name_property = next(map(str, words.get(NAME_PROPERTY, ())), None)
    for word, texts in words.items():
        if word == NAME_PROPERTY:
            continue
        validation.choice("question", word, VOCABULARY)
        for text in map(str, texts):
            questions += (
                _region(text, name_property) if word == "region" else VOCABULARY[word](text)
            )
    return questions


def numbers_in(name: str, text: str, count: int, expected: str) -> tuple[float, ...]:
    """Return a given count of numbers, separated by commas or spaces.

    Raises:
        ParameterError: naming `name`, and what is expected, if it is anything else.

    Example:
        >>> numbers_in("range", "50000, 100000", 2, "LOW,HIGH")
        (50000.0, 100000.0)
    """
    numbers = any_numbers_in(name, text, expected)
    if len(numbers) != count:
        raise ParameterError(name, text, expected)
    if not all(map(math.isfinite, numbers)):
        raise ParameterError(name, text, f"{expected}, and finite")
    return numbers


def place_in(name: str, text: str) -> Place:
    """Return the longitude and latitude of 'longitude,latitude'."""
    longitude, latitude = numbers_in(name, text, 2, "'longitude,latitude' in degrees")
    return on_earth(name, (longitude, latitude))


def _threshold(text: str) -> Iterator[AnalystQuestion]:
    (at,) = numbers_in("threshold", text, 1, "a number")
    yield ShareAbove(at)


def _range(text: str) -> Iterator[AnalystQuestion]:
    low, high = numbers_in("range", text, 2, "LOW,HIGH")
    yield ShareBetween(low, high)


def _place(text: str) -> Iterator[AnalystQuestion]:
    label, _, numbers = text.rpartition("=")
    x, y = numbers_in("place", numbers, 2, "'longitude,latitude' in degrees")
    yield DensityAt(x, y, label or numbers)


def _circle(text: str) -> Iterator[AnalystQuestion]:
    label, _, numbers = text.rpartition("=")
    expected = "LONGITUDE,LATITUDE,RADIUS in metres"
    x, y, radius = numbers_in("circle", numbers, 3, expected)
    if radius <= 0:
        raise ParameterError("circle", numbers, f"{expected}, the radius > 0")
    yield ShareWithin(x, y, radius, label)


def _region(text: str, name_property: str | None = None) -> Iterator[AnalystQuestion]:
    path = Path(text)
    content = read_file("region", path)
    yield from outlines_in(content, text, name_property=name_property, stem=path.stem)


VOCABULARY: Mapping[str, Callable[[str], Iterator[AnalystQuestion]]] = MappingProxyType(
    {
        "threshold": _threshold,
        "range": _range,
        "place": _place,
        "circle": _circle,
        "region": _region,
        "query": lambda text: iter([MeanOf(QUERIES.parse(text), text)]),
    }
)
"""Word → the reader of its argument."""


def all_given(needed: Mapping[str, object], unless: str = "") -> None:
    """Raise an error that names all missing options.

    Args:
        needed: name of an option → its value, or None.
        unless: when they are not needed, as part of a sentence.

    Example:
        >>> all_given({"per": None, "epsilon": 1.0, "prior": None})
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: per must be given, and so must --prior
    """
    missing = [name for name, given in needed.items() if given is None]
    if missing:
        others = ", ".join(f"--{name}" for name in missing[1:])
        also = f", and so must {others}" if others else ""
        raise ParameterError(missing[0], None, f"given{also}{unless}")


def left_out(given: Mapping[str, object], expected: str) -> None:
    """Refuse the first of some options that was given.

    Args:
        given: name of an option → its value; None, or False for a flag, if it was not given.
        expected: the end of the error's message.

    Example:
        >>> left_out({"by": None, "top": 0}, "left out with --plan")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: top must be left out with --plan, got top=0
    """
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name.replace("_", "-"), value, expected)


def leave_out(request: Any, names: str, expected: str) -> None:
    """Refuse the first of some options of a request that was given.

    Args:
        request: a dataclass, whose fields are options.
        names: with blanks between them.
        expected: the end of the error's message.
    """
    defaults = {option.name: option.default for option in fields(request)}
    given = {name: getattr(request, name) for name in names.split()}
    left_out({name: value for name, value in given.items() if value != defaults[name]}, expected)


Made = Statistic[Any]


def any_numbers_in(
    word: str, said: str, expected: str = "numbers separated by commas"
) -> tuple[float, ...]:
    """Return numbers separated by commas or spaces."""
    try:
        return tuple(float(part) for part in said.replace(",", " ").split() or [said])
    except ValueError:
        raise ParameterError(word, said, expected) from None


def two_numbers(word: str, said: str) -> tuple[float, float]:
    """Return the ends 'LOW,HIGH' of a range."""
    numbers = any_numbers_in(word, said)
    if len(numbers) != 2 or not -math.inf < numbers[0] < numbers[1] < math.inf:
        raise ParameterError(word, said, "two finite numbers 'LOW,HIGH' with LOW < HIGH")
    return numbers


def _asked(
    word: str, read_as: str, said: Sequence[str], name_property: str | None = None
) -> list[AnalystQuestion]:
    """Return questions by another word of the vocabulary."""
    named = {} if name_property is None else {NAME_PROPERTY: [name_property]}
    try:
        return questions_in({read_as: said, **named})
    except ParameterError as error:
        raise ParameterError(word, error.value, error.expected) from error.__cause__


def _places(said: Sequence[str], name_property: str | None) -> dict[str, Place]:
    """Return the given places, or those of a GeoJSON file of points."""
    path = Path(said[0])
    if len(said) == 1 and path.is_file():
        content = read_file("nearest", path, "Point")
        return places_in(content, said[0], name="nearest", name_property=name_property)
    places = {
        answer.label: answer.place for answer in _asked("nearest", "place", said) if answer.place
    }
    if not 2 <= len(places) == len(said) < MOST_QUESTIONS:
        expected = (
            f"2 to {MOST_QUESTIONS - 1} places 'LABEL=LON,LAT', each with a label of its own, or a"
            " GeoJSON file of points"
        )
        raise ParameterError("nearest", [*said], expected)
    return places


@dataclass(frozen=True, slots=True)
class How:
    """Options of a statistic: its softness, and the property that names districts."""

    width: float | None = None
    """Width of the soft thresholds."""
    bandwidth: float | None = None
    """Standard deviation of kernels and of smoothed edges."""
    name_property: str | None = None
    within: tuple[float, float] | None = None
    """The range of everybody's values."""


@dataclass(frozen=True, kw_only=True)
class StatisticFamily(Family):
    """A family of statistics: an option of commands, and a choice on pages.

    Its class takes the parameters by name. One called `width`, `bandwidth` or `within` has the
    value of --width, --bandwidth or --range-of-values, unless its text says another.
    """

    reads: Callable[[Sequence[str], How], Made] | None = None
    """Makes the statistic from the text after each use of its word; None for `Family.parse`."""
    takes: Any = bool
    """The type of its option's argument: bool for none, str for a text, list[str] for one or more,
    Path for a file."""
    of_places: bool = False
    """Whether it is about people's places, not their numbers."""
    of_ratios: bool = False
    """Whether it is only for values compared by ratio."""
    title: str = ""
    """Its name on pages; the summary if it is empty."""
    takes_text: str = ""
    """The label of its text on pages."""
    example: str = ""
    """The first such text."""

    def __post_init__(self) -> None:
        if not issubclass(self.made, Statistic):
            raise ParameterError("made", self.made, "a class that derives from Statistic")

    def suits(self, attribute: Attribute) -> bool:
        """Return whether it has a meaning for an attribute's values."""
        if self.of_places or attribute.coordinates is not None:
            return self.of_places and attribute.coordinates is not None
        if attribute.scale is None:
            return not self.of_ratios
        made: type[Made] = self.made
        return made.on_scale is not Statistic.on_scale

    def ask(self, said: Sequence[str], how: How) -> Made:
        """Return the statistic for the text after each use of its word."""
        with code_of_packages(self.made):
            if self.reads is not None:
                return self.reads(said, how)
            options = {name: getattr(how, name, None) for name in self.parameters}
            given = {name: value for name, value in options.items() if value is not None}
            made: Made = self.make(given | self.read(",".join(said)))
            return made


STATISTICS = Registry(
    "geoveil.statistics",
    StatisticFamily,
    [
        StatisticFamily(
            name="curve",
            made=DistributionFunction,
            summary="Distribution function, with a band that holds all of it.",
            title="Distribution",
        ),
        StatisticFamily(
            name="density",
            made=Density,
            summary="Density of the values, with a band.",
            reads=lambda said, how: Density(of=DistributionFunction(width=how.width)),
            title="Density",
        ),
        StatisticFamily(
            name="histogram",
            made=Histogram,
            summary="Shares between edges: '25000,50000,100000', and beyond them.",
            reads=lambda said, how: Histogram(
                edges=any_numbers_in("histogram", ",".join(said)), width=how.width
            ),
            takes=str,
            title="Histogram",
            takes_text="edges, with commas",
        ),
        StatisticFamily(
            name="quantile",
            made=Quantiles,
            summary="Value that this share of the people does not exceed: 0.5 for the median. May"
            " be repeated.",
            reads=lambda said, how: Quantiles(
                levels=sorted(level for text in said for level in any_numbers_in("quantile", text)),
                width=how.width,
            ),
            takes=list[str],
            title="Quantiles",
            takes_text="shares of people, with commas",
            example="0.25, 0.5, 0.75",
        ),
        StatisticFamily(name="mean", made=MeanValue, summary="Mean of the values.", title="Mean"),
        StatisticFamily(
            name="geometric-mean",
            made=GeometricMean,
            summary="Geometric mean of values that are compared by ratio, which have no mean.",
            of_ratios=True,
            title="Geometric mean",
        ),
        StatisticFamily(
            name="gini",
            made=Gini,
            summary="Gini coefficient.",
            title="Inequality: the Gini coefficient",
        ),
        StatisticFamily(
            name="top-share",
            made=TopShare,
            title="What the richest hold",
            takes_text="which share of the people",
            example="0.1",
            summary="Share of the total that this share of the people holds: 0.1.",
            reads=lambda said, how: TopShare(
                share=numbers_in("top-share", said[-1], 1, "a number in (0, 1)")[0],
                width=how.width,
                within=how.within,
            ),
            takes=str,
        ),
        StatisticFamily(
            name="map",
            made=Map,
            summary="GeoJSON file to write: the density of people, on a grid of places.",
            reads=lambda said, how: Map(bandwidth=how.bandwidth),
            title="Density map",
            takes=Path,
            of_places=True,
        ),
        StatisticFamily(
            name="districts",
            made=Districts,
            summary="Share in each polygon of a GeoJSON file, which must not overlap, and"
            " elsewhere.",
            reads=lambda said, how: Districts(
                _asked("districts", "region", said, how.name_property), how.bandwidth
            ),
            title="Shares of districts",
            takes=Path,
            of_places=True,
        ),
        StatisticFamily(
            name="nearest",
            made=Nearest,
            summary="Share to whom this place is the nearest: 'LABEL=LON,LAT', twice or more; or a"
            " GeoJSON file of points.",
            reads=lambda said, how: Nearest(_places(said, how.name_property), how.bandwidth),
            title="Shares of the people nearest to each place",
            takes_text="places, one a line, as Name=longitude,latitude",
            takes=list[str],
            of_places=True,
        ),
    ],
)
"""The families of statistics; another package adds one through an entry point of its name."""


def statistics_in(
    words: Mapping[str, Sequence[str]],
    width: float | None = None,
    bandwidth: float | None = None,
    name_property: str | None = None,
    within: tuple[float, float] | None = None,
) -> list[Made]:
    """Return the statistics for the names in `STATISTICS` that people write.

    Args:
        words: a name that stands there → what is written after it; nothing for a name alone.
        width: of the soft thresholds; three noise scales by default.
        bandwidth: of the bells of a map, in metres; three noise scales by default.
        name_property: of features, that names districts or places; `name` by default.
        within: between which values everybody's lies, for a mean, a Gini coefficient, a top share.

    Raises:
        NotInstalled: if no installed package has such a statistic.
        ParameterError: naming the word, what was written, and what is permitted.

    Example:
        >>> [type(one).__name__ for one in statistics_in({"quantile": ["0.5"], "curve": []})]
        ['Quantiles', 'DistributionFunction']
    """
    how = How(width, bandwidth, name_property, within)
    return [STATISTICS[word].ask(said, how) for word, said in words.items()]
