"""Masks: files of places and numbers to which their holder adds the noise of a form's fields.

A JSON file beside a masked file holds the form, which describes the noise. With it, `reports_of`
and `form_reports_of` read the masked file like an export.
"""

import base64
import csv
import json
import math
import shutil
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import FormCampaign, PointField, decode, digest, encode, what_a_form_tells
from geoveil.gp import Array, AzimuthalEquidistant, ParameterError, PrivateValueError

_DIGITS = 9
"""Decimals of longitudes and latitudes: the last is a tenth of a millimetre."""
_SPLIT = (
    ("{0}{1}-Longitude", "{0}{1}-Latitude", ("{0}{1}-Altitude", "{0}{1}-Accuracy")),
    ("{0}_{1}_longitude", "{0}_{1}_latitude", ("{0}_{1}_altitude", "{0}_{1}_precision")),
)
"""The columns into which ODK Central and KoboToolbox split a place, and its companions."""
_WGS84 = 4326
_HEADER = b"GP\x00\x01" + _WGS84.to_bytes(4, "little")
"""The header of a geometry in a GeoPackage: little-endian, without an envelope."""
_ENVELOPE_BYTES = (0, 32, 48, 48, 64)


class ColumnTable(ABC):
    """A file of rows, all of it in memory."""

    @abstractmethod
    def numbers(self, name: str) -> list[Any]:
        """Return the cells of a column of numbers."""

    @abstractmethod
    def places(self, name: str) -> list[Sequence[Any]]:
        """Return the longitudes and latitudes of a column of places."""

    @abstractmethod
    def write(self, file: Path, kept: Sequence[bool], masked: Mapping[str, Array]) -> None:
        """Write rows to a new file.

        Args:
            kept: whether to write each row.
            masked: name of a column → its new numbers, (kept rows, 1), or longitudes and
                latitudes, (kept rows, 2), which replace every copy of the old ones.
        """


class NamedColumns(ColumnTable):
    """Rows of cells below a header of names."""

    _header: list[str]
    _rows: list[list[Any]]

    def _at(self, name: str) -> int:
        if name not in self._header:
            raise ParameterError("field", name, f"among the {self._permitted()}")
        return self._header.index(name)

    def _permitted(self) -> str:
        return "columns of the file: " + ", ".join(self._header[:50])

    def numbers(self, name: str) -> list[Any]:
        at = self._at(name)
        return [row[at] for row in self._rows]


class CsvTable(NamedColumns):
    """CSV with a header, as ODK and KoboToolbox export it: commas, semicolons or tabs."""

    def __init__(self, file: Path, columns: Mapping[str, tuple[str, str]]) -> None:
        self._columns = columns
        with file.open(newline="", encoding="utf-8-sig") as stream:
            first = stream.readline()
            stream.seek(0)
            self._between = max(",;\t", key=first.count)
            lines = filter(None, csv.reader(stream, delimiter=self._between))
            self._header = next(lines, [])
            self._rows = list(lines)
        for number, row in enumerate(self._rows, 1):
            if len(row) != len(self._header):
                expected = f"{len(self._header)}, as many as the header has"
                raise ParameterError(f"number of cells in row {number}", len(row), expected)

    def _split(self, name: str) -> tuple[list[int], list[int]]:
        """Return the columns of longitude, latitude, altitude and the like, if there are any."""
        folder, slash, last = name.rpartition("/")
        named = [(*self._columns[name], ())] if name in self._columns else _SPLIT
        for longitude, latitude, more in named:
            pair = [of.format(folder + slash, last) for of in (longitude, latitude)]
            if set(pair) <= set(self._header):
                others = [of.format(folder + slash, last) for of in more]
                return [*map(self._at, pair)], [self._at(of) for of in others if of in self._header]
        if name in self._columns:
            raise ParameterError("columns", ",".join(self._columns[name]), self._permitted())
        return [], []

    def places(self, name: str) -> list[Sequence[Any]]:
        pair, _ = self._split(name)
        if pair:
            return [(row[pair[0]], row[pair[1]]) for row in self._rows]
        return [text.split()[1::-1] or ("", "") for text in self.numbers(name)]

    def write(self, file: Path, kept: Sequence[bool], masked: Mapping[str, Array]) -> None:
        rows = list(compress(self._rows, kept))
        for name, values in masked.items():
            for at, cells in self._cells(name, values):
                for row, cell in zip(rows, cells, strict=True):
                    row[at] = cell
        with file.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=self._between)
            writer.writerow(self._header)
            writer.writerows(rows)

    def _cells(self, name: str, values: Array) -> Iterator[tuple[int, Sequence[str]]]:
        """Yield columns, each with its new cells."""
        if values.shape[1] == 1:
            yield self._at(name), list(map(repr, values[:, 0].tolist()))
            return
        x, y = ([f"{degrees:.{_DIGITS}f}" for degrees in axis] for axis in values.T.tolist())
        pair, more = self._split(name)
        yield from zip(pair, (x, y), strict=False)
        if not pair or name in self._header:
            yield self._at(name), [f"{north} {east} 0 0" for east, north in zip(x, y, strict=True)]
        yield from ((at, [""] * len(x)) for at in more)


