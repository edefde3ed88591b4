"""Test geoveil mask on files of every kind: remaining values, and estimates."""

import csv
import json
import sqlite3
import struct
from functools import partial

import numpy as np
import pytest

from geoveil.analyst import form_reports_of, reports_of, sidecar_of
from geoveil.campaign import PointQuestion
from geoveil.gp import (
    AzimuthalEquidistant,
    GaussianKernel,
    ParameterError,
    PrivateValueError,
    UnsupportedError,
)
from tests.campaigns import HOME_AND_INCOME

N = 1_000
COLUMNS = ("--columns", "lon,lat")
PLACE = ("--epsilon", "1", "--per", "500", "--center=2.35,48.86", "--radius", "15000")
PLANE = AzimuthalEquidistant(2.35, 48.86, 15_000)
FORM = f"""{HOME_AND_INCOME}[[field]]
kind = "number"
name = "rent"
unit = "dollar"
ratios_above = 100
epsilon = 1
per = 2
"""


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(4)
    places = PLANE.unproject(rng.normal(0, 2_000, (N, 2)))
    return places, rng.uniform(20_000, 90_000, N), rng.uniform(300, 2_000, N)


@pytest.fixture
def mask(geoveil):
    return partial(geoveil, "mask", to_server=False)


def rows_of(file):
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def write(file, header, rows, between=","):
    with file.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream, delimiter=between)
        table.writerow(header)
        table.writerows(rows)


def geopackage(file, places, incomes):
    """Write what GDAL writes: a spatial index with triggers, extents, and an index of its own."""
    with sqlite3.connect(file) as opened:
        opened.executescript(
            "CREATE TABLE gpkg_contents (table_name TEXT, min_x, min_y, max_x, max_y);"
            "CREATE TABLE gpkg_geometry_columns (table_name, column_name, srs_id, z, m);"
            "CREATE TABLE gpkg_extensions (table_name TEXT, extension_name TEXT);"
            "CREATE TABLE homes (fid INTEGER PRIMARY KEY, geom BLOB, income REAL, note TEXT);"
            "CREATE VIRTUAL TABLE rtree_homes_geom USING rtree(id, minx, maxx, miny, maxy);"
            "CREATE TRIGGER rtree_homes_geom_update AFTER UPDATE OF geom ON homes"
            " BEGIN SELECT ST_IsEmpty(NEW.geom); END;"
            "INSERT INTO gpkg_contents VALUES ('homes', 2, 48, 3, 49);"
            "INSERT INTO gpkg_geometry_columns VALUES ('homes', 'geom', 4326, 1, 0);"
            "INSERT INTO gpkg_extensions VALUES ('homes', 'gpkg_rtree_index');"
        )
        for number, ((x, y), income) in enumerate(zip(places, incomes, strict=True), 1):
            envelope = struct.pack("<dddd", x, x, y, y) if number % 2 else b""
            flags = 1 + 2 * (number % 2)
            head = b"GP\0" + bytes([flags]) + struct.pack("<i", 4326) + envelope
            shape = head + struct.pack("<BIdd", 1, 1, x, y)
            opened.execute("INSERT INTO homes VALUES (?, ?, ?, 'kept')", (number, shape, income))
            opened.execute("INSERT INTO rtree_homes_geom VALUES (?,?,?,?,?)", (number, x, x, y, y))
    opened.close()


