"""From an aggregator's database to a folder of Parquet files, of one moment, read-only.

    FOLDER/_manifest.json                        written last: without it the export is no export
    FOLDER/campaign=DIGEST/part-00000.parquet    rows, as below

Rows are Arrow tables:

    statistic campaign    period (uint32), query_index (uint32), value (int64): a row is an answer
    value campaign        period (uint32), x, y, z (int64), as many as there are: a row is a point

Values are integers on the campaign's grid: k stands for k · 2^step_exponent.

`campaign=DIGEST` is the layout that Dask, Spark, DuckDB and pandas read as a column. The ids of
reports are left out: what is exported was counted once already, and nothing ties the answers of one
report to a statistic campaign together. Rows are put in order of their values, many thousands at a
time, so that theirs says little of when reports came.
"""

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from geoveil.aggregator import Code, ServiceError
from geoveil.aggregator.domain.exporting import Rows, rows_of
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.store.migrate import require_current, schema_version
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.schema import CAMPAIGN, REPORT_COUNT
from geoveil.aggregator.store.sql import SQLStore
from geoveil.analyst import ReportRows
from geoveil.campaign import Campaign, ValueCampaign, decode, digest, open_envelope
from geoveil.campaign.admission import REPORT_ID_BYTES
from geoveil.campaign.value import AXES
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError, validation
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.scale.work import to_triples

MANIFEST = "_manifest.json"
FORMAT = "geoveil reports 2"
_ROWS = 1 << 20
"""Rows per row group: a block of the estimate."""
_GROUPS = 16
"""Row groups per file of a folder."""


class ExportError(GeoVeilError):
    """Reports can't be exported, or an export is not whole."""


def require_pyarrow() -> Any:
    """Return `pyarrow.parquet`.

    Raises:
        UnsupportedError: if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        told = "writing Parquet needs pyarrow: pip install 'geoveil[simulation]'"
        raise UnsupportedError(told) from None
    return parquet


def value_columns(campaign: Campaign) -> tuple[str, ...]:
    """Return the names of the columns that hold integers on the grid."""
    return AXES[: campaign.columns] if isinstance(campaign, ValueCampaign) else ("value",)


def schema_of(campaign: Campaign) -> Any:
    """Return the Arrow schema of a campaign's rows."""
    import pyarrow as arrow

    named = [] if isinstance(campaign, ValueCampaign) else [("query_index", arrow.uint32())]
    if campaign.strata is not None:
        named.append(("stratum", arrow.uint32()))
    values = [(name, arrow.int64()) for name in value_columns(campaign)]
    return arrow.schema([("period", arrow.uint32()), *named, *values])


def _tables(schema: Any, parts: Iterable[Rows]) -> Iterator[Any]:
    """Yield rows as Arrow tables."""
    import pyarrow as arrow

    for rows in parts:
        named = [key for key in (rows.indices, rows.groups) if key is not None]
        yield arrow.table([rows.periods, *named, *rows.columns], schema=schema)


