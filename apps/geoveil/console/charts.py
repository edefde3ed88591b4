"""Pictures of results as SVG, drawn on the server, with colours that need no style sheet.

A picture shows only the rows of its result. A page's style sheet changes the colours in dark mode;
a saved file keeps the colours defined here.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from geoveil.analyst import (
    COLOR,
    Curve,
    DensityMap,
    DistrictShares,
    PartitionShares,
    Result,
    lines_of,
    outlines_of,
    place_for_name,
)
from geoveil.console.layer import MapFeature
from geoveil.console.rendering import significant

if TYPE_CHECKING:
    from geoveil.console.progress import ReportsOverTime

Array = NDArray[np.float64]

INK, SOFT, LINE, OTHER = "#1b2430", "#4d5b6a", "#d5dae1", "#d55e00"
"""Colours of text, axes, grid and highlights, distinct from `COLOR` for colour-blind people."""
_WIDTH, _RIGHT, _TOP, _BOTTOM = 720.0, 16.0, 34.0, 46.0
_HIGHEST = 640.0
"""The most height of a map."""
_FONT = "system-ui, sans-serif"
_LETTER = 7.0
"""Approximate width of a letter."""
_MOST_LINES = 200
_MOST_LETTERS, _HEAD = 40, 96
"""The most letters of a label, and of the sentence above a picture."""
_FITS = 'class="fits"'
"""Marks a picture for narrow pages, with room for larger letters."""


@dataclass(frozen=True)
class _Scale:
    """Maps numbers along an axis to coordinates in the picture."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        part = (value - self.low) / (self.high - self.low)
        return self.begin + min(max(part, -0.02), 1.02) * (self.end - self.begin)

    def free(self, value: float) -> float:
        """Return the coordinate of a number that may lie far outside the axis."""
        part = (value - self.low) / (self.high - self.low)
        return self.begin + min(max(part, -50.0), 50.0) * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """Some round numbers within the axis.

        Example:
            >>> _Scale(0.0, 1.0, 0.0, 100.0).ticks
            [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        raw = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(raw))
        step = min((power * times for times in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) for number in range(first, last + 1)]


def _scale(values: Iterable[float | None], begin: float, end: float, *, zero: bool) -> _Scale:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if not high > low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    room = 0.04 * (high - low)
    return _Scale(low - (room if low else 0.0), high + room, begin, end)


def round_numbers(low: float, high: float) -> list[float]:
    """Return some round numbers between two.

    Example:
        >>> round_numbers(-3_000.0, 118_000.0)
        [0.0, 25000.0, 50000.0, 75000.0, 100000.0]
    """
    return _Scale(low, high, 0.0, 1.0).ticks


def number(value: float) -> str:
    """Return the label of a number on an axis.

    Example:
        >>> number(-0.25), number(-25_000.0)
        ('−0.25', '−25,000')
    """
    if 0 < abs(value) < 1e-3:
        return significant(value)
    return f"{value:,{'.6g' if abs(value) < 1e4 else '.0f'}}".replace("-", "−")


def picture_of(result: Result) -> Markup | None:
    """Return the picture of a result; None if its kind has none."""
    if isinstance(result, DensityMap):
        return density_map(result)
    if isinstance(result, DistrictShares):
        return district_map(result)
    if isinstance(result, Curve):
        return curve(result)
    rows = result.rows()
    if not rows or len(rows) > _MOST_LINES or not {"estimate", "ci_low", "ci_high"} <= set(rows[0]):
        return None
    if isinstance(result, PartitionShares):
        return bars(result.title, rows)
    return intervals(result.title, rows, result.axis_label)


def intervals(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    drawn: str,
    *,
    head: str = "",
    percent: bool = False,
) -> Markup:
    """Return a picture with one line per row: a dot for the estimate, a bar for the interval.

    Args:
        rows: with "estimate", "ci_low" and "ci_high".
        drawn: the caption of the axis.
        head: the sentence above the picture.
        percent: whether the estimates are shares.
    """
    rows = [_in_percent(row) for row in rows] if percent else rows
    labels = [_cut(label_of(row)) for row in rows]
    left = 24 + _LETTER * max(map(len, labels), default=0)
    height = _TOP + 26 * len(rows) + _BOTTOM
    ends = [row[key] for row in rows for key in ("estimate", "ci_low", "ci_high")]
    x = _scale(ends, left, _WIDTH - _RIGHT, zero=False)
    unit = " %" if percent else ""
    parts = [_text(24, 20, _cut(head, _HEAD)), _vertical_grid(x, _TOP, height - _BOTTOM, unit)]
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        y = _TOP + 26 * place + 13
        parts.append(_text(left - 10, y + 4, label, "end"))
        value, low, high = row["estimate"], row["ci_low"], row["ci_high"]
        if value is None or not math.isfinite(value):
            continue
        if None not in (low, high) and math.isfinite(high - low):
            parts.append(
                f'<path class="one" d="M{x.at(low):.1f} {y}H{x.at(high):.1f}" stroke="{COLOR}"'
                ' stroke-width="3" fill="none"/>'
            )
        parts.append(f'<circle class="one" cx="{x.at(value):.1f}" cy="{y}" r="5" fill="{COLOR}"/>')
    parts.append(_text(x.begin, height - 10, drawn, "start", soft=True))
    return _svg(title, height, parts)


def bars(title: str, rows: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the shares of a partition as horizontal bars with intervals."""
    labels = [_cut(label_of(row)) for row in rows]
    left = 24 + _LETTER * max(map(len, labels), default=0)
    height = _TOP + 30 * len(rows) + _BOTTOM
    x = _scale([row["ci_high"] for row in rows], left, _WIDTH - _RIGHT, zero=True)
    parts = [_vertical_grid(x, _TOP, height - _BOTTOM)]
    for place, (row, label) in enumerate(zip(rows, labels, strict=True)):
        y = _TOP + 30 * place + 15
        begin, end = sorted((x.at(0.0), x.at(row["estimate"])))
        parts += [
            _text(left - 10, y + 4, label, "end"),
            f'<rect class="one" x="{begin:.1f}" y="{y - 10}" width="{end - begin:.1f}" height="20"'
            f' fill="{COLOR}" fill-opacity="0.45"/>',
            f'<path class="ink" d="M{x.at(row["ci_low"]):.1f} {y}H{x.at(row["ci_high"]):.1f}"'
            f' stroke="{INK}" stroke-width="2" fill="none"/>',
        ]
    parts.append(_text(x.begin, height - 10, "share of people and interval", "start", soft=True))
    return _svg(title, height, parts)


