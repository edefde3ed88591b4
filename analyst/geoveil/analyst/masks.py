"""Masks: files of places and numbers to which their holder adds the noise of a form's fields.

A JSON file beside a masked file holds the form, which describes the noise. With it, `reports_of`
and `form_reports_of` read the masked file like an export.
"""

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.mask_tables import ColumnTable, table_of
from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import (
    FormCampaign,
    PointField,
    decode,
    digest,
    encode,
    what_a_form_tells,
)
from geoveil.gp import Array, AzimuthalEquidistant, ParameterError, PrivateValueError

NOT_HIDDEN = (
    "This is a tool for whoever holds the values, and hides nothing from them.",
    "Other columns are as they were: an address, a district or a photo still tells a place.",
    "A row is taken for a person. Of a person with several rows, and of a file that is masked"
    " again, every ε adds up: mask once, and keep the result.",
    "How many rows there are, and their order, is not hidden.",
)
"""The limits of a mask, as sentences for those who make or read it."""
_FORM, _COLUMNS = "form", "columns"
_WIDEST_M = 5e6
"""Radius of the largest area."""
_SCALES = 64
"""How far beyond its area noise can move a place, in noise scales: one in 10²⁵ lies farther."""


def sidecar_of(file: Path) -> Path:
    """Return the path of the file that describes the noise of a masked file."""
    return file.with_name(file.name + ".mask.json")


def mask_file(
    file: Path,
    out: Path,
    form: FormCampaign,
    columns: Mapping[str, tuple[str, str]],
    *,
    drop_empty: bool = False,
) -> int:
    """Write a file with exact noise on a form's columns, and a file that describes the noise.

    Args:
        file: CSV, GeoJSON or GeoPackage, with one row per person; see `mask_tables`.
        out: a file of the same kind, which is replaced as a whole.
        form: its fields are the columns: numbers and places.
        columns: name of a place → the columns of its longitude and latitude, in CSV, if it is no
            column of ODK or KoboToolbox.
        drop_empty: leave out rows without one of the values, instead of refusing them.

    Returns:
        How many rows were written.

    Raises:
        ParameterError: if a field has another kind, or a file or column does not exist.
        PrivateValueError: if a cell is not a value of its field; it states the row, but no value.
    """
    fields = [field for field in form.fields if isinstance(field, PointField)]
    if len(fields) < len(form.fields):
        others = [field.name for field in form.fields if field not in fields]
        raise ParameterError("fields", others, "numbers and places: no other kind is masked")
    if out.suffix.lower() != file.suffix.lower() or out.resolve() == file.resolve():
        raise ParameterError("out", str(out), f"another file, ending in {file.suffix}")
    table = table_of(file, columns)
    held = {field.name: _values(table, field) for field in fields}
    whole = np.isfinite(np.column_stack([*held.values()])).min(axis=1)
    if not whole.all():
        if not drop_empty:
            first = int(np.flatnonzero(~whole)[0]) + 1
            lacking = f"{(~whole).sum():,} rows have none, the first is row {first}"
            raise PrivateValueError(f"a value in every row: {lacking}; or leave those rows out")
        table.keep(list(whole))
    for field in fields:
        drawn = field.release_many(held[field.name][whole])
        _set(table, field, np.asarray(drawn * field.mechanism.step, np.float64))
    with whole_file("out", out) as beside:
        table.write(beside)
    said = {
        "what": "a file masked by 'geoveil mask': its sums and shares are not those of people;"
        " 'geoveil estimate' and 'geoveil form ask' take the noise off",
        "rows": int(whole.sum()),
        "promises": what_a_form_tells(form),
        "not promised": NOT_HIDDEN,
        "noise": {field.name: _noise(field) for field in fields},
        _COLUMNS: dict(columns),
        "sha256": digest(form.encoded).hex(),
        _FORM: base64.b64encode(encode(form)).decode(),
    }
    with whole_file("out", sidecar_of(out)) as beside:
        beside.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(whole.sum())


def masked_form(file: Path) -> FormCampaign | None:
    """Return the form of a masked file; None without the file that describes it."""
    return None if (read := _sidecar(file)) is None else read[0]


def masked_columns(file: Path) -> tuple[NDArray[np.int64], ...]:
    """Return the columns of a masked file, on the grid of its form."""
    read = _sidecar(file)
    if read is None:
        raise ParameterError("file", str(file), "a masked one")
    form, columns = read
    table = table_of(file, columns)
    parts = []
    for field in form.fields:
        assert isinstance(field, PointField)
        points = _points(field, _values(table, field)) / field.mechanism.step
        parts += list(np.rint(points).astype(np.int64).T)
    return tuple(parts)


def _sidecar(file: Path) -> tuple[FormCampaign, Mapping[str, tuple[str, str]]] | None:
    beside = sidecar_of(file)
    if not beside.is_file():
        return None
    try:
        read = json.loads(beside.read_text(encoding="utf-8"))
        form = decode(base64.b64decode(read[_FORM]))
        columns = {name: (x, y) for name, (x, y) in read[_COLUMNS].items()}
        if isinstance(form, FormCampaign):
            return form, columns
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise ParameterError("file", str(beside), "one that 'geoveil mask' wrote")


def _noise(field: PointField) -> dict[str, Any]:
    law = field.mechanism
    return {
        "law": "Laplace" if field.dimension == 1 else "planar Laplace",
        "scale": field.noise_scale,
        "unit": field.unit,
        "half within": law.radius_quantile(0.5),
        "95 % within": law.radius_quantile(0.95),
        "mean displacement": field.dimension * field.noise_scale,
    }


def _values(table: ColumnTable, field: PointField) -> Array:
    """Return the values of a column, (n, 1 or 2); NaN where there is none. Private."""
    cells: Iterable[Sequence[Any]] = (
        table.places(field.name)
        if field.dimension == 2
        else ([cell] for cell in table.numbers(field.name))
    )
    values = [_numbers(field, row, cell) for row, cell in enumerate(cells, 1)]
    return np.array(values, np.float64).reshape(-1, field.dimension)


def _numbers(field: PointField, row: int, cells: Sequence[Any]) -> list[float]:
    if any(cell is None or cell == "" for cell in cells):
        return [math.nan] * field.dimension
    try:
        numbers = [float(cell) for cell in cells]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != field.dimension or not all(map(math.isfinite, numbers)):
        kind = "a number" if field.dimension == 1 else "a longitude and a latitude"
        raise PrivateValueError(f"row {row} of {field.name}: {kind}") from None
    return numbers


def _set(table: ColumnTable, field: PointField, points: Array) -> None:
    plane, scale = field.attribute.coordinates, field.attribute.scale
    if plane is not None:
        table.set_places(field.name, plane.unproject(points).tolist())
    else:
        values = points[:, 0] if scale is None else scale.from_log(points[:, 0])
        table.set_numbers(field.name, values.tolist())


def _points(field: PointField, values: Array) -> Array:
    """Return the points of masked values, including those that noise moved outside the area."""
    plane, scale = field.attribute.coordinates, field.attribute.scale
    if plane is not None:
        wide = min(plane.radius_m + _SCALES * field.noise_scale, _WIDEST_M)
        return AzimuthalEquidistant(plane.longitude_deg, plane.latitude_deg, wide).project(values)
    return values if scale is None else np.log(values)