def regrouped(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield tables of `rows` rows, the last one shorter.

    Example:
        >>> import pyarrow
        >>> pieces = [pyarrow.table({"value": [1, 2, 3]}), pyarrow.table({"value": [4, 5]})]
        >>> [table.column("value").to_pylist() for table in regrouped(pieces, 2)]
        [[1, 2], [3, 4], [5]]
    """
    import pyarrow as arrow

    held: list[Any] = []
    count = 0
    for piece in tables:
        held.append(piece)
        count += piece.num_rows
        if count >= rows:
            joined = arrow.concat_tables(held)
            whole = count - count % rows
            for start in range(0, whole, rows):
                yield joined.slice(start, rows)
            held, count = [joined.slice(whole)], count - whole
    if count:
        yield arrow.concat_tables(held)


def _write(file: Path, schema: Any, groups: Iterable[Any]) -> list[int]:
    """Write a Parquet file; return the rows of each of its row groups."""
    how = {"compression": "zstd", "write_page_checksum": True}
    sizes = []
    with require_pyarrow().ParquetWriter(file, schema, **how) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=group.num_rows)
            sizes.append(group.num_rows)
    return sizes


def write_reports(parts: Iterator[bytes | ReportRows], file: Path) -> int:
    """Write what a server exports to one Parquet file, and return how many rows it has.

    Args:
        parts: from `Analyst.export`.
        file: is there with all of its rows, or not at all.

    Raises:
        ParameterError: if the file is there already, or can't be written.
        UnsupportedError: if pyarrow is not installed.
    """
    require_pyarrow()
    if file.exists() or not file.absolute().parent.is_dir():
        raise ParameterError("file", str(file), "a new file in a folder that exists")
    content = next(parts)
    assert isinstance(content, bytes)  # so it begins
    campaign = decode(content)
    schema = schema_of(campaign).with_metadata(
        {
            "geoveil.campaign": content,
            "geoveil.campaign_sha256": digest(content).hex(),
            "geoveil.step_exponent": str(campaign.grid_exponent),
        }
    )
    rows = (
        Rows(part.periods, part.query_indices, part.columns, part.strata)
        for part in parts
        if isinstance(part, ReportRows)
    )
    partial = file.with_name(file.name + ".partial")
    try:
        sizes = _write(partial, schema, regrouped(_tables(schema, rows), _ROWS))
        os.replace(partial, file)
    except OSError as error:
        raise ParameterError("file", str(file), f"a file to write ({error.strerror})") from error
    finally:
        partial.unlink(missing_ok=True)
    return sum(sizes)


class _Stored(NamedTuple):
    """A campaign in the database, with how many reports it has."""

    key: int
    envelope: bytes
    layout: Layout
    reports: int


def export_reports(
    database: Path | str,
    folder: Path,
    *,
    campaign_ids: Sequence[str] | None = None,
    rows: int = _ROWS,
    on_progress: Callable[[int, int], None] = lambda reports, of: None,
) -> int:
    """Write the counted reports of one moment to Parquet files; return how many.

    The aggregator may go on running. Its write-ahead log grows until the export is done.

    Args:
        database: of an aggregator, a SQLite file or a URL postgresql://….
        folder: where to; made here, so it must not be there yet.
        campaign_ids: of the campaigns to export; all by default.
        rows: per row group.
        on_progress: called with the reports written so far, and with how many there are.

    Raises:
        ExportError: if the database can't be read or is of another version, a campaign is not in
            it, or the folder is there.
        UnsupportedError: if pyarrow is not installed.
    """
    validation.require_count("rows", rows)
    require_pyarrow()
    name = "the database" if "://" in str(database) else str(database)  # a URL may hold a password
    if "://" not in str(database) and not Path(database).is_file():
        raise ExportError(f"{name}: no such file")

    def work(connection: Connection) -> tuple[int, list[dict[str, Any]]]:
        store.freeze(connection)  # all that follows is of one moment
        campaigns = _campaigns(store, connection, campaign_ids, name)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise ExportError(f"{folder}: is there already; name a folder that is not") from None
        of = sum(campaign.reports for campaign in campaigns)
        done = 0

        def found(campaign: _Stored) -> Iterator[Rows]:
            nonlocal done
            every = range(campaign.layout.campaign.periods)
            for ids, answers in store.read_reports(connection, campaign.key):
                yield rows_of(campaign.layout, answers, every)
                done += len(ids) // REPORT_ID_BYTES
                on_progress(done, of)

        records = [
            {
                "envelope": base64.b64encode(campaign.envelope).decode(),
                "parts": _write_parts(folder, campaign, found(campaign), rows),
                "sums": to_triples(_sums(store, connection, campaign)),
            }
            for campaign in campaigns
        ]
        return of, records

    try:
        with open_store(database, create=False) as store:
            done, records = store.run(work)
        partial = folder / f"{MANIFEST}.partial"
        partial.write_text(json.dumps({"format": FORMAT, "campaigns": records}, indent=1) + "\n")
        os.replace(partial, folder / MANIFEST)
    except OSError as error:
        raise ExportError(f"{name} to {folder}: {error}") from error
    except ServiceError as error:
        raise ExportError(f"{name}: {error.detail or error}") from error
    return done


def _campaigns(
    store: SQLStore, connection: Connection, wanted: Sequence[str] | None, name: str
) -> list[_Stored]:
    require_current(schema_version(connection))
    count = (
        select(func.coalesce(func.sum(REPORT_COUNT.c.reports), 0))
        .where(REPORT_COUNT.c.campaign_key == CAMPAIGN.c.campaign_key)
        .scalar_subquery()
        .label("reports")
    )
    found = connection.execute(select(CAMPAIGN, count).order_by(CAMPAIGN.c.campaign_key)).all()
    for asked in wanted or ():
        if asked not in {row.campaign_id for row in found}:
            raise ExportError(f"{name}: holds no campaign {asked!r}")
    stored = []
    for row in found:
        if wanted is None or row.campaign_id in wanted:
            envelope = bytes(row.published)
            try:
                campaign = decode(open_envelope(envelope).campaign)
                layout = Layout.stored(campaign, row.queries)
            except GeoVeilError as error:
                raise ServiceError(Code.INTERNAL, f"campaign {row.campaign_id}: {error}") from error
            stored.append(_Stored(row.campaign_key, envelope, layout, int(row.reports)))
    return stored


def _write_parts(
    folder: Path, stored: _Stored, found: Iterator[Rows], rows: int
) -> list[dict[str, Any]]:
    """Write the files of one campaign; return the name and the sizes of row groups of each."""
    name = f"campaign={digest(open_envelope(stored.envelope).campaign).hex()}"
    (folder / name).mkdir()
    schema = schema_of(stored.layout.campaign)
    groups = regrouped(_tables(schema, found), rows)
    parts: list[dict[str, Any]] = []
    for first in groups:
        file = f"{name}/part-{len(parts):05}.parquet"
        some = chain([first], islice(groups, _GROUPS - 1))
        parts.append({"file": file, "row_groups": _write(folder / file, schema, some)})
    return parts


def _sums(store: SQLStore, connection: Connection, stored: _Stored) -> list[Accumulator]:
    """Return the aggregator's own sums of each query index, period after period."""
    kept, layout = store.read_sums(connection, stored.key), stored.layout
    every = [kept.get(index, Accumulator()) for index in range(layout.sums)]
    return [
        reduce(add, layout.blocks_of(every, index, period))
        for period in range(layout.campaign.periods)
        for index in range(layout.campaign.indices)
    ]