def curve(result: Curve) -> Markup:
    """Return a curve with its simultaneous band.

    Its `data-` attributes hold the axis ranges, for the script that follows the pointer.
    """
    name = result.privacy.unit if result.privacy is not None and result.axis == "value" else ""
    unit = f", {name}" if name else ""
    height, left = 380.0, 74.0
    finite = np.isfinite(result.low) & np.isfinite(result.high) & np.isfinite(result.values)
    at, values = result.at[finite], result.values[finite]
    low, high = result.low[finite], result.high[finite]
    x = _scale([*at[[0, -1]].tolist()] if len(at) else [], left, _WIDTH - _RIGHT, zero=False)
    ends = [*low.tolist(), *high.tolist()]
    y = _scale(ends, height - _BOTTOM, _TOP, zero=True)
    line = " ".join(f"{x.at(a):.1f},{y.at(v):.1f}" for a, v in zip(at, values, strict=True))
    ring = [*zip(at, high, strict=True), *zip(at[::-1], low[::-1], strict=True)]
    band = " ".join(f"{x.at(a):.1f},{y.at(v):.1f}" for a, v in ring)
    parts = [
        _horizontal_grid(y, left),
        _vertical_ticks(x, height - _BOTTOM),
        f'<polygon class="one" points="{band}" fill="{COLOR}" fill-opacity="0.22"/>',
        f'<polyline class="one" points="{line}" fill="none" stroke="{COLOR}" stroke-width="2.5"/>',
        _text(_WIDTH - _RIGHT, height - 10, f"{result.axis}{unit}", "end", soft=True),
        _text(left, 20, f"{result.name.partition(',')[0].lower()}, with its band", soft=True),
    ]
    span = " ".join(
        f'data-{name}="{value!r}"'
        for name, value in (
            ("low", x.low), ("high", x.high), ("begin", x.begin), ("end", x.end),
            ("top", _TOP), ("bottom", height - _BOTTOM),
        )
    )  # fmt: skip
    return _svg(result.title, height, parts, f"{_FITS} {span}")


