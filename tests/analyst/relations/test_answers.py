"""Test reports of a form as data of XLSForm: each cell stands for the sent integers."""

import csv
from pathlib import Path

import numpy as np

from geoveil.analyst import FormReports, sample_of, write_answers
from geoveil.campaign import PlaceField

from .forms import choice, form, multiple, number, ordinal, place, reported

FORM = form(
    number("age", 5.0),
    place("home", 500.0),
    choice("rents", 3, 1.0),
    choice("school", 70, 1.0),
    ordinal("mood", 5, 1.0),
    multiple("rides", 4, 1.0),
    choice("side", 2, None),
)


def _written(reports: FormReports, file: Path) -> list[dict[str, str]]:
    write_answers(reports, file)
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_answers_have_the_names_of_fields_and_options(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(2), 50
    people = [rng.uniform(20, 80, n), rng.normal(0, 3_000, (n, 2))]
    people += [rng.integers(0, k, n) for k in (3, 70, 5, 16, 2)]
    reports = reported(FORM, people, rng)
    rows = _written(reports, tmp_path / "data.csv")
    assert [*rows[0]] == [field.name for field in FORM.fields]
    home = FORM.field("home")
    assert isinstance(home, PlaceField)
    plane = home.attribute.coordinates
    assert plane is not None
    for row, sent in zip(rows, reports.columns.tolist(), strict=True):
        age, east, north, rents, *school, mood, rides, side = sent
        assert float(row["age"]) == age * FORM.field("age").mechanism.step  # type: ignore[attr-defined]
        latitude, longitude = map(float, row["home"].split()[:2])
        at = plane.project(np.array([[longitude, latitude]]))[0] / home.mechanism.step
        assert np.abs(at - (east, north)).max() * home.mechanism.step < 0.02
        assert row["rents"] == f"o{rents}"
        assert row["mood"] == f"o{mood}"
        assert row["side"] == f"o{side}"
        on = [k for k in range(70) if school[k // 62] >> k % 62 & 1]
        assert row["school"].split() == [f"o{k}" for k in on]
        assert row["rides"].split() == [f"o{k}" for k in range(4) if rides >> k & 1]


def test_a_plan_reads_what_was_written(tmp_path: Path) -> None:
    """Answers in the clear of an earlier survey come in this form."""
    fields = (choice("rents", 3, None), multiple("rides", 4, None), number("age", 1e-6))
    people = [np.array([0, 2]), np.array([5, 8]), np.array([41.0, 67.5])]
    reports = reported(form(*fields), people, np.random.default_rng(1))
    write_answers(reports, tmp_path / "data.csv")
    first, second = sample_of(fields, tmp_path / "data.csv")
    assert (first["rents"], first["rides"]) == ("o0", ["o0", "o2"])
    assert (second["rents"], second["rides"]) == ("o2", ["o3"])
    assert abs(second["age"] - 67.5) < 1e-3
