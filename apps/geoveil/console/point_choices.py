"""The console's statistics of points, and the fields of their forms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from geoveil.analyst import STATISTICS, StatisticFamily
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


_INPUTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "histogram": {"said": "edges, with commas; chosen for you if left empty", "optional": True},
        "map": {
            "file": "GeoJSON of places or outlines to draw on the map, if you like",
            "optional": True,
        },
        "districts": {"file": _DISTRICTS},
        "nearest": {"lines": True},
    }
)
"""Statistic → its inputs that only pages have."""
CHANGED = ("mean", "geometric-mean", "quantile", "curve")
"""Statistics, besides shares and densities, whose changes are offered."""
_OF_NUMBERS = (
    PointChoice("threshold", "Share above a value", "the value"),
    PointChoice("range", "Share between two values", "the two values, with a comma"),
)
_OF_PLACES = (
    PointChoice("top-districts", "Districts with the most people, and how surely", file=_DISTRICTS),
    PointChoice("top", "Densest places, and how surely", f"places, {_PLACES}", lines=True),
    PointChoice("circle", "Share within a circle", "longitude, latitude, radius in metres"),
)
_CHANGES_OF_NUMBERS = (
    PointChoice("changes", "Shares above values", "the values, with commas"),
    PointChoice("changes-range", "Share between two values", "the two values, with a comma"),
)
_CHANGES_OF_PLACES = (
    PointChoice("changes", "Share within a circle", "longitude, latitude, radius in metres"),
    PointChoice("changes-places", "Density at places", f"places, {_PLACES}", lines=True),
    PointChoice("changes-districts", "Shares of districts", file=_DISTRICTS),
)


def choices_of(campaign: AttributeCampaign) -> Sequence[PointChoice]:
    """Return the statistics that a survey's points can answer."""
    attribute = campaign.attribute
    of_places = attribute.coordinates is not None
    if not isinstance(campaign, ValueCampaign) or not (of_places or campaign.dimension == 1):
        return ()
    statistics = {
        name: replace(_choice(family, name), **_INPUTS.get(name, {}))
        for name, family in STATISTICS.built_in.items()
        if family.suits(attribute)
    }
    return (
        *statistics.values(),
        *(_OF_PLACES if of_places else _OF_NUMBERS),
        *(_CHANGES_OF_PLACES if of_places else _CHANGES_OF_NUMBERS),
        *(
            replace(statistics[name], word=f"changes-{name}")
            for name in CHANGED
            if name in statistics
        ),
    )


def added_choices(campaign: AttributeCampaign) -> Iterator[PointChoice]:
    """Yield the statistics of other packages; one whose package fails says so when it is chosen."""
    for name in STATISTICS.names[len(STATISTICS.built_in) :]:
        word = f"{ADDED}{name}"
        try:
            family = STATISTICS[name]
        except UnsupportedError:
            yield PointChoice(word, name)
            continue
        if family.suits(campaign.attribute):
            made = _choice(family, word)
            own = family.parameters
            usage = f"{family.usage}, with commas" if own else ""
            optional = all(p.default is not p.empty for p in own.values())
            yield replace(made, said=made.said or usage, optional=optional)


def _choice(family: StatisticFamily, word: str) -> PointChoice:
    return PointChoice(word, family.title or family.summary, family.takes_text, family.example)
