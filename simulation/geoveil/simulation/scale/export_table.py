"""Exported reports as Arrow tables: which columns they have.

    statistic campaign    period (uint32), query_index (uint32), value (int64): a row is an answer
    value campaign        period (uint32), x, y, z (int64), as many as there are: a row is a point

Values are integers on the campaign's grid: k stands for k · 2^step_exponent.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from geoveil.aggregator.domain.exporting import Rows
from geoveil.campaign import Campaign, ValueCampaign
from geoveil.campaign.value import AXES
from geoveil.gp import UnsupportedError


def require_pyarrow() -> Any:
    """Return `pyarrow.parquet`.

    Raises:
        UnsupportedError: if pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise UnsupportedError(
            "writing Parquet needs pyarrow: pip install 'geoveil[simulation]'"
        ) from None
    return parquet


def value_columns(campaign: Campaign) -> tuple[str, ...]:
    """Return the names of the columns that hold integers on the grid."""
    return AXES[: campaign.columns] if isinstance(campaign, ValueCampaign) else ("value",)


def schema_of(campaign: Campaign) -> Any:
    """Return the Arrow schema of a campaign's rows."""
    import pyarrow as arrow

    named = [] if isinstance(campaign, ValueCampaign) else [("query_index", arrow.uint32())]
    values = [(name, arrow.int64()) for name in value_columns(campaign)]
    return arrow.schema([("period", arrow.uint32()), *named, *values])


def table_of(campaign: Campaign, rows: Rows) -> Any:
    """Return rows as an Arrow table."""
    import pyarrow as arrow

    named = () if rows.indices is None else (rows.indices,)
    return arrow.table([rows.periods, *named, *rows.columns], schema=schema_of(campaign))


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
