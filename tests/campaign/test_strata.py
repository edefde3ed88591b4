"""Strata in a campaign's bytes, and what a report to such a campaign must look like."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.campaign import (
    Allocation,
    Attribute,
    PlanarLaplaceSpec,
    Question,
    Strata,
    decode,
    encode,
)
from geoveil.campaign.admission import Admission, Reason
from geoveil.gp import (
    GeoPrivacy,
    ParameterError,
    PrivateValueError,
    SeededSource,
    Threshold,
    UnsupportedError,
)
from geoveil.proto.v1 import campaign_pb2 as pb
from tests.campaigns import campaign_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REGION = Strata(name="region", labels=("north", "middle", "south"))
LIES = Strata(name="region", labels=("north", "middle", "south"), epsilon=1.5)
ID = bytes(16)


def campaign(strata=REGION, questions=2, **changes):
    fields = {
        "campaign_id": "income",
        "title": "Income",
        "attribute": Attribute(name="income", unit="dollar"),
        "privacy": GeoPrivacy(1.0, 8000.0, "dollar"),
        "questions": tuple(
            Question(f"above {i}", Threshold(1e5 * (i + 1), 24_000, "smoothstep"))
            for i in range(questions)
        ),
        "opens": NOW,
        "closes": NOW + timedelta(days=30),
        "strata": strata,
    }
    return campaign_of(**(fields | changes))


POINTS = campaign(mechanism=PlanarLaplaceSpec(2), attribute=Attribute(name="place", unit="dollar"))
ALL = campaign(allocation=Allocation.SPLIT)


@pytest.mark.parametrize("asked", [campaign(), campaign(LIES), ALL, POINTS, campaign(None)])
def test_bytes_bring_it_back(asked):
    again = decode(encode(asked))
    assert again == asked
    assert again.strata == asked.strata


def test_a_campaign_without_strata_has_the_bytes_that_it_had():
    message = pb.Campaign.FromString(encode(campaign(None)))
    assert not message.HasField("strata")
    assert 13 not in [field.number for field, _ in message.ListFields()]


def test_a_reader_that_does_not_know_strata_refuses():
    """The canonical bytes of what it understands are others; strata stand in for what is new."""
    message = pb.Campaign.FromString(encode(campaign()))
    known = pb.Campaign()
    known.CopyFrom(message)
    known.ClearField("strata")
    newer = known.SerializeToString(deterministic=True) + bytes([0xF2, 0x06, 0x00])  # field 110
    with pytest.raises(UnsupportedError, match="update geoveil"):
        decode(newer)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"name": ""}, "strata.name"),
        ({"name": "two\nlines"}, "strata.name"),
        ({"labels": ("one",)}, "strata.labels"),
        ({"labels": "ab"}, "strata.labels"),
        ({"labels": tuple(map(str, range(65)))}, "strata.labels"),
        ({"labels": ("a", "a")}, "strata.labels"),
        ({"labels": ("a", " b")}, r"strata.labels\[1\]"),
        ({"epsilon": 0.0}, "strata.epsilon"),
        ({"epsilon": 16.5}, "strata.epsilon"),
    ],
)
def test_what_is_out_of_range_is_refused_and_named(changed, named):
    with pytest.raises(ParameterError, match=named):
        Strata(**({"name": "region", "labels": ("a", "b")} | changed))


def test_sums_are_not_too_many():
    with pytest.raises(ParameterError, match=r"number of strata.labels must be so few"):
        campaign(Strata(name="s", labels=tuple(map(str, range(64)))), questions=1_600)
    with pytest.raises(ParameterError, match="queries times labels times periods"):
        campaign(period=timedelta(minutes=1), closes=NOW + timedelta(days=15))
    with pytest.raises(ParameterError, match="strata must be a Strata"):
        campaign("region")


@pytest.mark.parametrize("label", ["west", "", None, 1, "North"])
def test_another_label_is_refused_and_not_shown(label):
    with pytest.raises(PrivateValueError, match="one of north, middle, south") as raised:
        REGION.index(label)
    assert "west" not in str(raised.value)
    assert raised.value.__context__ is None


def fault(asked, *answers):
    found = Admission(asked).fault(ID, answers, 0)
    return None if found is None else found.reason


def test_one_answer_is_of_any_label_and_query():
    asked = campaign()
    assert [fault(asked, (i, 0)) for i in range(6)] == [None] * 6
    for wrong in ([(6, 0)], [(0, 0), (2, 0)], []):
        assert fault(asked, *wrong) is Reason.WRONG_ANSWERS
    high = asked.ranges[1][1]
    assert fault(asked, (5, high)) is None
    assert fault(asked, (5, high + 1)) is Reason.OUT_OF_RANGE
    indices = np.array([0, 5], np.uint32)
    sound = Admission(asked).all_sound
    assert sound(indices, np.zeros(2, np.int64), np.zeros(2, np.uint32))
    assert not sound(indices + 1, np.zeros(2, np.int64), np.zeros(2, np.uint32))


@pytest.mark.parametrize("asked", [ALL, POINTS])
def test_all_answers_are_of_one_label(asked):
    for first in (0, 2, 4):
        assert fault(asked, (first, 0), (first + 1, 0)) is None
    for wrong in ([(1, 0), (2, 0)], [(0, 0), (3, 0)], [(0, 0)], [(4, 0), (5, 0), (6, 0)]):
        assert fault(asked, *wrong) is Reason.WRONG_ANSWERS
    assert "up to 5, the first a multiple of 2" in Admission(asked).fault(ID, [(1, 0)], 0).detail


def test_every_label_and_query_has_a_sum_of_its_own():
    weekly = campaign(period=timedelta(days=7))
    slots = [weekly.slot(i, p) for p in range(weekly.periods) for i in range(weekly.indices)]
    assert slots == list(range(weekly.slots))
    assert weekly.slots == 5 * 3 * 2


def test_a_label_is_sent_as_it_is_or_with_lies():
    source = SeededSource(3)
    assert {campaign().draw_first_index(2, source) for _ in range(50)} == {4}
    assert {campaign(LIES).draw_first_index(2, source) for _ in range(200)} == {0, 2, 4}
    assert campaign(None).draw_first_index(None, source) == 0


def test_what_a_person_reads_says_what_is_sent():
    assert str(REGION) == "Your region, one of north, middle, south, is sent as it is."
    assert "the true one 69.2 % of the time" in str(LIES)
    assert "4.49 times as likely" in str(LIES)
    assert LIES.privacy == GeoPrivacy(1.5, 1.0, "label")
    assert REGION.privacy is None
