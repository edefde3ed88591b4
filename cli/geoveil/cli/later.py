"""Questions that are asked of a value campaign later, as people write them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoveil.campaign import PointQuestion, ValueCampaign
from geoveil.cli.campaign_text import listed, parse_place
from geoveil.gp import GaussianKernel, ParameterError, Polygon, Range, SmoothedRegion, Threshold

_KIND = "GeoJSON: a Polygon or MultiPolygon, or features of them"


def questions(
    campaign: ValueCampaign,
    *,
    thresholds: Sequence[float] = (),
    ranges: Sequence[str] = (),
    width: float | None = None,
    places: Sequence[str] = (),
    regions: Sequence[Path] = (),
    bandwidth: float | None = None,
) -> list[PointQuestion]:
    """Return the questions, in the campaign's coordinates.

    Args:
        campaign: a value campaign.
        thresholds: values to be above.
        ranges: 'LOW,HIGH': values to be between.
        width: of the soft band around them; 3·per/ε if None, or a range's own width if that is
            less.
        places: 'x,y' or 'label=x,y'; longitude and latitude where the campaign is about places.
        regions: GeoJSON files; of places, corners in degrees, joined by straight lines of the
            campaign's plane.
        bandwidth: of the bells at places, and by which edges of regions are smoothed; 3·per/ε if
            None.

    Raises:
        ParameterError: if one can't be read, or is of no sound shape.
    """
    soft = 3 / campaign.point_mechanism.privacy.rate
    band = soft if width is None else width
    bell = soft if bandwidth is None else bandwidth
    found = [
        PointQuestion(f"above {at:,.15g}", Threshold(at, band, "smoothstep")) for at in thresholds
    ]
    for low, high in map(_ends, ranges):
        ends = min(soft, high - low) if width is None else width
        found.append(
            PointQuestion(f"{low:,.15g} to {high:,.15g}", Range(low, high, ends, "smoothstep"))
        )
    for label, where in map(parse_place, places):
        center = _projected(campaign, [where])[0]
        found.append(PointQuestion(label, GaussianKernel(tuple(center), bell)))
    for path in regions:
        for label, parts in _shapes(path):
            rings = [[_projected(campaign, ring) for ring in part] for part in parts]
            polygon = Polygon(rings, width=1.0)
            found.append(PointQuestion(label, SmoothedRegion(polygon, bell)))
    return found


def caution(campaign: ValueCampaign, width: float | None, bandwidth: float | None) -> str | None:
    """Return what to say of a band or bell that is narrower than the noise, if one is.

    The noise is undone by numbers that are large where the question varies. If hardly a point lies
    there, those at hand say little of how far the estimate may be off.
    """
    scale = 1 / campaign.point_mechanism.privacy.rate
    narrow = [
        f"--{name} {value:g}"
        for name, value in (("width", width), ("bandwidth", bandwidth))
        if value is not None and value < scale
    ]
    if not narrow:
        return None
    return (
        f"note: {' and '.join(narrow)} is below PER/ε = {scale:g}: unless very many points lie"
        " within it, the error is larger than the interval says"
    )


def _ends(text: str) -> tuple[float, float]:
    low, high = listed("between", text, 2, "LOW,HIGH")
    if not low < high:
        raise ParameterError("between", text, "LOW,HIGH with LOW < HIGH")
    return low, high


def _projected(campaign: ValueCampaign, corners: Any) -> list[list[float]]:
    plane = campaign.attribute.coordinates
    found: list[list[float]] = [list(corner) for corner in corners]
    return found if plane is None else plane.project(found).tolist()


def _shapes(path: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield label and parts (lists of rings) of every shape in a file."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ParameterError("region", str(path), _KIND) from error
    features = _features(content)
    for number, feature in enumerate(features):
        geometry = feature.get("geometry") or {}
        kind, coordinates = geometry.get("type"), geometry.get("coordinates")
        if kind not in ("Polygon", "MultiPolygon") or not isinstance(coordinates, list):
            raise ParameterError("region", f"{path}: {kind}", _KIND)
        name = (feature.get("properties") or {}).get("name")
        fallback = path.stem if len(features) == 1 else f"{path.stem} {number}"
        parts = [coordinates] if kind == "Polygon" else coordinates
        try:
            # A third coordinate is a height.
            found = [[[(float(x), float(y)) for x, y, *_ in r] for r in part] for part in parts]
        except (TypeError, ValueError) as error:
            raise ParameterError("region", str(path), _KIND) from error
        yield str(name or fallback), found


def _features(content: Any) -> list[Mapping[str, Any]]:
    if not isinstance(content, Mapping):
        return [{}]
    if content.get("type") == "FeatureCollection":
        found = content.get("features")
        return [f if isinstance(f, Mapping) else {} for f in found] if found else [{}]
    return [content if content.get("type") == "Feature" else {"geometry": content}]
