"""From an aggregator's database to a folder of Parquet files, of one moment, read-only.

    FOLDER/_manifest.json                           written last: without it the export is no export
    FOLDER/campaign=DIGEST/part-00000.parquet       query_index (uint32), value (int64): an answer

`campaign=DIGEST` is the layout that Dask, Spark, DuckDB and pandas read as a column. The ids of
reports are left out: what is exported was counted once already, and nothing in it ties the answers
of one report together. Rows come in the order of the random ids, which says nothing of arrival.
"""

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.store.schema import SCHEMA_VERSION
from geoveil.campaign import digest
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError

MANIFEST = "_manifest.json"
FORMAT = "geoveil reports 1"
_ROWS = 1 << 20
"""Answers per row group: a block of the estimate."""
_GROUPS = 16
"""Row groups per file."""
_FETCH = 1 << 14
_ANSWER = np.dtype([("query_index", "<u4"), ("value", "<i8")])
"""As `geoveil.aggregator.reports.pack` writes it."""


class ExportError(GeoVeilError):
    """Reports can't be exported, or an export is not whole."""


def export_reports(
    database: Path,
    folder: Path,
    *,
    campaign_ids: Sequence[str] | None = None,
    rows: int = _ROWS,
    on_progress: Callable[[int, int], None] = lambda reports, of: None,
) -> int:
    """Write the counted reports of one moment to Parquet files; return how many.

    The aggregator may go on running. Its write-ahead log grows until the export is done.

    Args:
        database: SQLite file of an aggregator.
        folder: where to; made here, so it must not be there yet.
        campaign_ids: of the campaigns to export; all by default.
        rows: answers per row group.
        on_progress: called with the reports written so far, and with how many there are.

    Raises:
        ExportError: if the database can't be read or is of another version, a campaign is not in
            it, or the folder is there.
        UnsupportedError: if pyarrow is not installed.
    """
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise ParameterError("rows", rows, "an integer >= 1")
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UnsupportedError(
            "writing Parquet needs pyarrow: pip install 'geoveil[simulation]'"
        ) from None
    if not database.is_file():
        raise ExportError(f"{database}: no such file")
    try:
        # "mode=ro": a mistyped name makes no database, and nothing in it can change.
        uri = f"{database.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")  # all that follows is of one moment
            campaigns = _campaigns(connection, campaign_ids, database)
            _make(folder)
            of = sum(reports for *_, reports in campaigns)
            done, records = 0, []
            for key, published, queries, reports in campaigns:
                answers = _answers(connection, key, lambda n, done=done: on_progress(done + n, of))  # type: ignore[misc]
                name = f"campaign={digest(published).hex()}"
                (folder / name).mkdir()
                parts = _write(parquet, folder, name, answers, rows)
                records.append(
                    {
                        "published": base64.b64encode(published).decode(),
                        "parts": parts,
                        "sums": _sums(connection, key, queries),
                    }
                )
                done += reports
    except (sqlite3.Error, OSError) as error:
        raise ExportError(f"{database} to {folder}: {error}") from error
    partial = folder / f"{MANIFEST}.partial"
    partial.write_text(json.dumps({"format": FORMAT, "campaigns": records}, indent=1) + "\n")
    os.replace(partial, folder / MANIFEST)
    return done


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ExportError(f"{folder}: is there already; name a folder that is not") from None


def _campaigns(
    connection: sqlite3.Connection, wanted: Sequence[str] | None, database: Path
) -> list[tuple[int, bytes, int, int]]:
    """Return key, published bytes, queries and reports of each campaign."""
    try:
        found = connection.execute("SELECT version FROM geoveil_schema").fetchall()
    except sqlite3.DatabaseError as error:
        raise ExportError(f"{database}: not a database of an aggregator ({error})") from error
    if found != [(SCHEMA_VERSION,)]:
        raise ExportError(f"{database}: of another version of geoveil, which can export it")
    query = "SELECT campaign_id, campaign_key, published, queries, reports FROM campaign"
    rows = {name: row for name, *row in connection.execute(query + " ORDER BY campaign_key")}
    for name in wanted or ():
        if name not in rows:
            raise ExportError(f"{database}: holds no campaign {name!r}")
    return [
        (key, bytes(published), queries, reports)
        for name, (key, published, queries, reports) in rows.items()
        if wanted is None or name in wanted
    ]


def _answers(
    connection: sqlite3.Connection, key: int, on_progress: Callable[[int], None]
) -> Iterator[NDArray[Any]]:
    cursor = connection.execute("SELECT answers FROM report WHERE campaign_key = ?", (key,))
    cursor.arraysize = _FETCH
    count = 0
    while packed := cursor.fetchmany():
        yield np.frombuffer(b"".join([answers for (answers,) in packed]), _ANSWER)
        count += len(packed)
        on_progress(count)


def _write(
    parquet: Any, folder: Path, name: str, answers: Iterator[NDArray[Any]], rows: int
) -> list[dict[str, Any]]:
    """Write the files of one campaign; return the name and the sizes of row groups of each."""
    import pyarrow as arrow

    schema = arrow.schema([("query_index", arrow.uint32()), ("value", arrow.int64())])
    parts: list[dict[str, Any]] = []
    writer = None
    try:
        for group in _regrouped(answers, rows):
            if writer is None:
                file = f"{name}/part-{len(parts):05}.parquet"
                writer = parquet.ParquetWriter(
                    folder / file, schema, compression="zstd", write_page_checksum=True
                )
                parts.append({"file": file, "row_groups": []})
            columns = [np.ascontiguousarray(group[field]) for field in schema.names]
            writer.write_table(arrow.table(columns, schema=schema), row_group_size=rows)
            parts[-1]["row_groups"].append(len(group))
            if len(parts[-1]["row_groups"]) == _GROUPS:
                writer.close()
                writer = None
    finally:
        if writer is not None:
            writer.close()
    return parts


def _regrouped(pieces: Iterator[NDArray[Any]], rows: int) -> Iterator[NDArray[Any]]:
    """Yield arrays of `rows` elements, the last one shorter."""
    held: list[NDArray[Any]] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += len(piece)
        if count >= rows:
            joined = np.concatenate(held)
            whole = count - count % rows
            for start in range(0, whole, rows):
                yield joined[start : start + rows]
            held, count = [joined[whole:]], count - whole
    if count:
        yield np.concatenate(held)


def _sums(connection: sqlite3.Connection, key: int, queries: int) -> list[list[Any]]:
    """Return the aggregator's own n, Σk and Σk² of each query."""
    query = "SELECT query_index, n, total, total_of_squares FROM query_sum WHERE campaign_key = ?"
    found = {
        index: [n, total, squares] for index, n, total, squares in connection.execute(query, (key,))
    }
    return [found.get(index, [0, "0", "0"]) for index in range(queries)]
