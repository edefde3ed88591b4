"""Exports of reports: a read-only folder of Parquet files from one moment, and its bulk estimate.

    FOLDER/_manifest.json                        written last: without it the export is unfinished
    FOLDER/campaign=DIGEST/part-00000.parquet    rows, as below

Rows are Arrow tables:

    statistic campaign    period (uint32), query_index (uint32), value (int64): a row is an answer
    value campaign        period (uint32), x, y, z (int64), as many as there are: a row is a point

Values are integers on the campaign's grid: k stands for k · 2^step_exponent.

Dask, Spark, DuckDB and pandas read `campaign=DIGEST` as a column. Rows have no ids and are sorted
by value, many thousands at a time, so they reveal little about when reports came.

For the bulk estimate every row group of every file is a block, which a worker reads from the
folder.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from geoveil.aggregator import ServiceError
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.rows import Rows, rows_of
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.schema import CAMPAIGN, REPORT_COUNT, require_current, schema_version
from geoveil.analyst import ReportRows, whole_file
from geoveil.campaign import (
    AXES,
    REPORT_ID_BYTES,
    AttributeCampaign,
    Campaign,
    FormCampaign,
    ValueCampaign,
    decode,
    decode_attribute_campaign,
    digest,
    encode,
    open_envelope,
    require_attribute,
)
from geoveil.gp import Accumulator, GeoVeilError, ParameterError, needed_for, sums_of, validation
from geoveil.simulation.scale.work import BlockedWork, Sums, of_triples, to_triples

with needed_for("an export"):
    from sqlalchemy import Connection, func, select

_MANIFEST = "_manifest.json"
_FORMAT = "geoveil reports 2"
_ROWS = 1 << 20
"""Rows per row group, which is a block of the estimate."""
_GROUPS = 16
"""Row groups per file of a folder."""
_CHUNK = 1 << 18
"""Integers that `sums_of` processes at once."""


class ExportError(GeoVeilError):
    """Reports can't be exported, or an export is incomplete."""


def _require_pyarrow() -> None:
    with needed_for("writing Parquet"):
        import pyarrow  # noqa: F401


def _schema(campaign: Campaign) -> Any:
    from pyarrow import int64, schema, uint32

    keys: list[str] = ["period", "query_index"]
    values: tuple[str, ...] = ("value",)
    if isinstance(campaign, ValueCampaign):
        keys, values = ["period"], AXES[: campaign.columns]
    elif isinstance(campaign, FormCampaign):
        keys, values = ["period"], campaign.labels
    if campaign.cohorts > 1:
        keys.append("cohort")
    return schema([(name, uint32()) for name in keys] + [(name, int64()) for name in values])


def _row_groups(schema: Any, parts: Iterable[Rows], rows: int) -> Iterator[Any]:
    import pyarrow as arrow

    held = schema.empty_table()
    for periods, indices, columns, cohorts in parts:
        keys = [key for key in (periods, indices, cohorts) if key is not None]
        held = arrow.concat_tables([held, arrow.table([*keys, *columns], schema=schema)])
        while held.num_rows >= rows:
            yield held.slice(0, rows)
            held = held.slice(rows)
    if held.num_rows:
        yield held


def _write(file: Path, schema: Any, groups: Iterable[Any]) -> list[int]:
    from pyarrow.parquet import ParquetWriter

    sizes = []
    with ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
            sizes.append(group.num_rows)
    return sizes


def write_reports(parts: Iterator[bytes | ReportRows], file: Path) -> int:
    """Write `Analyst.export`'s parts to a complete Parquet file or none; return the number of rows.

    Raises:
        ParameterError: if the file exists or can't be written.
        UnsupportedError: if pyarrow is not installed.
    """
    _require_pyarrow()
    if file.exists() or not file.absolute().parent.is_dir():
        raise ParameterError("file", str(file), "a new file in a folder that exists")
    content = next(parts)
    assert isinstance(content, bytes)  # the first part
    campaign = decode(content)
    metadata = {"geoveil.campaign": content, "geoveil.campaign_sha256": digest(content).hex()}
    if isinstance(campaign, AttributeCampaign):  # each field of a form has a grid of its own
        metadata["geoveil.step_exponent"] = str(campaign.grid_exponent)
    schema = _schema(campaign).with_metadata(metadata)
    rows = (
        Rows(part.periods, part.query_indices, part.columns, part.cohorts)
        for part in parts
        if isinstance(part, ReportRows)
    )
    with whole_file("file", file) as beside:
        return sum(_write(beside, schema, _row_groups(schema, rows, _ROWS)))


