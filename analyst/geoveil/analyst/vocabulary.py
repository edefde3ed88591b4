"""The words of an analyst's questions, shared by plans, campaigns and estimates.

threshold  100000                  the share of people above a value
range      50000,100000            the share between two values
place      Midtown=-73.98,40.75    the density of people at a place
circle     -73.98,40.75,2000       the share within a circle, of a radius in metres
region     district.geojson        the share inside the polygons of a file, by their names
query      range:low=1,high=5,...  the mean of a query of any family, as it is
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from geoveil.analyst.geojson import outlines_in, read_file
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
from geoveil.campaign import QUERIES
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
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise ParameterError(name, text, expected) from None
    if len(numbers) != count:
        raise ParameterError(name, text, expected)
    return validation.numbers(name, numbers)


def place_in(name: str, text: str) -> Place:
    """Return the longitude and latitude of 'longitude,latitude'.

    Raises:
        ParameterError: naming `name`, if they are no such numbers.
    """
    longitude, latitude = numbers_in(name, text, 2, "'longitude,latitude' in degrees")
    return on_earth(name, (longitude, latitude))


def _threshold(text: str) -> Iterator[AnalystQuestion]:
    try:
        at = float(text)
    except ValueError:
        raise ParameterError("threshold", text, "a number") from None
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


def _query(text: str) -> Iterator[AnalystQuestion]:
    yield MeanOf(QUERIES.parse(text), text)


VOCABULARY: Mapping[str, Callable[[str], Iterator[AnalystQuestion]]] = MappingProxyType(
    {
        "threshold": _threshold,
        "range": _range,
        "place": _place,
        "circle": _circle,
        "region": _region,
        "query": _query,
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
        >>> left_out({"by": None, "top": 0}, "left out beside --plan")
        Traceback (most recent call last):
        geoveil.gp.errors.ParameterError: top must be left out beside --plan, got top=0
    """
    for name, value in given.items():
        if value is not None and value is not False:
            raise ParameterError(name.replace("_", "-"), value, expected)
