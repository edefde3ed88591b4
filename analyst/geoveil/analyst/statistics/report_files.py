"""Read export files and frames of reports, and the campaigns that they name."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from geoveil.analyst.masks import masked_columns, masked_form
from geoveil.campaign import (
    AXES,
    AttributeCampaign,
    Campaign,
    decode,
    decode_attribute_campaign,
    open_envelope,
)
from geoveil.gp import MOST_AT_ONCE, ParameterError, needed_for

_CAMPAIGN = b"geoveil.campaign"
"""The key of the campaign's bytes in the metadata of an export file."""
_MANIFEST = "_manifest.json"
"""The file that lists the campaigns of a folder of exports."""


@dataclass(frozen=True, slots=True)
class ReportRows:
    """A block of a campaign's reports: integers on its grid, without ids.

    A row is an answer of a statistic campaign, or a point of a value campaign.
    """

    periods: NDArray[np.uint32]
    query_indices: NDArray[np.uint32] | None
    """None for a value campaign."""
    columns: tuple[NDArray[np.int64], ...]
    """One column for a statistic campaign, one for each coordinate of a value campaign."""
    cohorts: NDArray[np.uint32] | None = None
    """The cohort of each report, from 0; None without cohorts."""


@runtime_checkable
class Frame(Protocol):
    """A data frame of pandas, or of Dask."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""

    def __getitem__(self, name: Any) -> Any:
        """Return a column."""


def rows_of(frame: Any) -> ReportRows:
    """Return the rows of a data frame with the columns of an export file."""
    axes = [name for name in AXES if name in frame.columns]
    if "period" not in frame.columns or not axes:
        raise ParameterError("columns", list(frame.columns), f"period and {AXES[0]}, as exported")
    columns = tuple(frame[name].to_numpy() for name in axes)
    return ReportRows(frame["period"].to_numpy(), None, columns)


def _parquet(file: Path) -> Any:
    with needed_for("reading Parquet"):
        from pyarrow import ArrowException, parquet
    try:
        return parquet.ParquetFile(file)
    except FileNotFoundError:
        permitted = "a Parquet file to read: there is no such file"
        raise ParameterError("file", str(file), permitted) from None
    except (OSError, ArrowException) as error:
        why = getattr(error, "strerror", None) or error
        raise ParameterError("file", str(file), f"a Parquet file to read ({why})") from error


def campaign_in(file: Path) -> Campaign:
    """Return the campaign that an export file names, or the form of a masked file."""
    if (form := masked_form(file)) is not None:
        return form
    with _parquet(file) as opened:
        metadata = opened.schema_arrow.metadata or {}
    if _CAMPAIGN not in metadata:
        raise ParameterError("file", str(file), "one that 'geoveil campaign export' wrote")
    return decode(metadata[_CAMPAIGN])


def in_folder(
    folder: Path, campaign: AttributeCampaign | None
) -> tuple[AttributeCampaign, list[Path]]:
    """Return the only campaign of a folder of exports, or the named one, and its files."""
    try:
        records = json.loads((folder / _MANIFEST).read_text())["campaigns"]
    except (OSError, ValueError, KeyError) as error:
        raise ParameterError("folder", str(folder), f"a whole export ({error})") from error
    held = {
        content: [folder / part["file"] for part in record["parts"]]
        for record in records
        for content in [open_envelope(base64.b64decode(record["envelope"])).campaign]
    }
    wanted = [c for c in held if campaign is None or c == campaign.encoded]
    if len(wanted) != 1:
        said = sorted(decode_attribute_campaign(content).campaign_id for content in held)
        raise ParameterError("campaign", campaign and campaign.campaign_id, f"one of {said}")
    return decode_attribute_campaign(wanted[0]), held[wanted[0]]


def rows_in(file: Path, columns: Sequence[str] = AXES) -> Iterator[ReportRows]:
    """Yield the reports of an export, block by block, or all of a masked file."""
    if masked_form(file) is not None:
        values = masked_columns(file)
        yield ReportRows(np.zeros(len(values[0]), np.uint32), None, values)
        return
    with _parquet(file) as opened:
        names = opened.schema_arrow.names
        axes = [name for name in columns if name in names]
        for batch in opened.iter_batches(MOST_AT_ONCE, columns=["period", *axes]):
            values = tuple(batch.column(name).to_numpy() for name in axes)
            yield ReportRows(batch.column("period").to_numpy(), None, values)
