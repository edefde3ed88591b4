"""Test that errors keep their arguments, also in another process."""

import pickle
from datetime import UTC, datetime

import pytest

from geoveil.client import (
    BudgetExceeded,
    CampaignNotFetched,
    ClientClosed,
    FamilyMissing,
    TransportError,
)
from geoveil.gp import GeoPrivacy

PRIVACY = GeoPrivacy(1.0, per=8000.0, unit="dollar")
FREES = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ClientClosed(), ()),
        (
            BudgetExceeded(
                "c",
                attribute="a",
                scope="lifetime",
                spent=1.0,
                cost=PRIVACY,
                limit=PRIVACY,
                frees=FREES,
            ),
            ("c", "a", "lifetime", 1.0, PRIVACY, PRIVACY, FREES, 0.0),
        ),
        (CampaignNotFetched("c"), ("c", None)),
        (FamilyMissing("c", "reason", family="f", group="g"), ("c", "reason", "f", "g")),
        (TransportError("UNAVAILABLE", "down"), ("UNAVAILABLE", "down")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_is_made_again_of_its_arguments(error, arguments):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert again.args == error.args == arguments
    assert vars(again) == vars(error)
    assert str(again) == str(error)
