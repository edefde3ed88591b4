"""Read and write forms as XLSForm workbooks, the format of ODK and KoboToolbox.

Two columns more, `epsilon` and `per`, stand in the sheet `survey`:

    type               name    epsilon   per
    integer            income  1         8000 dollar
    geopoint           home    1         500 metre
    select_one yes_no  rents   2
    select_one five    mood    1         step
    select_one region  region  open

What can't be perturbed, such as text and photos, is left out and listed, row by row.
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from geoveil.analyst.form_files import OPEN
from geoveil.campaign import (
    Attribute,
    CategoryField,
    ChoiceField,
    Condition,
    Field,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    PointField,
    Wording,
    check_fields,
)
from geoveil.gp import AzimuthalEquidistant, GeoPrivacy, GeoVeilError, ParameterError, needed_for

MOST_BYTES, MOST_UNPACKED = 2_000_000, 20_000_000
_MOST_ROWS = 2_000
_SILENT = frozenset(
    ("note", "start", "end", "today", "deviceid", "calculate", "acknowledge", "end_group")
)
"""Types of rows that are not questions."""
_LABEL = re.compile(r"label(?:::(?P<named>.*))?")
_TAG = re.compile(r".*\((?P<tag>[\w-]+)\)\s*")
_AT_LEAST = re.compile(r"\.\s*>=?\s*(-?\d+(?:\.\d+)?)")
_AT_MOST = re.compile(r"\.\s*<=?\s*(-?\d+(?:\.\d+)?)")
_CHOSEN = re.compile(
    r"\s*(?:selected\(\s*\$\{(?P<a>[^}]+)\}\s*,\s*|\$\{(?P<b>[^}]+)\}\s*(?P<sign>!?=)\s*)"
    r"(?P<quote>['\"])(?P<option>[^'\"]*)(?P=quote)\s*\)?\s*"
)
_PER = re.compile(r"\s*(?P<length>[\d.]+)\s+(?P<unit>\S.*?)\s*")
NOT_ASKED = "not_asked"


class FormRowsError(GeoVeilError):
    """Rows of a workbook that can't become fields."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)
        """One sentence for each."""


@dataclass(frozen=True)
class ImportedForm:
    """A form imported from a workbook."""

    title: str
    """The form's title; "" if it has none."""
    fields: tuple[Field, ...]
    left_out: tuple[str, ...]
    """Unread rows, with one sentence for each."""


def form_of_workbook(file: Path, plane: AzimuthalEquidistant | None = None) -> ImportedForm:
    """Return the form that an XLSForm workbook describes. Needs openpyxl.

    Args:
        file: .xlsx, at most 2 MB and 20 MB unpacked, without macros.
        plane: of the area where places lie, if any are asked for.

    Raises:
        ParameterError: if the file is none of these.
        FormRowsError: if rows lack ε, or can't be read.
    """
    sheets = _sheets(file)
    survey, choices = sheets["survey"], _choices(sheets.get("choices", []))
    settings = [row for _, row in sheets.get("settings", [])]
    reader = _Reader(choices, plane, settings[0].get("default_language", "") if settings else "")
    for number, row in survey:
        reader.read(number, row)
    if reader.faults:
        raise FormRowsError(reader.faults)
    title = settings[0].get("form_title", "") if settings else ""
    return ImportedForm(title, check_fields(reader.fields), tuple(reader.left_out))


_Row = Mapping[str, str]


def _sheets(file: Path) -> dict[str, list[tuple[int, _Row]]]:
    expected = (
        f"an .xlsx file with a sheet 'survey', at most {MOST_BYTES:,} bytes and"
        f" {MOST_UNPACKED:,} unpacked, without macros"
    )
    with needed_for("reading XLSForm"):
        from openpyxl import load_workbook
    try:
        with zipfile.ZipFile(file) as packed:
            inside = packed.infolist()
            sound = (
                file.stat().st_size <= MOST_BYTES
                and sum(part.file_size for part in inside) <= MOST_UNPACKED
                and not any("vbaProject" in part.filename for part in inside)
                and not any(b"<!DOCTYPE" in packed.read(part) for part in inside)
            )
        if not sound:
            raise ParameterError("file", str(file), expected)
        book = load_workbook(file, read_only=True, data_only=True)
        sheets = {sheet.title: list(_rows(sheet)) for sheet in book.worksheets}
        book.close()
    except ParameterError:
        raise
    except Exception:  # noqa: BLE001 - a broken workbook fails in many ways
        raise ParameterError("file", str(file), expected) from None
    if "survey" not in sheets:
        raise ParameterError("file", str(file), expected)
    return sheets


def _rows(sheet: Any) -> Iterator[tuple[int, _Row]]:
    """Yield the rows below the headings, each with its number; cells as text."""
    headings: list[str] = []
    for number, cells in enumerate(sheet.iter_rows(max_row=_MOST_ROWS, values_only=True), 1):
        texts = ["" if cell is None else _text(cell) for cell in cells]
        if not headings:
            headings = texts
        elif any(texts):
            yield number, dict(zip(headings, texts, strict=False))


