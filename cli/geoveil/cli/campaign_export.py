"""geoveil campaign export: the reports of a campaign as a Parquet file, by way of the server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from geoveil.aggregator.domain.exporting import Rows
from geoveil.analyst import ReportRows
from geoveil.analyst.client import LAST_PERIOD
from geoveil.campaign import decode, digest
from geoveil.cli.connection import Connection, analyst_at, connects
from geoveil.cli.console import out
from geoveil.gp import ParameterError

_ROWS = 1 << 20
"""Per row group."""


@connects
def export(
    campaign_id: Annotated[str, typer.Argument(help="Of the campaign.")],
    file: Annotated[Path, typer.Option("--out", help="Parquet file to write. Must not exist.")],
    period: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_PERIOD, help="Of a recurring campaign, from 0; all by default."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds that it may take.")] = 3600.0,
    *,
    connection: Connection,
) -> None:
    """Write the perturbed reports to a Parquet file, without their ids.

    A row is an answer, or a point with its coordinates. Values are integers on the campaign's grid:
    times 2^step_exponent, which the file's metadata names, they are numbers.
    """
    if file.exists() or not file.absolute().parent.is_dir():
        raise ParameterError("out", str(file), "a new file in a folder that exists")
    partial = file.with_name(file.name + ".partial")
    try:
        with analyst_at(connection) as analyst:
            count = _write(analyst.export(campaign_id, period, timeout_s=timeout), partial)
        os.replace(partial, file)
    except OSError as error:
        raise ParameterError("out", str(file), f"a file to write ({error.strerror})") from error
    finally:
        partial.unlink(missing_ok=True)
    out.tell(f"{count:,} rows in {file}")


def _write(parts: Iterator[bytes | ReportRows], path: Path) -> int:
    from geoveil.simulation.scale.export import (
        regrouped,
        require_pyarrow,
        schema_of,
        table_of,
    )

    parquet = require_pyarrow()
    content = next(parts)
    assert isinstance(content, bytes)  # so it begins
    campaign = decode(content)
    metadata = {
        "geoveil.campaign": content,
        "geoveil.campaign_sha256": digest(content).hex(),
        "geoveil.step_exponent": str(campaign.grid_exponent),
    }
    schema = schema_of(campaign).with_metadata(metadata)
    count = 0
    with parquet.ParquetWriter(
        path, schema, compression="zstd", write_page_checksum=True
    ) as writer:
        tables = (
            table_of(campaign, Rows(part.periods, part.query_indices, part.columns))
            for part in parts
            if isinstance(part, ReportRows)
        )
        for group in regrouped(tables, _ROWS):
            writer.write_table(group.replace_schema_metadata(metadata))
            count += group.num_rows
    return count
