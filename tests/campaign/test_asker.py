"""Test the asker: signed in the campaign, and refused if it could mislead people."""

from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from geoveil.campaign import (
    Asker,
    SigningKey,
    decode,
    encode,
    open_envelope,
    seal,
    signer,
    who_asks,
)
from geoveil.campaign.signing import SignatureInvalid
from geoveil.gp import ParameterError
from tools.vectors.examples import small_campaign

ASKER = Asker(organisation="City of Bergen", purpose="bus stops", contact="data@bergen.example")
NOTICE = "https://bergen.example:8443/survey?lang=nb#rights"


def test_who_asks_travels_with_the_campaign_and_is_signed():
    for asker in (ASKER, replace(ASKER, notice=NOTICE)):
        campaign = small_campaign("stops", asker=asker)
        assert decode(encode(campaign)).asker == asker
        assert who_asks(campaign)[3:-2] == ([f"Notice: {NOTICE}"] if asker.notice else [])
        envelope = open_envelope(seal(encode(campaign), SigningKey.generate()))
        assert signer(envelope) is not None
        envelope.campaign = envelope.campaign.replace(b"Bergen", b"Berlin")
        with pytest.raises(SignatureInvalid):
            signer(envelope)
    assert who_asks(small_campaign("stops")) == [
        "Who asks is unknown: the survey does not say.",
        "How long the server keeps single answers is unknown: the survey does not say.",
        "Nobody can withdraw an answer after it is sent: reports carry no names.",
    ]


def test_the_date_of_deletion_is_signed_and_not_before_the_closing():
    closes = small_campaign("stops").closes
    east = timezone(timedelta(hours=2))
    for later in (timedelta(), timedelta(days=30, microseconds=1), timedelta(days=3660)):
        campaign = small_campaign("stops", delete_after=(closes + later).astimezone(east))
        assert decode(encode(campaign)).delete_after == closes + later
        assert f"after {closes + later:%Y-%m-%d %H:%M} UTC, and keeps" in who_asks(campaign)[-2]
    for wrong in (
        *(closes - timedelta.resolution, closes + timedelta(days=3660, microseconds=1)),
        *(closes.replace(tzinfo=None), datetime.max.replace(tzinfo=UTC), 30, closes.isoformat()),
    ):
        with pytest.raises(ParameterError, match="delete_after"):
            small_campaign("stops", delete_after=wrong)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("organisation", ["", "x" * 201, "City\nSigned by: all", "\u202eCity", None]),
        ("purpose", ["", "x" * 501]),
        ("contact", ["", " a@b.example"]),
        (
            "notice",
            [
                *("http://a.example", "https://", "https://a b", "javascript:alert(1)", None),
                *("https://a.example/\n", "https://me@a.example", f"https://a.example/{'x' * 500}"),
            ],
        ),
    ],
)
def test_what_can_mislead_is_refused_by_name(name, values):
    for value in values:
        with pytest.raises(ParameterError) as caught:
            Asker(**(asdict(ASKER) | {name: value}))
        assert caught.value.name == f"asker.{name}"
    longest = {"organisation": 200, "purpose": 500, "contact": 200}.get(name)
    assert Asker(**(asdict(ASKER) | {name: "x" * longest if longest else NOTICE}))
    with pytest.raises(ParameterError, match="asker"):
        small_campaign("stops", asker={"organisation": "City"})
