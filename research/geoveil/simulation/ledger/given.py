"""Recognise the papers' data among a user's files by their size."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from geoveil.gp import ParameterError
from geoveil.selection.contrib.graphs import Graph
from geoveil.simulation.selection import tree
from geoveil.simulation.selection.experiment import Options, SelectionRow
from geoveil.simulation.selection.influence import read_graph
from geoveil.simulation.selection.tables import ADULT_EDGES, Dataset, read_table, table

DEGREES = {"Enron": 1_383, "DBLP": 343, "GitHub": 9_458}
"""Graph → its largest degree."""
SIZES = {
    "Enron": 36_692, "DBLP": 317_080, "GitHub": 37_700,
    "Adult": 45_222, "NLTCS": 21_574, "ACS": 47_461, "Compas": 4_732,
}  # fmt: skip
"""Name → nodes of a graph, or records of a table, in the papers."""
SHIFTED = "shifted local dampening"
Data = TypeVar("Data", Graph, Dataset)


def _given(
    options: Options, endings: tuple[str, ...], read: Callable[[Path], Data], *names: str
) -> Iterator[tuple[str, Data]]:
    """Yield the papers' data among the given files, with their names."""
    for file in options.data:
        if file.name.endswith(endings):
            with suppress(ParameterError):
                data = read(file)
                size = data.nodes if isinstance(data, Graph) else len(data)
                yield from ((name, data) for name in names if SIZES[name] == size)


def graphs(options: Options) -> Iterator[tuple[str, Graph]]:
    """Yield the papers' graphs among the files, with their names."""
    return _given(options, (".npz", ".txt", ".csv", ".gz"), read_graph, *DEGREES)


def tables(options: Options, *names: str) -> Iterator[tuple[str, Dataset]]:
    """Yield the papers' tables among the files, with their names."""
    return _given(options, (".csv", ".parquet", ".csv.gz"), read_table, *names)


def check_data(file: Path) -> None:
    """Refuse a file that no row of the ledger can use."""
    options = Options(data=(file,))
    if not any((*graphs(options), *tables(options, *SIZES))):
        sizes = ", ".join(f"{name} {size:,}" for name, size in SIZES.items())
        expected = f"a file of a paper's data, with as many nodes or records: {sizes}"
        raise ParameterError("data", str(file), expected)


def tabled(options: Options) -> Iterator[tuple[str, Dataset]]:
    """Yield the tables for trees: Adult and, if given, NLTCS and ACS."""
    yield "Adult", table("adult").discretised(ADULT_EDGES)
    for name, data in tables(options, "NLTCS", "ACS"):
        yield name, data.coded()


def grown(options: Options, data: Dataset, names: Collection[str]) -> Iterator[SelectionRow]:
    """Yield the accuracy of trees built by the named mechanisms of `tree`."""
    setting = tree.QUICK if options.quick else {"most_draws": 4}
    chosen = [contestant for contestant in tree.CONTESTANTS if contestant.name in names]
    rows = tree.rows_of(data, options.seed, chosen, **setting)
    return (row for row in rows if row.mechanism in names)


def bisected(enough: Callable[[float], bool], low: float, high: float, steps: int) -> float:
    """Return the least positive number that is enough, by bisection of its logarithm."""
    while steps > 0:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
        steps -= 1
    return high
