"""The words for statistics, shared by the terminal, the console's pages and Python."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from geoveil.analyst.geojson import places_in, read_file
from geoveil.analyst.questions import AnalystQuestion, Place, ShareInside
from geoveil.analyst.statistics.distribution import Density, DistributionFunction
from geoveil.analyst.statistics.districts import Districts, Nearest
from geoveil.analyst.statistics.inequality import GeometricMean, Gini, MeanValue, TopShare
from geoveil.analyst.statistics.map import Map
from geoveil.analyst.statistics.partition import Histogram
from geoveil.analyst.statistics.quantiles import Quantiles
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic
from geoveil.analyst.vocabulary import NAME_PROPERTY, questions_in
from geoveil.gp import ParameterError, validation

Made = Statistic[Any]


def any_numbers_in(word: str, said: str) -> tuple[float, ...]:
    """Return numbers with commas between them."""
    try:
        return tuple(float(part) for part in said.split(","))
    except ValueError:
        raise ParameterError(word, said, "numbers with commas between them") from None


def two_numbers(word: str, said: str) -> tuple[float, float]:
    """Return the ends 'LOW,HIGH' of a range.

    Raises:
        ParameterError: if they are not two numbers in order.
    """
    numbers = any_numbers_in(word, said)
    if len(numbers) != 2 or not -math.inf < numbers[0] < numbers[1] < math.inf:
        raise ParameterError(word, said, "two finite numbers 'LOW,HIGH' with LOW < HIGH")
    return numbers


def _asked(
    word: str, read_as: str, said: Sequence[str], name_property: str | None = None
) -> list[AnalystQuestion]:
    """Return questions by another word of the vocabulary."""
    named: dict[str, Sequence[str]] = {}
    if name_property is not None:
        named[NAME_PROPERTY] = [name_property]
    try:
        return questions_in({read_as: said} | named)
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


def _districts(said: Sequence[str], how: How) -> Districts:
    questions = _asked("districts", "region", said, how.name_property)
    return Districts(
        [question for question in questions if isinstance(question, ShareInside)], how.bandwidth
    )


@dataclass(frozen=True, slots=True)
class StatisticWord:
    """A word for a statistic: an option of commands, and a choice on pages."""

    make: Callable[[Sequence[str], How], Made]
    """Makes the statistic from the text after the word."""
    help: str
    takes: Any = bool
    """The type of its argument: bool for none, str for a text, list for one or more, Path for a
    file."""


STATISTICS: Mapping[str, StatisticWord] = MappingProxyType(
    {
        "mean": StatisticWord(
            lambda said, how: MeanValue(width=how.width, within=how.within), "Mean of the values."
        ),
        "geometric-mean": StatisticWord(
            lambda said, how: GeometricMean(width=how.width, within=how.within),
            "Geometric mean of values that are compared by ratio, which have no mean.",
        ),
        "quantile": StatisticWord(
            lambda said, how: Quantiles(
                levels=sorted(level for text in said for level in any_numbers_in("quantile", text)),
                width=how.width,
            ),
            "Value that this share of the people does not exceed: 0.5 for the median. May be"
            " repeated.",
            list,
        ),
        "curve": StatisticWord(
            lambda said, how: DistributionFunction(width=how.width),
            "Distribution function, with a band that holds all of it.",
        ),
        "density": StatisticWord(
            lambda said, how: Density(of=DistributionFunction(width=how.width)),
            "Density of the values, with a band.",
        ),
        "histogram": StatisticWord(
            lambda said, how: Histogram(
                edges=any_numbers_in("histogram", ",".join(said)), width=how.width
            ),
            "Shares between edges: '25000,50000,100000', and beyond them.",
            str,
        ),
        "gini": StatisticWord(
            lambda said, how: Gini(width=how.width, within=how.within), "Gini coefficient."
        ),
        "top-share": StatisticWord(
            lambda said, how: TopShare(
                share=any_numbers_in("top-share", said[-1])[0],
                width=how.width,
                within=how.within,
            ),
            "Share of the total that this share of the people holds: 0.1.",
            str,
        ),
        "map": StatisticWord(
            lambda said, how: Map(bandwidth=how.bandwidth),
            "GeoJSON file to write: the density of people, on a grid of places.",
            Path,
        ),
        "districts": StatisticWord(
            _districts,
            "Share in each polygon of a GeoJSON file, which must not overlap, and elsewhere.",
            Path,
        ),
        "nearest": StatisticWord(
            lambda said, how: Nearest(_places(said, how.name_property), how.bandwidth),
            "Share to whom this place is the nearest: 'LABEL=LON,LAT', twice or more; or a GeoJSON"
            " file of points.",
            list,
        ),
    }
)


def statistics_in(
    words: Mapping[str, Sequence[str]],
    width: float | None = None,
    bandwidth: float | None = None,
    name_property: str | None = None,
    within: tuple[float, float] | None = None,
) -> list[Made]:
    """Return the statistics for the words of `STATISTICS` that people write.

    Args:
        words: a word that stands there → what is written after it; nothing for a word alone.
        width: of the soft thresholds; three noise scales by default.
        bandwidth: of the bells of a map, in metres; three noise scales by default.
        name_property: of features, that names districts or places; `name` by default.
        within: between which values everybody's lies, for a mean, a Gini coefficient, a top share.

    Raises:
        ParameterError: naming the word, what was written, and what is permitted.

    Example:
        >>> [type(one).__name__ for one in statistics_in({"quantile": ["0.5"], "curve": []})]
        ['Quantiles', 'DistributionFunction']
    """
    for word in words:
        validation.choice("statistic", word, STATISTICS)
    how = How(width, bandwidth, name_property, within)
    return [STATISTICS[word].make(said, how) for word, said in words.items()]