class GeoJsonTable(ColumnTable):
    """A collection of features, with places as geometries and numbers as properties."""

    def __init__(self, file: Path, columns: Mapping[str, tuple[str, str]]) -> None:
        try:
            self._held = json.loads(file.read_text(encoding="utf-8"))
            self._features = self._held["features"]
            kinds = {(of["geometry"] or {"type": "Point"})["type"] for of in self._features}
        except (ValueError, KeyError, TypeError):
            raise ParameterError("file", str(file), "a FeatureCollection of GeoJSON") from None
        if kinds - {"Point"}:
            raise ParameterError("geometries", sorted(kinds), "points")

    def numbers(self, name: str) -> list[Any]:
        held = [of.get("properties") or {} for of in self._features]
        if not any(name in properties for properties in held):
            raise ParameterError("field", name, "a property of the features")
        return [properties.get(name) for properties in held]

    def places(self, name: str) -> list[Sequence[Any]]:
        held = ((of["geometry"] or {}).get("coordinates") for of in self._features)
        return [place[:2] if place else ("", "") for place in held]

    def write(self, file: Path, kept: Sequence[bool], masked: Mapping[str, Array]) -> None:
        features = list(compress(self._features, kept))
        for name, values in masked.items():
            for of, value in zip(features, values.tolist(), strict=True):
                if len(value) == 1:
                    of["properties"][name] = value[0]
                else:
                    rounded = [round(degrees, _DIGITS) for degrees in value]
                    of["geometry"] = {"type": "Point", "coordinates": rounded}
                    of.pop("bbox", None)
                    self._held.pop("bbox", None)
        file.write_text(json.dumps(self._held | {"features": features}), encoding="utf-8")


class GeoPackageTable(NamedColumns):
    """The one table of points of a GeoPackage, in degrees on WGS 84; its geometry is the place."""

    def __init__(self, file: Path, columns: Mapping[str, tuple[str, str]]) -> None:
        self._file = file
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as opened:
            try:
                layers = opened.execute(
                    "SELECT table_name, column_name, srs_id FROM gpkg_geometry_columns"
                ).fetchall()
            except sqlite3.DatabaseError:
                raise ParameterError("file", str(file), "a GeoPackage") from None
            if len(layers) != 1 or layers[0][2] != _WGS84:
                raise ParameterError(
                    "layers", [(of[0], of[2]) for of in layers], f"one, in EPSG:{_WGS84}"
                )
            self._layer, self._shape, _ = layers[0]
            cursor = opened.execute(f"SELECT rowid, * FROM {_quoted(self._layer)}")  # noqa: S608
            self._header = [of[0] for of in cursor.description][1:]
            rows = cursor.fetchall()
        self._keys = [key for key, *_ in rows]
        self._rows = [cells for _, *cells in rows]

    def places(self, name: str) -> list[Sequence[Any]]:
        return [_point(blob) for blob in self.numbers(self._shape)]

    def write(self, file: Path, kept: Sequence[bool], masked: Mapping[str, Array]) -> None:
        from shapely import points, to_wkb

        layer, held = _quoted(self._layer), file.with_suffix(".held")
        keys = list(compress(self._keys, kept))
        gone = [(key,) for key, wanted in zip(self._keys, kept, strict=True) if not wanted]
        try:
            shutil.copyfile(self._file, held)
            with closing(sqlite3.connect(held)) as opened:
                self._forget_index(opened)
                for name, values in masked.items():
                    column, cells = name, values[:, 0].tolist()
                    if values.shape[1] == 2:
                        column = self._shape
                        blobs: Any = to_wkb(points(values), byte_order=1)
                        cells = [_HEADER + blob for blob in blobs]
                    change = f"UPDATE {layer} SET {_quoted(column)} = ? WHERE rowid = ?"  # noqa: S608
                    opened.executemany(change, zip(cells, keys, strict=True))
                opened.executemany(f"DELETE FROM {layer} WHERE rowid = ?", gone)  # noqa: S608
                opened.execute(
                    "UPDATE gpkg_contents SET min_x = NULL, min_y = NULL, max_x = NULL, max_y ="
                    " NULL WHERE table_name = ?",
                    (self._layer,),
                )
                opened.execute("UPDATE gpkg_geometry_columns SET z = 0, m = 0")
                opened.commit()
                # Into a new file: free pages still contain the old values.
                opened.execute("VACUUM INTO ?", (str(file),))
        finally:
            held.unlink(missing_ok=True)

    def _forget_index(self, opened: sqlite3.Connection) -> None:
        """Drop the index, a second copy of the places, and triggers that SQLite can't run alone."""
        index = f"rtree_{self._layer}_{self._shape}"
        made = opened.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in made:
            if name.startswith(("rtree_", "trigger_insert_feature_", "trigger_delete_feature_")):
                opened.execute(f"DROP TRIGGER {_quoted(name)}")
        opened.execute(f"DROP TABLE IF EXISTS {_quoted(index)}")
        for table in ("gpkg_extensions", "gpkg_ogr_contents"):
            if opened.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                opened.execute(f"DELETE FROM {table} WHERE table_name = ?", (self._layer,))  # noqa: S608


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _point(blob: bytes | None) -> Sequence[Any]:
    """Return the longitude and latitude of a geometry of a GeoPackage."""
    from shapely import from_wkb

    if blob is None or len(blob) < 8 or blob[3] & 0x10:  # empty
        return ("", "")
    place = from_wkb(blob[8 + _ENVELOPE_BYTES[(blob[3] >> 1) & 7] :])
    if place.geom_type != "Point":
        raise ParameterError("kind of a geometry", place.geom_type, "a point")
    return place.coords[0][:2] if place.coords else ("", "")


