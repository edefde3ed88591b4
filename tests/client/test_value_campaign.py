"""Test a device in a value campaign: one release of a point, stored and shown as usual."""

from datetime import UTC, datetime, timedelta
from math import ldexp
from typing import Any

import pytest

from geoveil.campaign import (
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    ValueCampaign,
    encode,
    seal,
)
from geoveil.client import (
    Client,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Point,
    Policy,
    ReportBuilder,
)
from geoveil.gp import GeoPrivacy, PlanarLaplace, RandomSource
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import report_pb2

NOW = datetime.now(UTC)
PRIVACY = GeoPrivacy(1.0, 500.0, "metre")
PLANE = AzimuthalEquidistant(-73.95, 40.72, 60_000.0)


class Replayed(RandomSource):
    """Gives out the bits that another source gave before."""

    is_secure = True

    def __init__(self, draws: list[tuple[int, int]]) -> None:
        self._draws = list(draws)

    def bits(self, count: int) -> int:
        asked, value = self._draws.pop(0)
        assert asked == count
        return value


def campaign(dimension: int, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "campaign_id": "points",
        "title": "Points",
        "attribute": Attribute(name="position", unit="metre"),
        "privacy": PRIVACY,
        "mechanism": PlanarLaplaceSpec(dimension),
        "opens": NOW - timedelta(days=1),
        "closes": NOW + timedelta(days=1),
    }
    return ValueCampaign(**(fields | changes))


@pytest.mark.parametrize("value", [12.5, (120.0, -40.0), (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("seed", range(3))
def test_the_report_is_one_release_of_the_mechanism(make_source, value, seed):
    """Bit for bit that of `PlanarLaplace.release`, from the bits drawn after the report's id."""
    dimension = len(value) if isinstance(value, tuple) else 1
    source = make_source(seed)
    asked = campaign(dimension)
    builder = ReportBuilder(policy=Policy.permitting(asked), source=source)
    accepted = builder.accept("points", _envelope(asked))
    report = report_pb2.Report.FromString(builder.prepare(accepted, value).report)
    (count, ident), *noise = source.draws
    assert (count, report.report_id) == (128, ident.to_bytes(16))
    released = PlanarLaplace(PRIVACY, dimension).release(value, Replayed(noise))
    assert [(a.query_index, a.value) for a in report.answers] == list(enumerate(released))


def test_a_place_is_perturbed_in_the_plane(make_source):
    asked = campaign(2, attribute=Attribute(name="position", unit="metre", coordinates=PLANE))
    source = make_source(7)
    builder = ReportBuilder(policy=Policy.permitting(asked), source=source)
    place = (-73.9855, 40.758)
    accepted = builder.accept("points", _envelope(asked))
    report = report_pb2.Report.FromString(builder.prepare(accepted, place).report)
    mechanism = PlanarLaplace(PLANE.privacy(PRIVACY), 2)
    released = mechanism.release(PLANE.project(place), Replayed(source.draws[1:]))
    assert tuple(a.value for a in report.answers) == released


def test_the_receipt_shows_the_perturbed_point_and_it_is_drawn_once(tmp_path):
    asked = campaign(2)
    collector = InMemoryCollector([asked])
    transport = InMemoryTransport(collector)
    policy = Policy({"position": Limit(campaign=PRIVACY, value=Point(2))})
    with Client(policy=policy, state_dir=tmp_path, transport=transport, background=False) as client:
        client.fetch("points", 5.0)
        first = client.contribute("points", (120.0, -40.0))
        client.flush(5.0)
        again = client.contribute("points", (9e5, 9e5))  # as if it had moved
    (report,) = collector.reports("points")
    values = [a.value for a in report.answers]
    step = ldexp(1.0, asked.grid_exponent)
    assert first.perturbed == again.perturbed == tuple(v * step for v in values)
    assert again.acknowledged
    assert first.privacy == PRIVACY


def _envelope(asked: Campaign) -> bytes:
    return seal(encode(asked), None)
