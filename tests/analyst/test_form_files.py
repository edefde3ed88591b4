"""Test forms in TOML files and XLSForm workbooks: reading, writing, and refusal by row."""

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from typer.testing import CliRunner

from geoveil.analyst import FormRowsError, fields_of_toml, form_of_workbook, toml_of, workbook_of
from geoveil.campaign import ChoiceField, Condition, NumberField, OrdinalField, Wording
from geoveil.cli.form import app
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, LogScale, ParameterError
from tests.campaign.test_forms import HOUSEHOLD, INCOME, RENTS

PLANE = AzimuthalEquidistant(2.35, 48.86, 15_000)
HEADINGS = (
    "type", "name", "label::English (en)", "label::Deutsch (de)",
    "relevant", "constraint", "default", "epsilon", "per",
)  # fmt: skip
SURVEY: Sequence[Sequence[Any]] = (
    ("start", "start"),
    ("begin_group", "all of it", "Household"),
    ("integer", "income", "Earned?", "Einkommen?", None, ". >= 0 and . <= 500000", None, 1,
     "8000 dollar"),
    ("geopoint", "home", "Where?", None, None, None, None, 1, "500 metres"),
    ("select_one yes_no", "rents", "Do you rent?", "Mieten Sie?", None, None, None, 2),
    ("decimal", "rent", "Rent?", None, "${rents} = 'yes'", ". >= 0 and . <= 5000", 900, 1,
     "1000 dollar"),
    ("end_group",),
    ("select_one five", "mood", "How are you?", None, None, None, None, 1, "step"),
    ("select_one why", "why", "Why?", None, "${mood} = '1' or selected(${mood}, '2')", None, None,
     1),
    ("select_multiple why", "all_reasons", "All reasons?", None, None, None, None, 0.5),
    ("select_one yes_no", "region", "North?", None, None, None, None, "open"),
    ("text", "comment", "Anything else?"),
    ("image", "photo", "A photo"),
)  # fmt: skip
CHOICES: Sequence[Sequence[Any]] = (
    ("list_name", "name", "label::English (en)", "label::Deutsch (de)"),
    ("yes_no", "yes", "Yes", "Ja"),
    ("yes_no", "no", "No", "Nein"),
    *(("five", i, f"{i} of 5") for i in range(1, 6)),
    ("why", "money", "Money"),
    ("why", "noise", "Noise"),
)


def workbook(
    file: Path, survey: Sequence[Sequence[Any]], headings: Sequence[str] = HEADINGS
) -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "survey"
    for row in (headings, *survey):
        sheet.append(list(row))
    choices = book.create_sheet("choices")
    for row in CHOICES:
        choices.append(list(row))
    settings = book.create_sheet("settings")
    settings.append(["form_title", "default_language"])
    settings.append(["Household survey", "English (en)"])
    book.save(file)
    return file


def test_toml_and_back() -> None:
    assert fields_of_toml(toml_of(HOUSEHOLD.fields)) == HOUSEHOLD.fields


