"""What is asked in place of a question, in three numbers that people can type."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from geoveil.gp import (
    Disc,
    GaussianKernel,
    Polygon,
    Query,
    Range,
    SmoothedRegion,
    Threshold,
)


def shape_of(query: Query | SmoothedRegion) -> tuple[str, list[float], float | None]:
    """Return profile, where it lies, and how wide its band or bell is.

    Where: the threshold, both ends of a range, the radius of a disc; of other shapes nothing.
    """
    return _SHAPES.get(type(query), lambda q: ("formula", [], None))(query)


_SHAPES: Mapping[type, Callable[[Any], tuple[str, list[float], float | None]]] = MappingProxyType(
    {
        Threshold: lambda q: (q.profile.name, [q.at], q.width),
        Range: lambda q: (q.profile.name, [q.low, q.high], q.width),
        Disc: lambda q: (q.profile.name, [q.radius], q.width),
        Polygon: lambda q: (q.profile.name, [], q.width),
        GaussianKernel: lambda q: ("bell", [], q.bandwidth),
        SmoothedRegion: lambda q: ("smoothed", [], q.bandwidth),
    }
)
