"""Test that the page says that false answers can move a mean of points without bound."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from geoveil.analyst.campaigns import campaign_for_points
from geoveil.analyst.contamination import MEAN_MOVES
from geoveil.console.survey import doubted
from geoveil.gp import GeoPrivacy


def test_no_number_bounds_what_false_answers_do_to_the_mean_of_points():
    now = datetime.now(UTC)
    campaign = campaign_for_points(
        attribute="debt",
        privacy=GeoPrivacy(1.0, per=5_000.0, unit="euro"),
        plane=None,
        campaign_id="debts",
        title="Debts",
        opens=now,
        closes=now + timedelta(days=1),
    )
    told = doubted(SimpleNamespace(campaign=campaign, estimates=()), 0.01)
    assert told == MEAN_MOVES