def over_time(
    title: str, rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, percent: bool = False
) -> Markup:
    """Return the estimates of successive periods with their intervals.

    Args:
        title: also shown above the picture.
        rows: with "estimate", "ci_low" and "ci_high".
        names: the names of the periods.
        percent: whether the estimates are shares.
    """
    rows = [_in_percent(row) for row in rows] if percent else rows
    height, left = 300.0, 74.0
    ends = [row[key] for row in rows for key in ("estimate", "ci_low", "ci_high")]
    y = _scale(ends, height - _BOTTOM, _TOP, zero=False)
    step = (_WIDTH - _RIGHT - left) / max(len(rows), 1)
    unit = " %" if percent else ""
    parts = [_text(24, 20, _cut(title, _HEAD)), _horizontal_grid(y, left, unit)]
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        x = left + step * (place + 0.5)
        if place % max(len(rows) // 6, 1) == 0:
            parts.append(_text(x, height - 26, _cut(name, 16), "middle", soft=True))
        if row["estimate"] is None:
            continue
        if row["ci_low"] is not None and math.isfinite(row["ci_high"] - row["ci_low"]):
            parts.append(
                f'<path class="one" d="M{x:.1f} {y.at(row["ci_low"]):.1f}'
                f'V{y.at(row["ci_high"]):.1f}" stroke="{COLOR}" stroke-width="3" fill="none"/>'
            )
        parts.append(
            f'<circle class="one" cx="{x:.1f}" cy="{y.at(row["estimate"]):.1f}" r="4"'
            f' fill="{COLOR}"/>'
        )
    return _svg(title, height, parts)


def filling(result: "ReportsOverTime") -> Markup | None:
    """Return the reports over time, with the plan as a dashed line; None before the first."""
    line = [*result.line()]
    if len(line) < 2 and result.planned is None:
        return None
    height, left = 260.0, 74.0
    opens, closes = result.campaign.opens, result.campaign.closes
    x = _Scale(opens.timestamp(), closes.timestamp(), left, _WIDTH - _RIGHT - 30)
    ends = [float(count) for _, count in line]
    y = _scale([*ends, float(result.planned or 1)], height - _BOTTOM, _TOP, zero=True)
    points = [(x.at(when.timestamp()), y.at(count)) for when, count in line]
    parts = [_horizontal_grid(y, left)]
    for part in (0.0, 0.25, 0.5, 0.75, 1.0):
        when = opens + part * (closes - opens)
        date = f"{when:%Y-%m-%d}" if closes - opens > timedelta(days=5) else f"{when:%d %b %H:%M}"
        parts.append(_text(x.at(when.timestamp()), height - 26, date, "middle", soft=True))
    if result.planned is not None:
        parts.append(
            f'<path class="other" d="M{x.begin:.1f} {y.at(0):.1f}L{x.end:.1f}'
            f' {y.at(result.planned):.1f}" stroke="{OTHER}" stroke-width="1.6" fill="none"'
            ' stroke-dasharray="6 4"/>'
        )
        parts.append(_text(left, 20, "reports in all; dashed: the plan", soft=True))
    else:
        parts.append(_text(left, 20, "reports in all", soft=True))
    drawn = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts.append(
        f'<polyline class="one" points="{drawn}" fill="none" stroke="{COLOR}" stroke-width="2.5"/>'
    )
    a, b = points[-1]
    parts.append(f'<circle class="one" cx="{a:.1f}" cy="{b:.1f}" r="5" fill="{COLOR}"/>')
    return _svg(result.title, height, parts)


def density_map(result: DensityMap, layer: Sequence[MapFeature] = ()) -> Markup:
    """Return a density map that frames the significantly denser cells and draws coastlines.

    Args:
        layer: additional named places and lines.
    """
    left = 74.0
    x, y = _map_scales(result.bounds, left, _WIDTH - _RIGHT - left)
    width, height = x.end - left, y.begin - _TOP
    rows, columns = result.values.shape
    wide, high = width / columns, height / rows
    most = float(result.values.max()) or 1.0
    surely = result.significance
    cells = []
    for i in range(rows):
        for j in range(columns):
            part = float(result.values[i, j]) / most
            top = _TOP + height - (i + 1) * high
            if part > 0.02:
                cells.append(
                    f'<rect x="{left + j * wide:.1f}" y="{top:.1f}" width="{wide + 0.3:.1f}"'
                    f' height="{high + 0.3:.1f}" fill-opacity="{part:.2f}"/>'
                )
    parts = [
        f'<rect class="paper" x="{left}" y="{_TOP}" width="{width:.1f}" height="{height:.1f}"'
        f' fill="#f6f7f9" stroke="{LINE}"/>',
        f'<g class="one" fill="{COLOR}">{"".join(cells)}</g>',
        f'<path class="other" d="{_frames(surely > 0, left, _TOP + height, wide, high)}"'
        f' stroke="{OTHER}" stroke-width="1.6" fill="none"/>',
    ]
    outlines, source = outlines_of(result.bounds)
    if outlines is not None:
        lines = "".join(
            "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b, *_ in line)
            for line in lines_of(outlines)
        )
        parts.append(
            f'<clipPath id="area"><rect x="{left}" y="{_TOP}" width="{width:.1f}"'
            f' height="{height:.1f}"/></clipPath><path class="soft" clip-path="url(#area)"'
            f' d="{lines}" stroke="{SOFT}" stroke-width="0.8" fill="none"/>'
        )
    parts += _layer(layer, result.bounds, x, y)
    parts += [_vertical_ticks(x, _TOP + height, "°"), _horizontal_ticks(y, left, "°")]
    below = _TOP + height + 40
    framed = f"Framed: surely denser than {result.compared_with}."
    parts.append(_text(left, 20, framed, soft=True))
    parts.append(
        _text(
            left,
            below,
            f"At the densest place: {number(float(f'{100 * most:.2g}'))} % of the people per km².",
            soft=True,
        )
    )
    parts.append(_text(left, below + 22, source, soft=True))
    return _svg(result.title, below + 32, parts, _FITS)


def _layer(
    layer: Sequence[MapFeature], bounds: Sequence[float], x: _Scale, y: _Scale
) -> Iterator[str]:
    """Yield the places and lines of a layer, clipped to the map."""
    west, south, east, north = bounds
    clip = f"M{x.begin:.1f} {y.begin:.1f}H{x.end:.1f}V{y.end:.1f}H{x.begin:.1f}Z"
    lines, names = [], []
    for part in layer:
        inside = [(a, b) for a, b in part.points if west <= a <= east and south <= b <= north]
        if len(part.points) > 1 and inside:
            at = "L".join(f"{x.free(a):.1f} {y.free(b):.1f}" for a, b in part.points)
            lines.append(f"M{at}")
        elif inside:
            ((a, b),) = inside
            names += [
                f'<circle class="ink" cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="4" fill="{INK}"/>',
                _text(x.at(a) + 7, y.at(b) + 4, _cut(part.name, 24), halo=True),
            ]
    if lines:
        yield (
            f'<clipPath id="layer"><path d="{clip}"/></clipPath><path class="ink"'
            f' clip-path="url(#layer)" d="{"".join(lines)}" stroke="{INK}" stroke-width="1.4"'
            ' fill="none"/>'
        )
    yield from names


def district_map(result: DistrictShares) -> Markup:
    """Return a map of districts, shaded by their share of the people."""
    rings = [
        (
            row,
            place_for_name(parts),
            [
                np.asarray(ring.coords)[:, :2]
                for part in parts
                for ring in (part.exterior, *part.interiors)
            ],
        )
        for parts, row in zip(result.shapes(), result.rows(), strict=False)
    ]
    every = np.concatenate([ring for _, _, of_one in rings for ring in of_one])
    (west, south), (east, north) = every.min(axis=0).tolist(), every.max(axis=0).tolist()
    x, y = _map_scales((west, south, east, north), 16.0, _WIDTH - 32.0)
    most = max(*(row["estimate"] for row, _, _ in rings), 0.25 / len(rings))
    parts, names = [], []
    for row, middle, of_one in rings:
        lines = "".join(
            "M" + "L".join(f"{x.at(a):.1f} {y.at(b):.1f}" for a, b in ring.tolist()) + "Z"
            for ring in of_one
        )
        parts.append(
            f'<path class="one" d="{lines}" fill="{COLOR}" fill-opacity='
            f'"{0.08 + 0.8 * max(row["estimate"], 0.0) / most:.2f}" stroke="{SOFT}"/>'
        )
        caption = f"{_cut(str(row['name']), 18)} {100 * row['estimate']:.1f} %"
        names.append(_text(x.at(middle[0]), y.at(middle[1]), caption, "middle", halo=True))
    return _svg(result.title, y.begin + 16, [*parts, *names], _FITS)


def _map_scales(bounds: Sequence[float], left: float, width: float) -> tuple[_Scale, _Scale]:
    """Return the axes of a map of that width, or narrower if it would be too high."""
    west, south, east, north = bounds
    stretch = math.cos(math.radians((south + north) / 2))
    height = width * (north - south) / max((east - west) * stretch, 1e-9)
    if height > _HIGHEST:
        width, height = width * _HIGHEST / height, _HIGHEST
    return _Scale(west, east, left, left + width), _Scale(south, north, _TOP + height, _TOP)


def label_of(row: Mapping[str, Any]) -> str:
    """Return the values before the estimate in a row, joined by commas."""
    parts = []
    for key, value in row.items():
        if key == "estimate":
            break
        parts.append(f"{value:g}" if isinstance(value, float) else str(value))
    return ", ".join(parts)


def _frames(inside: NDArray[np.bool_], left: float, bottom: float, wide: float, high: float) -> str:
    """Return an SVG path along the border between cells inside and outside."""
    padded = np.pad(inside, 1)
    paths = []
    for i, j in zip(*np.nonzero(padded[1:, :] != padded[:-1, :]), strict=True):
        paths.append(f"M{left + (j - 1) * wide:.1f} {bottom - i * high:.1f}h{wide:.1f}")
    for i, j in zip(*np.nonzero(padded[:, 1:] != padded[:, :-1]), strict=True):
        paths.append(f"M{left + j * wide:.1f} {bottom - (i - 1) * high:.1f}v{-high:.1f}")
    return "".join(paths)


def _cut(label: str, letters: int = _MOST_LETTERS) -> str:
    return label if len(label) <= letters else label[: letters - 1] + "…"


def _text(
    x: float, y: float, words: str, anchor: str = "start", *, soft: bool = False, halo: bool = False
) -> str:
    colour, name = (SOFT, "soft") if soft else (INK, "ink")
    around = ' stroke="#ffffff" stroke-width="3" paint-order="stroke" class="halo"' if halo else ""
    kind = "" if halo else f' class="{name}"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{kind}{around}>'
        f"{escape(words)}</text>"
    )