def test_ratios_are_stated_as_a_factor() -> None:
    (debt,) = fields_of_toml("""
        [[field]]
        kind = "number"
        name = "debt"
        unit = "dollar"
        ratios_above = 100
        epsilon = 1
        per = 1.25
        """)
    assert isinstance(debt, NumberField)
    assert debt.attribute.scale == LogScale(100)
    assert debt.privacy == GeoPrivacy.per_factor(1, 1.25, "dollar")
    (again,) = fields_of_toml(toml_of([debt]))
    assert again.privacy is not None
    assert again.privacy.per == pytest.approx(debt.privacy.per, rel=1e-15, abs=0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "tables of the form"),
        ("x = ", "TOML"),
        ("field = 3", "tables of the form"),
        ("[[field]]\nkind = 'photo'\nname = 'a'", "field a: kind must be one of number"),
        ("[[field]]\nkind = 'choice'\nname = 'a'\noptions = ['x', 'y']", "field a: epsilon"),
        (
            "[[field]]\nkind = 'choice'\nname = 'a'\noptions = 'xy'\nepsilon = 1",
            "field a: options must be a list",
        ),
        (
            "[[field]]\nkind = 'choice'\nname = 'a'\noptions = ['x']\nepsilon = 1",
            "field a: options must be 2 to 10,000",
        ),
        (
            "[[field]]\nkind = 'place'\nname = 'a'\nepsilon = 1\nper = 5\narea = {radius = 3}",
            "field a: area",
        ),
        (
            "[[field]]\nkind = 'number'\nname = 'a'\nunit = 'm'\nepsilon = 1\nper = 5\nhue = 1",
            "field a: keys",
        ),
        (
            "[[field]]\nkind = 'number'\nname = 'a'\nunit = 'euro'\nepsilon = 'open'\nper = 5",
            "field a: epsilon",
        ),
        (
            2 * "[[field]]\nkind = 'choice'\nname = 'a'\noptions = ['x', 'y']\nepsilon = 1\n",
            "names",
        ),
    ],
)
def test_toml_that_is_no_form_is_refused_by_field_and_key(text: str, says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        fields_of_toml(text)


def test_a_workbook_becomes_a_form(tmp_path: Path) -> None:
    read = form_of_workbook(workbook(tmp_path / "survey.xlsx", SURVEY), PLANE)
    assert read.title == "Household survey"
    assert [sentence.split(":")[0] for sentence in read.left_out] == ["row 2", "row 13", "row 14"]
    income, home, rents, rent, mood, why, reasons, region = read.fields
    assert income == replace(
        INCOME,
        wordings=(
            Wording(language="en", text="Earned?"),
            Wording(language="de", text="Einkommen?"),
        ),
    )
    assert home.privacy == GeoPrivacy(1, 500, "metre")
    assert replace(rents, wordings=()) == RENTS
    assert rents.wordings[1] == Wording(language="de", text="Mieten Sie?", options=("Ja", "Nein"))
    assert isinstance(rent, NumberField)
    assert (rent.applies, rent.otherwise) == (Condition(field="rents", options=("yes",)), 900)
    assert isinstance(mood, OrdinalField)
    assert isinstance(why, ChoiceField)
    assert why.applies == Condition(field="mood", options=("1", "2"))
    assert (why.options[-1], why.otherwise) == ("not_asked", "not_asked")
    assert reasons.epsilon_if_not_asked == 1.0
    assert region.privacy is None


def test_a_form_becomes_a_workbook_and_back(tmp_path: Path) -> None:
    fields = tuple(f for f in HOUSEHOLD.fields if f.name != "goes by")
    workbook_of(fields, file := tmp_path / "form.xlsx", "Household")
    read = form_of_workbook(file, PLANE)
    assert (read.title, read.left_out) == ("Household", ())
    assert read.fields == fields


def test_units_have_columns_in_each_language(tmp_path: Path) -> None:
    headings = ("type", "name", "label", "label::Deutsch (de)", "unit::Deutsch (de)", "constraint")
    row = ("integer", "income", "Earned?", "Einkommen?", "Euro", ". >= 0 and . <= 9", 1, "2 dollar")
    file = workbook(tmp_path / "survey.xlsx", [row], (*headings, "epsilon", "per"))
    (income,) = form_of_workbook(file).fields
    german = Wording(language="de", text="Einkommen?", unit="Euro")
    assert income.wordings == (Wording(text="Earned?"), german)
    workbook_of([income], back := tmp_path / "back.xlsx")
    assert form_of_workbook(back).fields == (income,)
    assert fields_of_toml(toml_of([income])) == (income,)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("integer", "age", "Age?", None, None, None, None, None, "2 year"), "row 2: integer age"),
        (("integer", "age", "Age?", None, None, None, None, 1), "per must be a distance"),
        (("integer", "age", "Age?", None, None, None, None, -1, "2 year"), "epsilon"),
        (("geopoint", "home", "Where?", None, None, None, None, 1, "500 mile"), "metre"),
        (("select_one none", "x", "X?", None, None, None, None, 1), "2 to 10,000 names"),
        (("select_one five", "x", "X?", None, "${y} = '1'", None, None, 1), "relevant"),
        (("end_group",), "can't be read"),
    ],
)
def test_rows_that_no_field_can_be_made_of_are_named(
    tmp_path: Path, row: Sequence[Any], says: str
) -> None:
    with pytest.raises(FormRowsError, match=says) as caught:
        form_of_workbook(workbook(tmp_path / "survey.xlsx", [row, row]), PLANE)
    assert len(caught.value.faults) == 2  # each, not only the first


