"""Test that cells are computed once by any process, and that tables keep their rows."""

import csv
import json
import math
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from geoveil.gp import ParameterError
from geoveil.gp.version import __version__
from geoveil.simulation import experiment as engine
from geoveil.simulation.computing import Processes
from geoveil.simulation.experiment import PROVENANCE, Cell, compute_cells, read_csv, write_tables
from geoveil.simulation.experiments import oneway
from geoveil.simulation.experiments.published import drawn
from geoveil.simulation.experiments.rows import (
    LOCAL,
    OURS,
    PRIOR,
    SEED,
    SEED_PRIOR,
    ErrorRow,
    compare,
)
from geoveil.simulation.selection import Options, experiment

ROW = ErrorRow(
    experiment="oneway",
    panel="T=1, 1/ε=2",
    n=10,
    per=2.0,
    mechanism="A",
    origin=SEED,
    measure="MSE",
    error=0.1,
)


def counted(name: str, marks: Path) -> list[ErrorRow]:
    """Leave a mark each time it is computed."""
    with marks.open("a") as stream:
        stream.write(name)
    if name == "bad":
        raise RuntimeError("interrupted")
    return [replace(ROW, mechanism=name)]


def cell_of(name: str, marks: Path) -> Cell[ErrorRow]:
    return Cell(counted, (name, marks))


def test_what_is_finished_is_not_computed_again(tmp_path):
    marks = tmp_path / "marks"
    cells = [cell_of(name, marks) for name in "abc"]
    done = []
    first = compute_cells(cells, tmp_path / "cells", on_done=done.append)
    assert [row.mechanism for row in first] == ["a", "b", "c"]
    assert done == cells
    again = compute_cells([*cells, cell_of("d", marks)], tmp_path / "cells")
    assert again[:3] == first
    assert marks.read_text() == "abcd"


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    marks = tmp_path / "marks"
    run = partial(compute_cells, directory=tmp_path / "cells")
    with pytest.raises(RuntimeError, match="interrupted"):
        run([cell_of("a", marks), cell_of("bad", marks), cell_of("c", marks)])
    for part in (tmp_path / "cells").glob("*.json"):
        part.with_suffix(".1.part").write_text("{")  # as a write that was cut short leaves it
    run([cell_of("a", marks), cell_of("c", marks)])
    assert marks.read_text() == "abadc"


def test_another_version_of_the_code_computes_again(tmp_path, monkeypatch):
    marks = tmp_path / "marks"
    run = partial(compute_cells, [cell_of("a", marks)], tmp_path / "cells")
    run()
    monkeypatch.setattr(engine, "code_fingerprint", lambda: "another")
    run()
    run()
    assert marks.read_text() == "aa"


@pytest.mark.deep(keep=0)
def test_two_processes_give_the_rows_of_one(tmp_path):
    cells = [
        Cell(drawn, (oneway.PANELS[0], name, n, 2, 1))
        for n in (1_000, 2_000)
        for name in ("GP_Lip", "GP_loc")
    ]
    assert compute_cells(cells, tmp_path, Processes(2)) == compute_cells(cells)


def test_another_seed_is_another_cell(tmp_path):
    cells = [Cell(drawn, (oneway.PANELS[0], "GP_Lip", 1_000, 2, seed)) for seed in (1, 2, 1)]
    errors = [compute_cells([cell], tmp_path)[0].error for cell in cells]
    assert errors[0] == errors[2] != errors[1]


def test_cells_need_different_keys(tmp_path):
    with pytest.raises(ParameterError, match="different keys"):
        compute_cells([cell_of("a", tmp_path / "marks")] * 2)


@pytest.mark.parametrize("processes", [0, 1.5])
def test_unsound_numbers_of_processes_are_refused(processes):
    with pytest.raises(ParameterError, match="processes"):
        Processes(processes)


def test_tables_keep_every_digit(tmp_path):
    rows = [ROW, replace(ROW, error=math.inf, noise=1 / 3, mode="monte-carlo", repetitions=7)]
    files = write_tables(rows, tmp_path / "t", seed=3)
    assert [file.name for file in files] == ["t.csv", "t.parquet"]
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    names = tuple(field.name for field in fields(ErrorRow))
    assert tuple(read[0]) == names
    assert read_csv(tmp_path / "t.csv", ErrorRow) == rows
    assert read[0]["panel"] == ROW.panel
    assert [float(r["error"]) for r in read] == [0.1, math.inf]
    assert float(read[1]["noise"]) == 1 / 3
    columns = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert tuple(columns) == names
    assert columns["noise"][1] == 1 / 3
    assert columns["noise"][0] is None
    assert columns["repetitions"] == [0, 7]


def test_a_parquet_table_says_where_its_numbers_come_from(tmp_path):
    write_tables([ROW], tmp_path / "t", seed=3)
    told = json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[PROVENANCE])
    assert told["seed"] == "3"
    assert told["version"] == __version__
    assert int(told["processors"]) >= 1
    assert {"python", "numpy", "system", "machine"} < told.keys()


@pytest.mark.deep(keep=0)
def test_a_selection_goes_on_where_it_stopped(tmp_path):
    options = Options(quick=True)
    asked = experiment("tdt", options).cells
    assert [cell.parameters[1] for cell in asked] == ["metopic", "m=5", "m=20"]
    first = compute_cells(asked[:1], tmp_path)
    file = next(tmp_path.glob("*.json"))
    file.write_text(file.read_text(encoding="utf-8").replace(first[0].dataset, "kept"))
    again = compute_cells(asked[:1], tmp_path)
    assert {row.dataset for row in again} == {"kept"}
    assert [replace(row, dataset=first[0].dataset) for row in again] == first
    # The control: another seed is another cell.
    other = experiment("tdt", Options(quick=True, seed=2)).cells
    assert compute_cells(other[:1], tmp_path) == first
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_the_best_of_each_side_is_compared_and_the_local_one_left_out():
    rows = [
        replace(ROW, mechanism="A", error=6.0),
        replace(ROW, mechanism="B", error=4.0),
        replace(ROW, mechanism=LOCAL, error=0.1),
        replace(ROW, mechanism="C", origin=OURS, error=2.0),
        replace(ROW, mechanism="D", origin=OURS, error=3.0),
        replace(ROW, mechanism="E", origin=PRIOR, error=0.5),
        replace(ROW, mechanism="F", origin=SEED_PRIOR, error=1.5),
        replace(ROW, mechanism="C", origin=OURS, n=20),
    ]
    (comparison,) = compare(rows)
    assert (comparison.seed.mechanism, comparison.ours.mechanism) == ("B", "C")
    assert (comparison.ratio, comparison.ratio_with_prior) == (2.0, 3.0)
    assert math.isnan(compare(rows[:5])[0].ratio_with_prior)
    assert compare(rows[:6])[0].ratio_with_prior == 8.0  # nobody has to use the prior


@pytest.mark.parametrize(("field", "value"), [("origin", "us"), ("error", math.nan)])
def test_unsound_rows_are_refused(field, value):
    with pytest.raises(ParameterError, match=field):
        replace(ROW, **{field: value})