_KINDS: Mapping[str, type[Any]] = {
    ".csv": CsvTable,
    ".tsv": CsvTable,
    ".geojson": GeoJsonTable,
    ".json": GeoJsonTable,
    ".gpkg": GeoPackageTable,
}


def table_of(file: Path, columns: Mapping[str, tuple[str, str]]) -> ColumnTable:
    """Return the rows of a file, whose extension states its kind: see `mask_file`."""
    if file.suffix.lower() not in _KINDS:
        raise ParameterError("file", str(file), f"one whose name ends in {', '.join(_KINDS)}")
    try:
        read: ColumnTable = _KINDS[file.suffix.lower()](file, columns)
    except (OSError, UnicodeDecodeError, csv.Error, sqlite3.Error) as error:
        raise ParameterError("file", str(file), f"to be read ({type(error).__name__})") from None
    return read


NOT_HIDDEN = (
    "This is a tool for whoever holds the values, and hides nothing from them.",
    "Other columns are as they were: an address, a district or a photo still reveals a place.",
    "Each row counts as one person. For a person with several rows, and for a file masked twice, "
    "every ε adds up: mask once, and keep the result.",
    "The number of rows and their order are not hidden.",
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
        file: CSV, GeoJSON or GeoPackage, with one row per person.
        out: a file of the same kind, which is replaced as a whole.
        form: its fields are the columns: numbers and places.
        columns: name of a place → the columns of its longitude and latitude, in CSV, if it is not a
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
    if not (whole.all() or drop_empty):
        first = int(np.flatnonzero(~whole)[0]) + 1
        lacking = f"{(~whole).sum():,} rows have none, the first is row {first}"
        raise PrivateValueError(f"a value in every row: {lacking}; or leave those rows out")
    masked = {field.name: _masked(field, held[field.name][whole]) for field in fields}
    with whole_file("out", out) as beside:
        table.write(beside, whole.tolist(), masked)
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
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        read = json.loads(beside.read_text(encoding="utf-8"))
        form = decode(base64.b64decode(read[_FORM]))
        columns = {name: (x, y) for name, (x, y) in read[_COLUMNS].items()}
        if isinstance(form, FormCampaign):
            return form, columns
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


def _masked(field: PointField, values: Array) -> Array:
    """Return values with exact noise, (n, 1 or 2)."""
    points = np.asarray(field.release_many(values) * field.mechanism.step, np.float64)
    plane, scale = field.attribute.coordinates, field.attribute.scale
    if plane is not None:
        return plane.unproject(points)
    return points if scale is None else scale.from_log(points)


def _points(field: PointField, values: Array) -> Array:
    """Return the points of masked values, including those that noise moved outside the area."""
    plane, scale = field.attribute.coordinates, field.attribute.scale
    if plane is not None:
        wide = min(plane.radius_m + _SCALES * field.noise_scale, _WIDEST_M)
        return AzimuthalEquidistant(plane.longitude_deg, plane.latitude_deg, wide).project(values)
    return values if scale is None else np.log(values)
