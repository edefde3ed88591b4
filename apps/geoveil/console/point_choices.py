"""The console's statistics of points, and the fields of their forms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from geoveil.analyst import STATISTICS
from geoveil.campaign import AttributeCampaign, ValueCampaign
from geoveil.gp import UnsupportedError

ADDED = "statistic."
"""The beginning of the words for other packages' statistics, which no word of this page has."""
LEVELS = np.arange(1, 100) / 100
BY_FACTORS = 9
"""The number of default histogram edges for values compared by ratio."""
_PLACES = "one a line, as Name=longitude,latitude"
_DISTRICTS = "a GeoJSON file of polygons that do not overlap"


@dataclass(frozen=True, slots=True)
class PointChoice:
    """A statistic that the page offers."""

    word: str
    name: str
    said: str = ""
    """The label of its text input; empty if it has none."""
    example: str = ""
    """The default text of its input."""
    lines: bool = False
    """Whether the input has several lines."""
    file: str = ""
    """The label of its GeoJSON file; empty if it takes none."""
    optional: bool = False
    """Whether it works without its text or file."""


NUMBERS = (
    PointChoice("curve", "Distribution, with quantiles to drag"),
    PointChoice("density", "Density"),
    PointChoice(
        "histogram", "Histogram", "edges, with commas; chosen for you if left empty", optional=True
    ),
    PointChoice("quantile", "Quantiles", "shares of people, with commas", "0.25, 0.5, 0.75"),
    PointChoice("threshold", "Share above a value", "the value", ""),
    PointChoice("range", "Share between two values", "the two values, with a comma", ""),
    PointChoice("mean", "Mean"),
    PointChoice("gini", "Inequality: the Gini coefficient"),
    PointChoice("top-share", "What the richest hold", "which share of the people", "0.1"),
)
_LINEAR = frozenset({"density", "gini", "top-share"})
"""Statistics that are meaningless for values compared by ratio."""
PLACES = (
    PointChoice(
        "map",
        "Density map",
        file="GeoJSON of places or outlines to draw on the map, if you like",
        optional=True,
    ),
    PointChoice("districts", "Shares of districts", file=_DISTRICTS),
    PointChoice("top-districts", "Districts with the most people, and how surely", file=_DISTRICTS),
    PointChoice("top", "Densest places, and how surely", f"places, {_PLACES}", lines=True),
    PointChoice(
        "nearest", "Shares of the people nearest to each place", f"places, {_PLACES}", lines=True
    ),
    PointChoice("circle", "Share within a circle", "longitude, latitude, radius in metres"),
)
CHANGES_OF_NUMBERS = (
    PointChoice("changes", "Shares above values", "the values, with commas"),
    PointChoice("changes-range", "Share between two values", "the two values, with a comma"),
    PointChoice("changes-mean", "Mean"),
    PointChoice(
        "changes-quantile",
        "Quantiles",
        "shares of people, with commas",
        "0.25, 0.5, 0.75",
    ),
    PointChoice("changes-curve", "The whole distribution"),
)
CHANGES_OF_PLACES = (
    PointChoice("changes", "Share within a circle", "longitude, latitude, radius in metres"),
    PointChoice("changes-places", "Density at places", f"places, {_PLACES}", lines=True),
    PointChoice("changes-districts", "Shares of districts", file=_DISTRICTS),
)
_GEOMETRIC: Mapping[str, PointChoice] = MappingProxyType(
    {
        "mean": PointChoice("geometric-mean", "Geometric mean"),
        "changes-mean": PointChoice("changes-geometric-mean", "Geometric mean"),
    }
)
"""Replacements for values compared by ratio."""


def choices_of(campaign: AttributeCampaign) -> Sequence[PointChoice]:
    """Return the statistics that a survey's points can answer."""
    if not isinstance(campaign, ValueCampaign):
        return ()
    choices: Sequence[PointChoice]
    changes: Sequence[PointChoice]
    if campaign.attribute.coordinates is not None:
        choices, changes = PLACES, CHANGES_OF_PLACES
    elif campaign.dimension == 1:
        choices, changes = NUMBERS, CHANGES_OF_NUMBERS
        if campaign.attribute.scale is not None:
            choices, changes = (
                [
                    _GEOMETRIC.get(offered.word, offered)
                    for offered in of
                    if offered.word not in _LINEAR
                ]
                for of in (NUMBERS, CHANGES_OF_NUMBERS)
            )
    else:
        return ()
    return (*choices, *changes)


def added_choices(campaign: AttributeCampaign) -> Iterator[PointChoice]:
    """Yield the statistics of other packages; one whose package fails says so when it is chosen."""
    for name in STATISTICS.names[len(STATISTICS.built_in) :]:
        try:
            family = STATISTICS[name]
        except UnsupportedError:
            yield PointChoice(f"{ADDED}{name}", name)
            continue
        if family.of_places == (campaign.attribute.coordinates is not None):
            yield PointChoice(
                f"{ADDED}{name}",
                family.summary,
                f"{family.usage}, with commas" if family.parameters else "",
                optional=all(p.default is not p.empty for p in family.parameters.values()),
            )