def _text(cell: object) -> str:
    whole = isinstance(cell, float) and cell.is_integer()
    return str(int(cell) if whole else cell).strip()  # type: ignore[call-overload]


def _choices(rows: Iterable[tuple[int, _Row]]) -> dict[str, list[_Row]]:
    lists: dict[str, list[_Row]] = {}
    for _, row in rows:
        name = row.get("list_name") or row.get("list name", "")
        lists.setdefault(name, []).append(row)
    return lists


@dataclass
class _Reader:
    choices: Mapping[str, list[_Row]]
    plane: AzimuthalEquidistant | None
    language: str
    fields: list[Field] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    relevant: list[str] = field(default_factory=list)
    """The conditions of the groups that enclose the row."""

    def read(self, number: int, row: _Row) -> None:
        kind, _, rest = row.get("type", "").partition(" ")
        name, whole = row.get("name", ""), row.get("type", "").replace(" ", "_")
        at = f"row {number}: {row.get('type', '')} {name}".rstrip()
        try:
            if whole.startswith("begin_group"):
                self.relevant.append(row.get("relevant", ""))
            elif whole.startswith("end_group"):
                self.relevant.pop()
            elif not kind or kind in _SILENT:
                if kind:
                    self.left_out.append(f"{at}: asks nothing")
            elif (made := self._field(kind, rest.strip(), name, row)) is None:
                self.left_out.append(f"{at}: left out, as it can't be perturbed")
            else:
                self.fields.append(made)
        except GeoVeilError as error:
            self.faults.append(f"{at}: {error}")
        except (IndexError, ValueError):
            self.faults.append(f"{at}: can't be read")

    def _field(self, kind: str, rest: str, name: str, row: _Row) -> Field | None:
        if kind in ("integer", "decimal", "range"):
            return self._number(name, row)
        if kind == "geopoint":
            return self._place(name, row)
        if kind in ("select_one", "select_multiple") and not rest.endswith("or_other"):
            return self._category(kind, self.choices.get(rest, []), name, row)
        return None

    def _common(self, row: _Row, options: Sequence[_Row] = ()) -> dict[str, Any]:
        return {"wordings": _wordings(row, options, self.language), "applies": self._applies(row)}

    def _number(self, name: str, row: _Row) -> Field:
        length, unit = _per(row)
        low, high = (e.search(row.get("constraint", "")) for e in (_AT_LEAST, _AT_MOST))
        ends = (row.get("least"), row.get("most"))
        least = float(low[1]) if low else float(ends[0]) if ends[0] else None
        most = float(high[1]) if high else float(ends[1]) if ends[1] else None
        attribute = Attribute(name=name, unit=unit, least=least, most=most)
        privacy = GeoPrivacy(_epsilon(row), length, unit)
        common = self._common(row)
        default = row.get("default")
        otherwise = float(default) if default and common["applies"] is not None else None
        return NumberField(attribute=attribute, privacy=privacy, otherwise=otherwise, **common)

    def _place(self, name: str, row: _Row) -> Field:
        if self.plane is None:
            raise ParameterError("center", None, "stated, for a form that asks for places")
        length, unit = _per(row)
        attribute = Attribute(name=name, unit="metre", coordinates=self.plane)
        privacy = GeoPrivacy(_epsilon(row), length, unit.removesuffix("s"))
        return PlaceField(attribute=attribute, privacy=privacy, **self._common(row))

    def _category(self, kind: str, rows: Sequence[_Row], name: str, row: _Row) -> Field:
        options = tuple(each.get("name", "") for each in rows)
        open_ = row.get("epsilon") == OPEN
        given: dict[str, Any] = {
            "name": name,
            "options": options,
            "epsilon": None if open_ else _epsilon(row),
            **self._common(row, rows),
        }
        if kind == "select_multiple":
            return MultipleField(**given)
        made = OrdinalField if row.get("per") == "step" else ChoiceField
        if given["applies"] is None:
            return made(**given)
        default = row.get("default", "")
        if default in options:
            return made(**given, otherwise=default)
        if made is OrdinalField:
            expected = "an option, which counts as the answer of those not asked"
            raise ParameterError("default", default, expected)
        wordings = tuple(
            replace(w, options=(*w.options, NOT_ASKED) if w.options else ())
            for w in given["wordings"]
        )
        given |= {"options": (*options, NOT_ASKED), "wordings": wordings}
        return ChoiceField(**given, otherwise=NOT_ASKED)

    def _applies(self, row: _Row) -> Condition | None:
        stated = [text for text in (*self.relevant, row.get("relevant", "")) if text]
        if not stated:
            return None
        expected = "comparisons of one earlier question with options, joined by 'or'"
        chosen = [_CHOSEN.fullmatch(part) for part in re.split(r"\bor\b", stated[-1])]
        matches = [match for match in chosen if match is not None]
        names = {match["a"] or match["b"] for match in matches}
        if len(stated) > 1 or len(matches) < len(chosen) or len(names) != 1:
            raise ParameterError("relevant", " and ".join(stated), expected)
        (name,) = names
        decides = next((f for f in self.fields if f.name == name), None)
        if not isinstance(decides, (ChoiceField, OrdinalField)):
            raise ParameterError("relevant", stated[-1], expected)
        options = [match["option"] for match in matches]
        if matches[0]["sign"] == "!=":
            options = [option for option in decides.options if option != options[0]]
        return Condition(field=name, options=tuple(options))


