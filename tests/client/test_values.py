"""A device answers no campaign that reads a value differently, and a point by one release."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import product
from math import ldexp
from pathlib import Path
from typing import Any

import numpy as np
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
    CampaignNotFetched,
    Client,
    InMemoryCollector,
    InMemoryTransport,
    Limit,
    Number,
    ParameterError,
    Place,
    Point,
    Policy,
    PolicyRefused,
    PrivateValueError,
    ReportBuilder,
)
from geoveil.client.values import ValueKind, kind_of
from geoveil.gp import GaussianKernel, GeoPrivacy, PlanarLaplace, Query, RandomSource, Threshold
from geoveil.gp.coordinates import Area, AzimuthalEquidistant
from geoveil.proto.v1 import report_pb2

Make = Callable[..., Any]
PRIVACY = GeoPrivacy(0.5, 10, "metre")
SHOP = AzimuthalEquidistant(12.3, 20.1, 10_000)
"""Where degrees that are really metres on a shop floor would be."""
POSITION = (12.3456, 20.1234)
OTHER_POSITION = (12.3457, 20.1234)


class Unreadable:
    """A value that nobody may look at."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(f"looked at: {name}")


@pytest.fixture
def asking(make_campaign):
    """Return a factory of campaigns about a position, of any dimension and coordinates."""

    def ask(
        dimension: int, coordinates: AzimuthalEquidistant | None = None, **more: Any
    ) -> Campaign:
        query: Query = GaussianKernel((1.0,) * dimension, 300.0)
        made: Campaign = make_campaign(
            "position",
            attribute=Attribute(name="position", unit="metre", coordinates=coordinates),
            privacy=PRIVACY,
            queries=(Threshold(1.0, 300.0, "smoothstep") if dimension == 1 else query,),
            **more,
        )
        return made

    return ask


KINDS: dict[str, tuple[ValueKind, int, AzimuthalEquidistant | None]] = {
    "number": (Number(), 1, None),
    "two": (Point(2), 2, None),
    "three": (Point(3), 3, None),
    "place": (Place(Area(12.3, 20.1, 20_000)), 2, SHOP),
    "elsewhere": (Place(Area(-73.9, 40.7, 60_000)), 2, AzimuthalEquidistant(-73.9, 40.7, 5_000)),
    "tiny": (Place(Area(50.0, -30.0, 1.0)), 2, AzimuthalEquidistant(50.0, -30.0, 1.0)),
}


@pytest.mark.parametrize(("permitted", "asked"), list(product(KINDS, KINDS)))
def test_only_the_kind_that_the_policy_states_is_answered(asking, make_source, permitted, asked):
    policy = Policy({"position": Limit(campaign=PRIVACY, value=KINDS[permitted][0])})
    source = make_source(0)
    builder = ReportBuilder(policy=policy, source=source)
    campaign = asking(*KINDS[asked][1:])
    if permitted == asked:
        builder.accept("position", seal(encode(campaign)))
        return
    with pytest.raises(PolicyRefused) as refused:
        builder.accept("position", seal(encode(campaign)))
    assert refused.value.aspect == "value of 'position'"
    assert refused.value.stated == str(kind_of(campaign))
    assert refused.value.permitted == str(KINDS[permitted][0])


def test_a_bare_privacy_stands_for_a_number(asking):
    policy = Policy({"position": PRIVACY})
    policy.check(asking(1), None)
    for campaign in (asking(2), asking(3), asking(2, SHOP)):
        with pytest.raises(PolicyRefused, match="the policy permits one number"):
            policy.check(campaign, None)


def test_points_of_a_value_campaign_are_of_a_kind_as_well(make_campaign):
    for dimension, plane in ((1, None), (2, None), (3, None), (2, SHOP)):
        campaign = make_campaign(
            attribute=Attribute(name="position", unit="metre", coordinates=plane),
            privacy=PRIVACY,
            queries=(),
            mechanism=PlanarLaplaceSpec(dimension),
        )
        for kind, of_kind, its_plane in KINDS.values():
            policy = Policy({"position": Limit(campaign=PRIVACY, value=kind)})
            if (dimension, plane) == (of_kind, its_plane):
                policy.check(campaign, None)
                continue
            with pytest.raises(PolicyRefused, match="value of 'position'"):
                policy.check(campaign, None)


def test_a_position_on_a_shop_floor_is_never_read_as_degrees(
    make_either: Make, state_dir: Path | None, tape: Any, make_source: Any,
    asking: Callable[..., Campaign],
) -> None:  # fmt: skip
    """11 metres would become 1,224 kilometres: anybody could tell two shelves apart."""
    source = make_source(0)
    policy = Policy({"position": Limit(campaign=PRIVACY, value=Point(2))})
    client = make_either(policy=policy, state_dir=state_dir, source=source)
    tape.handler = InMemoryCollector([asking(2, SHOP)])
    with pytest.raises(PolicyRefused, match="a point of 2 coordinates"):
        client.fetch("position")
    with pytest.raises(CampaignNotFetched):
        client.contribute("position", Unreadable())
    assert source.draws == []
    # The same campaign in metres is answered, and the numbers are taken as they are.
    honest = asking(2)
    tape.handler = InMemoryCollector([honest])
    client.fetch("position")
    assert client.contribute("position", POSITION).fresh
    points = [honest.attribute.point(p, 2) for p in (POSITION, OTHER_POSITION)]
    assert np.allclose(points[1] - points[0], (1e-4, 0.0))