def export_reports(
    database: Path | str,
    folder: Path,
    *,
    campaign_ids: Sequence[str] | None = None,
    rows: int = _ROWS,
    on_progress: Callable[[int, int], None] = lambda reports, of: None,
) -> int:
    """Write the counted reports of one moment to Parquet files; return their number.

    The aggregator may keep running. Its write-ahead log grows until the export is done.

    Args:
        database: an aggregator's SQLite file or URL postgresql://….
        folder: a new folder.
        campaign_ids: the campaigns to export; all by default.
        rows: rows per row group.
        on_progress: called with the number of reports written so far, and of all reports.

    Raises:
        ExportError: if the database can't be read or has another version, lacks a campaign, or
            the folder exists.
        UnsupportedError: if pyarrow is not installed.
    """
    validation.require_count("rows", rows)
    _require_pyarrow()
    is_url = "://" in str(database)
    name = "the database" if is_url else str(database)  # a URL may hold a password
    if not is_url and not Path(database).is_file():
        raise ExportError(f"{name}: no such file")

    def work(connection: Connection) -> tuple[int, list[dict[str, Any]]]:
        store.freeze(connection)  # everything below sees one moment
        require_current(schema_version(connection))
        stored = connection.execute(select(CAMPAIGN).order_by(CAMPAIGN.c.campaign_key)).all()
        for campaign_wanted in campaign_ids or ():
            if campaign_wanted not in {row.campaign_id for row in stored}:
                raise ExportError(f"{name}: holds no campaign {campaign_wanted!r}")
        wanted = [row for row in stored if campaign_ids is None or row.campaign_id in campaign_ids]
        layouts = [_layout(row, name) for row in wanted]
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise ExportError(f"{folder}: exists already; name a new folder") from None
        key, reports = REPORT_COUNT.c.campaign_key, func.sum(REPORT_COUNT.c.reports)
        counts = {
            campaign_id: int(n)
            for campaign_id, n in connection.execute(select(key, reports).group_by(key))
        }
        of, done = sum(counts.get(row.campaign_key, 0) for row in wanted), 0

        def found(key: int, layout: Layout) -> Iterator[Rows]:
            nonlocal done
            for ids, answers in store.read_reports(connection, key):
                yield rows_of(layout, answers, range(layout.campaign.periods))
                done += len(ids) // REPORT_ID_BYTES
                on_progress(done, of)

        records = [
            {
                "envelope": base64.b64encode(bytes(row.published)).decode(),
                "parts": _write_parts(
                    folder,
                    require_attribute(layout.campaign),
                    found(row.campaign_key, layout),
                    rows,
                ),
                "sums": to_triples(_sums(layout, store.read_sums(connection, row.campaign_key))),
            }
            for row, layout in zip(wanted, layouts, strict=True)
        ]
        return of, records

    try:
        with open_store(database, create=False) as store:
            done, records = store.run(work)
        partial = folder / f"{_MANIFEST}.partial"
        partial.write_text(json.dumps({"format": _FORMAT, "campaigns": records}, indent=1) + "\n")
        os.replace(partial, folder / _MANIFEST)
    except OSError as error:
        raise ExportError(f"{name} to {folder}: {error}") from error
    except ServiceError as error:
        raise ExportError(f"{name}: {error.detail or error}") from error
    return done


def _layout(row: Any, database: str) -> Layout:
    try:
        return Layout.stored(
            decode_attribute_campaign(open_envelope(bytes(row.published)).campaign),
            row.queries,
        )
    except GeoVeilError as error:
        raise ExportError(f"{database}: campaign {row.campaign_id}: {error}") from error


def _write_parts(
    folder: Path, campaign: AttributeCampaign, found: Iterator[Rows], rows: int
) -> list[dict[str, Any]]:
    """Write one campaign's files; return the name and row group sizes of each."""
    name = f"campaign={digest(encode(campaign)).hex()}"
    (folder / name).mkdir()
    groups = _row_groups(_schema(campaign), found, rows)
    parts: list[dict[str, Any]] = []
    for first in groups:
        file = f"{name}/part-{len(parts):05}.parquet"
        sizes = _write(folder / file, first.schema, chain([first], islice(groups, _GROUPS - 1)))
        parts.append({"file": file, "row_groups": sizes})
    return parts


