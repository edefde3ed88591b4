"""Write the perturbed reports of a form as a table of answers, in the words of XLSForm."""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from geoveil.analyst.relations.form_reports import FormReports
from geoveil.analyst.relations.terms import Columns
from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import CategoryField, Field, MultipleField, NumberField, PlaceField
from geoveil.gp import UnaryEncoding

_BITS = 62
"""Options in each integer of a report with a bit for each option."""


def write_answers(reports: FormReports, file: Path) -> None:
    """Write reports to a CSV file in the format of XLSForm, with a column for each field.

    A place is "latitude longitude 0 0", and several options are separated by spaces. Answers are as
    devices sent them: they contain noise, and counts of options are not those of people.

    Args:
        reports: of the form.
        file: is replaced whole.

    Raises:
        ParameterError: if it can't be written.
    """
    campaign = reports.campaign
    columns = [
        _cells(field, reports.columns[:, campaign.columns_of(field.name)])
        for field in campaign.fields
    ]
    with (
        whole_file("out", file) as beside,
        beside.open("w", newline="", encoding="utf-8") as stream,
    ):
        table = csv.writer(stream)
        table.writerow([field.name for field in campaign.fields])
        table.writerows(zip(*columns, strict=True))


def _cells(field: Field, part: Columns) -> Iterator[str]:
    if isinstance(field, NumberField):
        values, scale = part[:, 0] * field.mechanism.step, field.attribute.scale
        return map(repr, (values if scale is None else scale.from_log(values)).tolist())
    if isinstance(field, PlaceField):
        plane = field.attribute.coordinates
        assert plane is not None
        places = plane.unproject(part * field.mechanism.step)
        return (f"{lat:.7f} {lon:.7f} 0 0" for lon, lat in places.tolist())
    assert isinstance(field, CategoryField)
    options = np.array(field.options)
    if isinstance(field, MultipleField) or isinstance(field.mechanism, UnaryEncoding):
        bits = np.concatenate([of[:, None] >> np.arange(_BITS) & 1 for of in part.T], axis=1)
        return (" ".join(options[np.flatnonzero(row[: len(options)])]) for row in bits)
    return iter(options[part[:, 0]].tolist())
