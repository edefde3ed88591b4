"""Test that results say what their intervals assume where nothing bounds the reports."""

from dataclasses import replace
from typing import Any

import pytest

from geoveil.analyst import compare, trend
from geoveil.analyst.estimates import CampaignEstimates
from geoveil.gp import UNLIMITED
from tests.analyst.statistics.test_over_time import campaign, moments

ASSUMED = "Nothing bounds the reports: the intervals are Student's"


@pytest.mark.parametrize("bounded", [False, True])
def test_intervals_without_ends_are_said_to_be_students(bounded: bool) -> None:
    """The notes say it: of 30 such curves none held. Control: reports with ends."""
    asked = campaign(cohorts=False)
    rows = [moments(period, 6, 0.5, 0.25) for period in range(3)]
    if not bounded:
        rows = [replace(row, limits=UNLIMITED) for row in rows]
    found = CampaignEstimates(asked, "closed", tuple(rows), "", asked.privacy, asked.privacy)
    joints = [found.joint(["above"], period) for period in range(3)]
    curve = found.over_time()
    results: list[Any] = [curve, curve.change(0, 2), joints[0], joints[0].contrast([2.0])]
    results += [compare(*joints, people="same"), trend(*joints, people="same")]
    for result in results:
        assert sum(note.startswith(ASSUMED) for note in result.notes) == (not bounded)