def _sums(layout: Layout, kept: Mapping[int, Accumulator]) -> Sums:
    """Return the aggregator's sums by query index and period, then its counts by bins."""
    sums = [Accumulator()] * layout.campaign.slots
    for index, of_block in kept.items():
        if index < layout.blocks * len(sums):
            sums[index // layout.blocks] += of_block
    return sums


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportedReports(BlockedWork):
    """The exported answers to one campaign; `exported` makes it."""

    folder: Path
    campaign: AttributeCampaign
    row_groups: tuple[tuple[str, int, int], ...]
    """File, index of a row group in it, and the group's number of rows."""
    aggregator: tuple[Accumulator, ...]
    """The aggregator's own sums at the moment of the export."""

    @property
    def blocks(self) -> int:
        return len(self.row_groups)

    @property
    def queries(self) -> int:
        """The number of sums per block: one for each column of the campaign, cohort and period."""
        return self.campaign.slots

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each sum, with the period's number if the campaign recurs."""
        campaign, labels = self.campaign, self.campaign.labels
        if campaign.cohorts > 1:
            labels = tuple(f"{o}, cohort {of}" for of in range(campaign.cohorts) for o in labels)
        if campaign.period is None:
            return labels
        return tuple(f"{label} ({p})" for p in range(campaign.periods) for label in labels)

    def block(self, number: int) -> Sums:
        """Return the sums of one block; ExportError if its file is missing, damaged or wrong."""
        from pyarrow import ArrowException, parquet

        name, group, rows = self.row_groups[number]
        path, campaign = self.folder / name, self.campaign
        names = _schema(campaign).names
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read_row_group(group, columns=names)
                arrays = {name: table.column(name).to_numpy().astype(np.int64) for name in names}
        except (OSError, ValueError, LookupError, MemoryError, ArrowException) as error:
            raise ExportError(f"{path}: can't be read, or is damaged") from error
        slots = arrays["period"] * campaign.indices + arrays.get("cohort", 0) * campaign.columns
        sums = [Accumulator()] * self.queries
        for column, name in enumerate(name for name in names if name in (*AXES, "value")):
            values, indices = arrays[name], slots + arrays.get("query_index", column)
            if len(values) != rows or (rows and indices.max() >= self.queries):
                raise ExportError(f"{path}: is not the file that was exported")
            for start in range(0, rows, _CHUNK):
                chunk = slice(start, start + _CHUNK)
                order = np.argsort(indices[chunk], kind="stable")
                held, starts = np.unique(indices[chunk][order], return_index=True)
                parts = sums_of(values[chunk][order], starts)
                for index, part in zip(held.tolist(), parts, strict=True):
                    sums[index] += part
        return sums

    def fingerprint(self) -> str:
        parts = repr((self.row_groups, self.aggregator)).encode()
        return hashlib.sha256(encode(self.campaign) + parts).hexdigest()

    def check(self, sums: Sequence[Accumulator]) -> None:
        """Compare all blocks' sums with the aggregator's; ExportError if a bit differs."""
        if tuple(sums) != self.aggregator:
            raise ExportError(
                f"{self.folder}: the reports do not add up to the aggregator's sums: export again"
            )


def exported(folder: Path) -> list[ExportedReports]:
    """Return the campaigns of an export, in order of creation; ExportError if it is unfinished."""
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text())
        if manifest["format"] == _FORMAT:
            return [
                ExportedReports(
                    folder=folder.absolute(),
                    campaign=decode_attribute_campaign(
                        open_envelope(base64.b64decode(record["envelope"])).campaign
                    ),
                    row_groups=tuple(
                        (part["file"], group, int(rows))
                        for part in record["parts"]
                        for group, rows in enumerate(part["row_groups"])
                    ),
                    aggregator=tuple(of_triples(record["sums"])),
                )
                for record in manifest["campaigns"]
            ]
    except OSError as error:
        raise ExportError(f"{path}: not there, so this is not a finished export") from error
    except (ValueError, KeyError, TypeError, ParameterError) as error:
        raise ExportError(f"{path}: damaged") from error
    raise ExportError(f"{path}: from another version of geoveil")