def _in_percent(row: Mapping[str, Any]) -> Mapping[str, Any]:
    shares = {key: row[key] for key in ("estimate", "ci_low", "ci_high")}
    return {**row, **{key: share and 100 * share for key, share in shares.items()}}


def _vertical_grid(x: _Scale, top: float, bottom: float, unit: str = "") -> str:
    lines = "".join(f"M{x.at(tick):.1f} {top}V{bottom}" for tick in x.ticks)
    grid = f'<path class="line" d="{lines}" stroke="{LINE}" fill="none"/>'
    return grid + _vertical_ticks(x, bottom, unit)


def _vertical_ticks(x: _Scale, bottom: float, unit: str = "") -> str:
    return "".join(
        _text(x.at(tick), bottom + 18, number(tick) + unit, "middle", soft=True) for tick in x.ticks
    )


def _horizontal_grid(y: _Scale, left: float, unit: str = "") -> str:
    lines = "".join(f"M{left} {y.at(tick):.1f}H{_WIDTH - _RIGHT}" for tick in y.ticks)
    grid = f'<path class="line" d="{lines}" stroke="{LINE}" fill="none"/>'
    return grid + _horizontal_ticks(y, left, unit)


def _horizontal_ticks(y: _Scale, left: float, unit: str = "") -> str:
    return "".join(
        _text(left - 8, y.at(tick) + 4, number(tick) + unit, "end", soft=True) for tick in y.ticks
    )


def _svg(title: str, height: float, parts: Iterable[str], more: str = "") -> Markup:
    return Markup(  # noqa: S704 - all text in it went through escape
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}"'
        f' font-family="{_FONT}" font-size="13" role="img" {more}><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )
