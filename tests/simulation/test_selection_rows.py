"""What all experiments of selection share: rows, their means, and what they are given."""

from pathlib import Path
from typing import Any

import pytest

from geoveil.gp import ParameterError
from geoveil.simulation.selection import Options, SelectionRow, experiment
from geoveil.simulation.selection.experiment import KEPT, NOMINAL, OPEN

FIELDS: dict[str, Any] = {
    "application": "tree",
    "dataset": "made",
    "setting": "depth 2",
    "mechanism": "any",
    "standing": KEPT,
    "epsilon": 1.0,
    "proved_epsilon": 1.0,
    "measure": "expected accuracy",
}


def test_a_row_of_repetitions_has_their_mean_and_its_standard_error() -> None:
    row = SelectionRow.averaged([0.1, 0.4, 0.4], **FIELDS)
    assert row.value == pytest.approx(0.3)
    assert row.standard_error == pytest.approx(0.1)  # √(0.06/2)/√3


def test_one_repetition_has_no_standard_error() -> None:
    row = SelectionRow.averaged([0.25], **FIELDS)
    assert (row.value, row.standard_error) == (0.25, 0.0)


def test_only_what_is_proved_may_stand_as_kept() -> None:
    more = FIELDS | {"proved_epsilon": 1.1}
    with pytest.raises(ParameterError, match="proved_epsilon"):
        SelectionRow.averaged([0.5], **more)
    for standing in (NOMINAL, OPEN):
        assert SelectionRow.averaged([0.5], **(more | {"standing": standing})).proved_epsilon == 1.1


@pytest.mark.parametrize("application", ["forest", "tdt", "tree"])
def test_data_of_ones_own_are_refused_where_none_are_taken(
    application: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match="data"):
        experiment(application, Options(data=(tmp_path / "any.csv",)))
