"""The words for statistics, the same at a terminal and in Python.

mean                       the mean of the values
quantile   0.5             the value that this share of the people does not exceed
curve                      the distribution function
smoothed                   the distribution function, smoothed and biased
density                    the density of the values
histogram  25000,50000     the shares between these edges, below the first and above the last
gini                       the Gini coefficient
top-share  0.1             the share of the total that this share of the people holds
map        FILE.geojson    the density of people on a grid; who asks writes the file
districts  FILE.geojson    the share in each of the polygons of a file, and elsewhere
nearest    A=-73.9,40.7    the share to whom each of several places is the nearest
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from geoveil.analyst.questions import AnalystQuestion, Place, ShareInside
from geoveil.analyst.statistics.distribution import Density, DistributionFunction
from geoveil.analyst.statistics.districts import Districts, Nearest
from geoveil.analyst.statistics.inequality import Gini, MeanValue, TopShare
from geoveil.analyst.statistics.map import Map
from geoveil.analyst.statistics.partition import Histogram
from geoveil.analyst.statistics.quantiles import Quantiles
from geoveil.analyst.statistics.smoothed import SmoothedDistribution
from geoveil.analyst.statistics.statistic import MOST_QUESTIONS, Statistic
from geoveil.analyst.vocabulary import questions_in
from geoveil.gp import ParameterError, validation

__all__ = ["STATISTICS", "statistics_in"]

Made = Statistic[Any]


def numbers_in(word: str, said: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in said.split(","))
    except ValueError:
        raise ParameterError(word, said, "numbers with commas between them") from None


def _asked(word: str, read_as: str, said: Sequence[str]) -> list[AnalystQuestion]:
    """Return the questions that another word of the vocabulary reads."""
    try:
        return questions_in({read_as: said})
    except ParameterError as error:
        raise ParameterError(word, error.value, error.expected) from error.__cause__


def _places(word: str, said: Sequence[str]) -> dict[str, Place]:
    found = {one.label: one.place for one in _asked(word, "place", said) if one.place}
    if not 2 <= len(found) == len(said) < MOST_QUESTIONS:
        expected = f"2 to {MOST_QUESTIONS - 1} places 'LABEL=LON,LAT', each with a label of its own"
        raise ParameterError(word, [*said], expected)
    return found


STATISTICS: Mapping[str, Callable[[Sequence[str], float | None, float | None], Made]] = (
    MappingProxyType(
        {
            "mean": lambda said, width, bell: MeanValue(width=width),
            "quantile": lambda said, width, bell: Quantiles(
                levels=sorted(level for one in said for level in numbers_in("quantile", one)),
                width=width,
            ),
            "curve": lambda said, width, bell: DistributionFunction(width=width),
            "smoothed": lambda said, width, bell: SmoothedDistribution(),
            "density": lambda said, width, bell: Density(of=DistributionFunction(width=width)),
            "histogram": lambda said, width, bell: Histogram(
                edges=numbers_in("histogram", ",".join(said)), width=width
            ),
            "gini": lambda said, width, bell: Gini(width=width),
            "top-share": lambda said, width, bell: TopShare(
                share=numbers_in("top-share", said[-1])[0], width=width
            ),
            "map": lambda said, width, bell: Map(bandwidth=bell),
            "districts": lambda said, width, bell: Districts(
                [
                    one
                    for one in _asked("districts", "region", said)
                    if isinstance(one, ShareInside)
                ],
                bell,
            ),
            "nearest": lambda said, width, bell: Nearest(_places("nearest", said), bell),
        }
    )
)
"""Word → what makes its statistic of what is written after the word, the width of bands, and the
bandwidth of bells."""


def statistics_in(
    words: Mapping[str, Sequence[str]], width: float | None = None, bandwidth: float | None = None
) -> list[Made]:
    """Return the statistics that people write as they stand at the top of this module.

    Args:
        words: a word that stands there → what is written after it; nothing for a word alone.
        width: of the soft thresholds; three noise scales by default.
        bandwidth: of the bells of a map, in metres; three noise scales by default.

    Raises:
        ParameterError: naming the word, what was written, and what is permitted.

    Example:
        >>> [type(one).__name__ for one in statistics_in({"quantile": ["0.5"], "curve": []})]
        ['Quantiles', 'DistributionFunction']
    """
    for word in words:
        validation.choice("statistic", word, STATISTICS)
    return [STATISTICS[word](said, width, bandwidth) for word, said in words.items()]