def _epsilon(row: _Row) -> float:
    text = row.get("epsilon", "")
    try:
        return float(text)
    except ValueError:
        raise ParameterError("epsilon", text, "a number; of options also 'open'") from None


def _per(row: _Row) -> tuple[float, str]:
    match = _PER.fullmatch(row.get("per", ""))
    if match is None:
        raise ParameterError("per", row.get("per", ""), "a distance and its unit: '8000 dollar'")
    return float(match["length"]), match["unit"]


def _wordings(row: _Row, options: Sequence[_Row], default: str) -> tuple[Wording, ...]:
    """Return the texts for people in every language with a column, the default language first."""
    headings = [heading for heading in row if _LABEL.fullmatch(heading)]
    headings.sort(key=lambda heading: (heading != "label", default not in heading))
    made = []
    for heading in headings:
        text, names = row.get(heading, ""), tuple(each.get("name", "") for each in options)
        unit = row.get(f"unit{heading.removeprefix('label')}", "")
        texts = tuple(each.get(heading) or each.get("name", "") for each in options)
        same = texts == names
        if text or unit or not same:
            tag, options_in = _language(heading), () if same else texts
            wording = Wording(language=tag, text=text, options=options_in, unit=unit)
            made.append(wording)
    return tuple(made)


def _language(heading: str) -> str:
    """Return the tag of "label::Deutsch (de)"; a name that is itself a tag stands for one."""
    named = heading.partition("::")[2].strip()
    tagged = _TAG.fullmatch(named)
    return tagged["tag"] if tagged else named


def workbook_of(fields: Sequence[Field], file: Path, title: str = "") -> None:
    """Write the XLSForm workbook of a form; `form_of_workbook` reads it back.

    Args:
        file: .xlsx; overwritten.
    """
    with needed_for("writing XLSForm"):
        from openpyxl import Workbook
    fields = check_fields(fields)
    languages = list(dict.fromkeys(w.language for of in fields for w in of.wordings)) or [""]
    labels = ["label" + (f"::{tag}" if tag else "") for tag in languages]
    book = Workbook()
    survey, choices = book.active, book.create_sheet("choices")
    assert survey is not None
    survey.title = "survey"
    units = [label.replace("label", "unit", 1) for label in labels]
    columns = ["type", "name", *labels, "relevant", "default", "least", "most", "epsilon", "per"]
    columns += units if any(w.unit for of in fields for w in of.wordings) else []
    survey.append(columns)
    choices.append(["list_name", "name", *labels])
    for of in fields:
        row = _row_of(of) | dict(_label_cells(of))
        survey.append([row.get(column) for column in columns])
        for i, option in enumerate(of.attribute_options):
            texts = {w.language: w.options[i] for w in of.wordings if w.options}
            choices.append([of.name, option, *(texts.get(tag, option) for tag in languages)])
    settings = book.create_sheet("settings")
    settings.append(["form_title", "default_language"])
    settings.append([title, languages[0]])
    book.save(file)


def _label_cells(of: Field) -> Iterator[tuple[str, str | None]]:
    for wording in of.wordings:
        column = f"::{wording.language}" if wording.language else ""
        yield f"label{column}", wording.text
        yield f"unit{column}", wording.unit or None


def _row_of(of: Field) -> dict[str, Any]:
    """Return the cells of a field's row, by their columns."""
    row: dict[str, Any] = {"name": of.name}
    if of.applies is not None:
        chosen = (f"${{{of.applies.field}}} = '{option}'" for option in of.applies.options)
        row |= {"relevant": " or ".join(chosen), "default": getattr(of, "otherwise", None)}
    if isinstance(of, PointField):
        attribute = of.attribute
        if attribute.scale is not None:
            raise ParameterError(of.name, "ratios", "a number without ratios_above, in XLSForm")
        return row | {
            "type": "decimal" if attribute.coordinates is None else "geopoint",
            "least": attribute.least,
            "most": attribute.most,
            "epsilon": of.privacy.epsilon,
            "per": f"{of.privacy.per:.15g} {attribute.unit}",
        }
    assert isinstance(of, CategoryField)  # there are no others
    kind = "select_multiple" if isinstance(of, MultipleField) else "select_one"
    return row | {
        "type": f"{kind} {of.name}",
        "epsilon": OPEN if of.epsilon is None else of.epsilon,
        "per": "step" if isinstance(of, OrdinalField) else None,
    }