def test_the_control_shows_what_the_server_would_gain(asking):
    """A tenth of a millimetre on the floor becomes ten metres on the Earth: all of the ε."""
    points = [asking(2, SHOP).attribute.point(p, 2) for p in (POSITION, OTHER_POSITION)]
    assert np.hypot(*(points[1] - points[0])) > 10.0


def test_what_another_contributor_accepted_is_looked_at_again(asking):
    """A host may hold several policies."""
    careless = Policy({"position": Limit(campaign=PRIVACY, value=Place(None))})
    careful = Policy({"position": Limit(campaign=PRIVACY, value=Point(2))})
    accepted = ReportBuilder(policy=careless).accept("position", seal(encode(asking(2, SHOP))))
    value: Any = Unreadable()
    with pytest.raises(PolicyRefused):
        ReportBuilder(policy=careful).prepare(accepted, value)


def test_whoever_was_shown_a_campaign_permits_that_and_no_other(asking):
    campaigns = [asking(*rest) for _, *rest in KINDS.values()]
    for shown, found in product(campaigns, campaigns):
        policy = Policy.permitting(shown)
        if found is shown:
            policy.check(found, None)
            continue
        with pytest.raises(PolicyRefused, match="value of 'position'"):
            policy.check(found, None)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Number(0), (0, 52_000, 1e12), (-5, -1e-9)),
        (Number(most=10_000_000), (-5, 10_000_000), (999_999_999_999, 10_000_000.1)),
        (Number(0, 10_000_000), (np.float64(3), np.array([4.0])), (np.int64(-5), np.array(1e9))),
    ],
)
def test_numbers_out_of_the_range_of_the_policy_are_refused_before_anything_is_drawn(
    asking, kind, good, bad
):
    builder = ReportBuilder(policy=Policy({"position": Limit(campaign=PRIVACY, value=kind)}))
    accepted = builder.accept("position", seal(encode(asking(1))))
    for value in good:
        builder.prepare(accepted, value)
    for value in bad:
        with pytest.raises(PrivateValueError) as refused:
            builder.prepare(accepted, value)
        assert refused.value.expected == f"{kind}, in metre"
        assert refused.value.__context__ is None


def test_a_place_outside_the_area_is_moved_or_refused_as_the_policy_says(asking):
    envelope = seal(encode(asking(2, SHOP)))
    for outside in ("moved", "refused"):
        place = Place(None, outside=outside)
        builder = ReportBuilder(policy=Policy({"position": Limit(campaign=PRIVACY, value=place)}))
        accepted = builder.accept("position", envelope)
        builder.prepare(accepted, (12.3, 20.15))
        for far in ((2.35, 48.86), (20.1, 12.3)):
            if outside == "moved":
                builder.prepare(accepted, far)
                continue
            with pytest.raises(PrivateValueError, match=r"within 10,000 m of longitude 12\.3"):
                builder.prepare(accepted, far)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        *((lambda n=n: Point(n), "dimension") for n in (1, 0, -1, 2.0, True, "2", None)),
        *((lambda area=area: Place(area), "area") for area in ((0, 0, 1), SHOP, 5.0)),
        *(
            (lambda ends=ends: Number(*ends), "least|most")
            for ends in ((1, 1), (2, 1), ("0", 1), (float("nan"), 1), (0, float("inf")))
        ),
        (lambda: Place(None, outside="asked"), "'moved', 'refused'"),
    ],
)
def test_a_kind_of_values_is_checked(make, name):
    with pytest.raises(ParameterError, match=name):
        make()


NOW = datetime.now(UTC)
METRES = GeoPrivacy(1.0, 500.0, "metre")
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


def of_points(dimension: int, **changes: Any) -> Campaign:
    fields: dict[str, Any] = {
        "campaign_id": "points",
        "title": "Points",
        "attribute": Attribute(name="position", unit="metre"),
        "privacy": METRES,
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
    asked = of_points(dimension)
    builder = ReportBuilder(policy=Policy.permitting(asked), source=source)
    accepted = builder.accept("points", _envelope(asked))
    report = report_pb2.Report.FromString(builder.prepare(accepted, value).report)
    (count, ident), *noise = source.draws
    assert (count, report.report_id) == (128, ident.to_bytes(16))
    released = PlanarLaplace(METRES, dimension).release(value, Replayed(noise))
    assert [(a.query_index, a.value) for a in report.answers] == list(enumerate(released))


def test_a_place_is_perturbed_in_the_plane(make_source):
    asked = of_points(2, attribute=Attribute(name="position", unit="metre", coordinates=PLANE))
    source = make_source(7)
    builder = ReportBuilder(policy=Policy.permitting(asked), source=source)
    place = (-73.9855, 40.758)
    accepted = builder.accept("points", _envelope(asked))
    report = report_pb2.Report.FromString(builder.prepare(accepted, place).report)
    mechanism = PlanarLaplace(PLANE.privacy(METRES), 2)
    released = mechanism.release(PLANE.project(place), Replayed(source.draws[1:]))
    assert tuple(a.value for a in report.answers) == released


def test_the_receipt_shows_the_perturbed_point_and_it_is_drawn_once(tmp_path):
    asked = of_points(2)
    collector = InMemoryCollector([asked])
    transport = InMemoryTransport(collector)
    policy = Policy({"position": Limit(campaign=METRES, value=Point(2))})
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
    assert first.privacy == METRES


def _envelope(asked: Campaign) -> bytes:
    return seal(encode(asked), None)
