"""Test the common parts of selection experiments: rows, means, and inputs."""

import pytest

from geoveil.gp import ParameterError
from geoveil.simulation.figures.selection import _kept
from geoveil.simulation.selection import Options, SelectionRow, experiment
from geoveil.simulation.selection.experiment import (
    KEPT,
    NOMINAL,
    OPEN,
    Made,
    SelectionContestant,
    compared,
)


def averaged(values: list[float], proved: float = 1.0, standing: str = KEPT) -> SelectionRow:
    made = Made(lambda known: known, proved)
    contestant = SelectionContestant("any", lambda *_: made, standing)
    place = {"application": "tree", "dataset": "made", "setting": "depth 2"}
    (row,) = compared(
        [contestant], [1.0], None, values, lambda choice, known: {"any": choice(known)}, **place
    )
    return row


def test_a_row_of_repetitions_has_their_mean_and_its_standard_error():
    row = averaged([0.1, 0.4, 0.4])
    assert row.value == pytest.approx(0.3)
    assert row.standard_error == pytest.approx(0.1)  # √(0.06/2)/√3


def test_only_what_is_proved_may_stand_as_kept():
    with pytest.raises(ParameterError, match="proved_epsilon"):
        averaged([0.5], proved=1.1)
    for standing in (NOMINAL, OPEN):
        assert averaged([0.5], proved=1.1, standing=standing).proved_epsilon == 1.1


@pytest.mark.parametrize(("proved", "shown"), [(7.0623, "7.07 ε"), (1 + 2**-52, "1 ε")])
def test_what_is_proved_is_rounded_up(proved, shown):
    row = averaged([0.5], proved=proved, standing=NOMINAL)
    (table,) = experiment("tdt", Options(quick=True)).tables([row])
    assert table.rows[0][2] == shown
    assert _kept([row]) == f"any {shown}"


@pytest.mark.parametrize("application", ["forest", "tdt", "tree"])
def test_data_of_ones_own_are_refused_where_none_are_taken(application, tmp_path):
    with pytest.raises(ParameterError, match="data"):
        experiment(application, Options(data=(tmp_path / "any.csv",)))