def made(folder, kind, people):
    """Write the people to a file of a kind; return it, and the name of the place in it."""
    places, incomes, rents = people
    table = list(zip(places.tolist(), incomes.tolist(), rents.tolist(), strict=True))
    file = folder / f"homes.{'csv' if kind in ('odk', 'kobo', 'text') else kind}"
    if kind == "odk":
        header = ("KEY", "home-Latitude", "home-Longitude", "home-Accuracy", "income", "rent")
        write(file, header, [(i, y, x, 98765.4, *m) for i, ((x, y), *m) in enumerate(table)])
    elif kind == "kobo":
        header = ("home", "_home_latitude", "_home_longitude", "_home_altitude", "income", "rent")
        rows = [(f"{y} {x} 98765.4 4.9", y, x, 98765.4, *more) for (x, y), *more in table]
        write(file, header, rows, ";")
    elif kind == "text":
        write(file, ("home", "income", "rent"), [(f"{y} {x} 0 0", *m) for (x, y), *m in table])
    elif kind == "geojson":
        features = [
            {"type": "Feature", "bbox": [x, y, x, y], "properties": {"income": m, "rent": r},
             "geometry": {"type": "Point", "coordinates": [x, y, 98765.4]}}
            for (x, y), m, r in table
        ]  # fmt: skip
        file.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    else:
        geopackage(file, places.tolist(), incomes.tolist())
    return file


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("kind", ["gpkg", "kobo", "odk", "text", "geojson"])
def test_no_value_is_left_and_estimates_are_those_of_the_people(
    kind, geoveil, mask, people, tmp_path
):
    places, incomes, rents = people
    file, form = made(tmp_path, kind, people), tmp_path / "form.toml"
    form.write_text(FORM if kind != "gpkg" else FORM[: FORM.rindex("[[field]]")])
    out = tmp_path / f"masked{file.suffix}"
    assert f"{N:,} rows" in mask(file, "--form", form, "--out", out).stdout
    content = out.read_bytes()
    for (x, y), income in list(zip(places.tolist(), incomes.tolist(), strict=True))[:300]:
        assert struct.pack("<d", x) not in content
        for value in (x, y, income):
            assert repr(value).encode() not in content
    for told in (b"98765.4", b'"bbox"', b"rtree"):
        assert told not in content
    reports = form_reports_of(out)
    assert reports.n == N
    home = reports.columns[:, :2] * reports.campaign.fields[0].mechanism.step
    moved = np.linalg.norm(home - PLANE.project(places), axis=1)
    # Gamma(2) of scale 500: deviation √2·500; 5 errors of n = 1,000.
    assert abs(moved.mean() - 1_000) < 5 * 707.2 / np.sqrt(N)
    income = reports.columns[:, 2] * reports.campaign.fields[1].mechanism.step - incomes
    assert abs(np.abs(income).mean() - 8_000) < 5 * 8_000 / np.sqrt(N)
    assert abs(income.mean()) < 5 * 8_000 * np.sqrt(2 / N)
    if kind != "gpkg":
        logs = reports.columns[:, 3] * reports.campaign.fields[2].mechanism.step - np.log(rents)
        assert abs(np.abs(logs).mean() - np.log(2)) < 5 * np.log(2) / np.sqrt(N)
    if kind == "odk":
        assert "income" in geoveil("form", "ask", out, to_server=False).stdout
        with pytest.raises(UnsupportedError):
            geoveil("estimate", out, to_server=False)


def test_a_mask_of_places_is_estimated(geoveil, mask, people, tmp_path):
    file, out = tmp_path / "homes.csv", tmp_path / "masked.csv"
    write(file, ("id", "lon", "lat"), [(i, *place) for i, place in enumerate(people[0].tolist())])
    said = mask(file, *COLUMNS, *PLACE, "--out", out)
    assert "hides nothing from them" in said.stderr
    row, *_ = rows_of(out)
    assert row["id"] == "0"
    asked = ("estimate", out, "--circle", "2.35,48.86,2500", "--json")
    assert "within 2500 m" in geoveil(*asked, to_server=False).output
    bell = GaussianKernel((0.0, 0.0), 1_500.0)
    found = reports_of(out).ask([PointQuestion("here", bell)])
    truth = bell.value(PLANE.project(people[0])).mean()
    assert abs(found.values[0] - truth) < 5 * found.standard_errors[0]
    told = PLANE.project([[float(row["lon"]), float(row["lat"])] for row in rows_of(out)])
    moved = np.linalg.norm(told - PLANE.project(people[0]), axis=1)
    assert moved.mean() > 850  # a control: the noise, 1,000 metres on average, is on them
    beside = json.loads(sidecar_of(out).read_text())
    assert beside["rows"] == N
    assert beside["noise"]["place"]["half within"] == pytest.approx(839.17, abs=0.01)
    assert reports_of(out).campaign.dimension == 2


