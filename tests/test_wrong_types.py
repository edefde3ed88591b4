"""Test that wrong arguments are refused with the parameter's name and value."""

from datetime import UTC, datetime, timedelta

import pytest

from geoveil.analyst import (
    Contaminated,
    Histogram,
    LogNormalPrior,
    Means,
    PlanRequest,
    PublicPrior,
    Quantiles,
    ShareAbove,
    Top,
    campaign_asking,
    campaign_for_points,
    reports_of,
)
from geoveil.campaign import (
    encode,
    least_counted,
    of_any_two,
    unbiased_for,
    what_a_form_tells,
    what_it_tells,
    what_it_tells_of,
    what_to_ask,
    who_asks,
    who_learns,
)
from geoveil.client import AsyncClient, Client, Policy
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.relay import AsyncRelayTransport, GatewayKeys, InvitationCodes, Relay

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOLLARS = GeoPrivacy(1.0, per=8_000.0, unit="dollar")
KNOWN = PublicPrior.of_numbers(LogNormalPrior(11.49, 0.83), "dollar")
LATER = {"campaign_id": "a", "title": "A", "opens": NOW, "closes": NOW + timedelta(days=1)}


@pytest.mark.parametrize(
    ("called", "named"),
    [
        (lambda: Top("x", []), "count='x'"),
        (lambda: Top(1, "xy"), "questions='xy'"),
        (lambda: Top(1, [ShareAbove(1.0), 5]), r"questions\[1\]=5"),
        (lambda: Top(1, []), "number of questions=0"),
        (lambda: Quantiles(levels="x"), r"levels\[0\]='x'"),
        (lambda: Histogram(edges="x"), "edges='x'"),
        (lambda: Histogram(edges=5), "edges=5"),
        (lambda: Means("x"), "questions='x'"),
        (lambda: Means(5), "questions=5"),
        (lambda: Contaminated("x", 0.01), "of='x'"),
        (lambda: reports_of(5), "source=5"),
        (lambda: Client("localhost:1", policy=Policy({"a": DOLLARS}), timing="x"), "timing='x'"),
        (
            lambda: AsyncClient("localhost:1", policy=Policy({"a": DOLLARS}), timing="x"),
            "timing='x'",
        ),
        (lambda: PublicPrior.of_numbers(LogNormalPrior(11.49, 0.83), 5), "unit=5"),
        (lambda: GeoPrivacy(1.0, per=1.0, unit=5), "unit=5"),
        (lambda: who_learns(None), "campaign=None"),
        (lambda: who_asks("x"), "campaign='x'"),
        (lambda: encode(5), "campaign=5"),
        (lambda: what_it_tells(None), "campaign=None"),
        (lambda: what_it_tells_of([], 5.0), r"campaign=\[\]"),
        (lambda: what_to_ask(float("nan"), 5.0), "campaign=nan"),
        (lambda: of_any_two("x"), "campaign='x'"),
        (lambda: least_counted(None), "campaign=None"),
        (lambda: unbiased_for({}), "campaign={}"),
        (lambda: what_a_form_tells(None), "form=None"),
        (lambda: InvitationCodes(None), "codes='None'"),
        (lambda: GatewayKeys(5), "relay_keys='5'"),
        (lambda: Relay(("127.0.0.1", 0), b"https://a.example"), "gateway=b'https://a.example'"),
        (lambda: AsyncRelayTransport("https://a.example"), "relay='https://a.example'"),
        (lambda: campaign_for_points(attribute="a", privacy=5, **LATER), "privacy=5"),
        (lambda: campaign_asking("x", attribute="a", privacy=DOLLARS, **LATER), "questions='x'"),
        (
            lambda: PlanRequest.of("x", epsilon=1, per=8_000, source=KNOWN, participants=9),
            "questions='x'",
        ),
    ],
)
def test_a_wrong_type_is_refused_by_its_name(called, named):
    with pytest.raises(ParameterError, match=f"must be .*, got {named}"):
        called()