@pytest.mark.parametrize(
    "relevant",
    [
        "${income} > 50000",
        "${rents} = 'yes' and ${mood} = '1'",
        "${later} = 'yes'",
        "not(${rents} = 'yes')",
        "concat(${rents}, 'yes')",
    ],
)
def test_conditions_other_than_comparisons_are_refused(tmp_path: Path, relevant: str) -> None:
    survey = [
        ("integer", "income", "?", None, None, ". >= 0 and . <= 9", None, 1, "1 dollar"),
        ("select_one yes_no", "rents", "?", None, None, None, None, 2),
        ("select_one five", "mood", "?", None, None, None, None, 1, "step"),
        ("select_multiple why", "why", "?", None, relevant, None, None, 1),
    ]
    with pytest.raises(FormRowsError, match="row 5: select_multiple why why: relevant must be"):
        form_of_workbook(workbook(tmp_path / "survey.xlsx", survey), PLANE)


def test_two_conditions_on_one_row_are_refused(tmp_path: Path) -> None:
    survey = [
        ("select_one yes_no", "rents", "?", None, None, None, None, 2),
        ("begin_group", "g", None, None, "${rents} = 'yes'"),
        ("select_multiple why", "why", "?", None, "${rents} = 'no'", None, None, 1),
        ("end_group",),
    ]
    with pytest.raises(FormRowsError, match="relevant"):
        form_of_workbook(workbook(tmp_path / "survey.xlsx", survey), PLANE)


def _with(name: str, content: bytes) -> Callable[[Path], None]:
    """Return what writes a workbook with another part."""

    def spoil(file: Path) -> None:
        with zipfile.ZipFile(workbook(file, SURVEY), "a", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr(name, content)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.write_bytes(b"type,name\ninteger,age\n"),
        lambda file: openpyxl.Workbook().save(file),
        _with("xl/vbaProject.bin", b"x"),
        _with("xl/media/zeros.bin", bytes(21_000_000)),
        _with("xl/more.xml", b"<!DOCTYPE x [<!ENTITY a 'a'>]><x/>"),
        _with("xl/media/photo.bin", np.random.default_rng(1).bytes(2_100_000)),
    ],
    ids=["text", "no survey", "macros", "bomb", "entities", "large"],
)
def test_files_that_are_no_small_workbook_are_refused(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(file := tmp_path / "survey.xlsx")
    with pytest.raises(ParameterError, match=r"an \.xlsx file with a sheet 'survey'"):
        form_of_workbook(file, PLANE)


def test_the_command_makes_a_form_of_a_workbook_and_back(tmp_path: Path) -> None:
    made, file = CliRunner(), workbook(tmp_path / "survey.xlsx", SURVEY)
    form, back, again = (str(tmp_path / n) for n in ("form.toml", "back.xlsx", "again.toml"))
    where = ["--center", "2.35,48.86", "--radius", "15000"]
    done = made.invoke(app, ["from", str(file), "--out", form, *where])
    assert done.exit_code == 0, done.output
    assert "rents: ε = 2 per 1 option" in done.output
    assert "row 13: text comment: left out" in done.output
    assert made.invoke(app, ["to", form, back]).exit_code == 0
    assert made.invoke(app, ["from", back, "--out", again, *where]).exit_code == 0
    assert Path(form).read_text() == Path(again).read_text()
