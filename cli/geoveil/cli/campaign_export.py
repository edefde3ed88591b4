"""geoveil campaign export: the reports of a campaign as a Parquet file, by way of the server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from geoveil.aggregator.domain.exporting import Rows
from geoveil.campaign import decode, digest
from geoveil.cli.analyst import LAST_PERIOD, Analyst
from geoveil.cli.connection import Connection, connects
from geoveil.cli.console import out
from geoveil.gp import ParameterError
from geoveil.proto.v1 import analyst_pb2

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
        with Analyst.of(connection) as analyst:
            count = _write(analyst.export(campaign_id, period, timeout), partial)
        os.replace(partial, file)
    except OSError as error:
        raise ParameterError("out", str(file), f"a file to write ({error.strerror})") from error
    finally:
        partial.unlink(missing_ok=True)
    out.tell(f"{count:,} rows in {file}")


def _write(parts: Iterator[analyst_pb2.ExportReportsResponse], path: Path) -> int:
    from geoveil.simulation.scale.export import (
        regrouped,
        require_pyarrow,
        schema_of,
        table_of,
    )

    parquet = require_pyarrow()
    content = next(parts).envelope.campaign
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
        tables = (table_of(campaign, _rows(part)) for part in parts)
        for group in regrouped(tables, _ROWS):
            writer.write_table(group.replace_schema_metadata(metadata))
            count += group.num_rows
    return count


def _rows(part: analyst_pb2.ExportReportsResponse) -> Rows:
    def array(numbers: Any, kind: Any) -> Any:
        return np.fromiter(numbers, kind, len(numbers))

    return Rows(
        array(part.periods, np.uint32),
        array(part.query_indices, np.uint32) if part.query_indices else None,
        tuple(array(column.values, np.int64) for column in part.columns),
    )