def test_rows_without_a_value_are_named_or_left_out(mask, tmp_path):
    file, out = tmp_path / "homes.csv", tmp_path / "masked.csv"
    write(file, ("lon", "lat"), [(2.35, 48.86), ("", ""), (2.36, 48.87), (2.36, "")])
    asked = (file, *COLUMNS, *PLACE, "--out", out)
    with pytest.raises(PrivateValueError, match="2 rows have none, the first is row 2"):
        mask(*asked)
    assert not out.exists()
    mask(*asked, "--drop-empty")
    assert len(rows_of(out)) == 2


@pytest.mark.parametrize(
    ("cells", "error"),
    [(("secret", "48.86"), "row 1 of place: a longitude"), (("inf", "48.86"), "row 1 of place"),
     (("481.5", "48.86"), "a longitude in")],
)  # fmt: skip
def test_what_is_no_place_is_refused_without_being_shown(mask, tmp_path, cells, error):
    file = tmp_path / "homes.csv"
    write(file, ("lon", "lat"), [cells, (2.35, 48.86)])
    with pytest.raises(PrivateValueError, match=error) as refused:
        mask(file, *COLUMNS, *PLACE, "--out", tmp_path / "out.csv")
    assert cells[0] not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        (("--columns", "lon,lot"), "columns"),
        (("--columns", "lon"), "columns"),
        (("--place", "house"), "field"),
        ((*COLUMNS, "--out", "homes.geojson"), "out"),
        ((*COLUMNS, "--out", "homes.csv"), "out"),
        ((*COLUMNS, "--form", "form.toml"), "epsilon"),
    ],
)
def test_what_is_not_there_is_named(mask, tmp_path, monkeypatch, more, name):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "homes.csv", ("lon", "lat"), [(2.35, 48.86)] * 2)
    (tmp_path / "form.toml").write_text(FORM)
    with pytest.raises(ParameterError) as refused:
        mask("homes.csv", *PLACE, "--out", "masked.csv", *more)
    assert refused.value.name.removeprefix("--") == name
    assert sorted(one.name for one in tmp_path.iterdir()) == ["form.toml", "homes.csv"]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("shp", b""),
        ("geojson", b"[]"),
        ("gpkg", b"no database at all"),
        ("csv", b"\xff"),
        ("csv", b""),
        ("csv", b"lon,lat\n2.35\n"),
    ],
)
def test_files_of_other_kinds_are_refused(mask, tmp_path, kind, content):
    broken = tmp_path / f"broken.{kind}"
    broken.write_bytes(content)
    with pytest.raises(ParameterError, match="whose name ends in" if kind == "shp" else None):
        mask(broken, *PLACE, "--out", tmp_path / f"out.{kind}")


def test_a_file_that_is_no_mask_has_no_reports(tmp_path):
    file = tmp_path / "homes.csv"
    write(file, ("a",), [("x",)])
    sidecar_of(file).write_text("{}")
    with pytest.raises(ParameterError, match="that 'geoveil mask' wrote"):
        reports_of(file)


def test_categories_are_not_masked(mask, tmp_path):
    form, file = tmp_path / "form.toml", tmp_path / "homes.csv"
    form.write_text('[[field]]\nkind="choice"\nname="a"\noptions=["x","y"]\nepsilon=1\n')
    write(file, ("a",), [("x",), ("y",)])
    with pytest.raises(ParameterError, match="numbers and places"):
        mask(file, "--form", form, "--out", tmp_path / "out.csv")
