"""Test that a form is one draw of all fields, each charged to its attribute, or none."""

import logging
import math
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from geoveil.campaign import (
    ChoiceField,
    FormCampaign,
    MultipleField,
    OrdinalField,
    encode,
    seal,
)
from geoveil.client import (
    BudgetExceeded,
    Choice,
    Client,
    DeliveryStatus,
    InMemoryCollector,
    Limit,
    Multiple,
    Number,
    Ordinal,
    ParameterError,
    Place,
    Policy,
    PolicyRefused,
    PrivateValueError,
    ReportBuilder,
)
from geoveil.client.policy import CampaignCost
from geoveil.gp import Area, GeoPrivacy, LocalPrivacy, UnsupportedError
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import report_pb2
from tests.campaign.test_forms import HOME, INCOME, OPENS, REGION, RENT, RENTS
from tests.client.mortal import Lab, WireTransport, every_point

Make = Callable[..., Any]
PARIS = AzimuthalEquidistant(2.35, 48.86, 15_000)
MOOD = OrdinalField(name="mood", options=("bad", "so so", "good"), epsilon=0.5)
WAYS = MultipleField(name="ways", options=("bus", "train", "car"), epsilon=0.5)
FIELDS = (INCOME, HOME, RENTS, RENT, MOOD, WAYS, REGION)
SECRET = {
    "income": 52_321.125,
    "home": (2.361234, 48.851234),
    "rents": "yes",
    "rent": 912.375,
    "mood": "good",
    "ways": ["bus", "car"],
    "region": "south",
}


def form(campaign_id: str = "household", fields: Any = FIELDS, **more: Any) -> FormCampaign:
    dates: dict[str, Any] = {"opens": OPENS, "closes": OPENS + timedelta(days=360)}
    return FormCampaign(campaign_id=campaign_id, title="Household", fields=fields, **dates | more)


def limits(times: float = 1) -> dict[str, Limit]:
    """Return limits with room for so many reports to the form in a lifetime."""

    def most(epsilon: float, per: float, unit: str) -> Any:
        privacy = GeoPrivacy(epsilon, per, unit)
        return {"campaign": privacy, "lifetime": GeoPrivacy(epsilon * times, per, unit)}

    return {
        "income": Limit(**most(1, 8000, "dollar"), value=Number(0, 10**6)),
        "home": Limit(**most(1, 500, "metre"), value=Place(PARIS.area)),
        "rents": Limit(**most(4.5, 1, "option"), value=Choice(("yes", "no", "both"))),
        "rent": Limit(**most(1, 1000, "dollar")),
        "mood": Limit(**most(0.5, 1, "step"), value=Ordinal()),
        "ways": Limit(**most(0.5, 1, "option"), value=Multiple()),
    }


OPENLY = {"region": Choice()}


def policy(times: float = 1, **more: Any) -> Policy:
    more = {"openly": OPENLY} | more
    return Policy(limits(times), **more)


@pytest.fixture
def asking(collector):
    for name in ("household", "again"):
        collector.add(form(name))
    return collector


def test_a_whole_form_is_one_report_and_one_receipt(make_either, asking, state_dir, make_source):
    settings = {"policy": policy(), "state_dir": state_dir, "source": make_source(7)}
    client = make_either(fetched=("household",), **settings)
    receipt = client.contribute("household", SECRET)
    assert receipt.fresh
    assert not client.contribute("household", SECRET | {"income": 1.0}).fresh
    assert client.history() == (receipt,)
    campaign = form()
    assert receipt.charges == campaign.charges
    assert [charge.attribute for charge in receipt.charges] == [f.name for f in FIELDS[:-1]]
    with pytest.raises(UnsupportedError, match="charges"):
        _ = receipt.privacy
    assert [c["attribute"] for c in receipt.to_dict()["charges"]] == [f.name for f in FIELDS[:-1]]
    assert client.flush().acknowledged == 1
    (counted,) = asking.reports("household")
    assert [answer.query_index for answer in counted.answers] == list(range(campaign.columns))
    assert counted.answers[-1].value == 1  # the open field, as it is
    (again,) = client.history()
    assert again.status is DeliveryStatus.ACKNOWLEDGED
    assert again.charges == receipt.charges


def test_the_report_is_what_the_fields_release_of_the_same_bits(make_source):
    campaign = form()
    builder = ReportBuilder(policy=policy(), source=make_source(3))
    accepted = builder.accept("household", seal(encode(campaign)))
    made = report_pb2.Report.FromString(builder.prepare(accepted, SECRET).report)
    source = make_source(3)
    source.bits(128)  # the id
    prepared = campaign.prepare(SECRET)
    expected = [
        k
        for field, value in zip(FIELDS, prepared, strict=True)
        for k in field.release(value, source)
    ]
    assert [answer.value for answer in made.answers] == expected


def test_who_is_not_asked_sends_every_column(make_source):
    builder = ReportBuilder(policy=policy(), source=make_source(3))
    accepted = builder.accept("household", seal(encode(form())))
    answers = {name: value for name, value in SECRET.items() if name != "rent"}
    for own in (answers, SECRET, SECRET | {"rent": 10.0**9}):
        made = builder.prepare(accepted, own | {"rents": "no"})
        report = report_pb2.Report.FromString(made.report)
        assert len(report.answers) == form().columns
        assert made.charges == form().charges


@pytest.mark.parametrize("name", SECRET)
@pytest.mark.parametrize("wrong", ["missing", "unlike"])
def test_an_answer_that_is_missing_or_wrong_draws_nothing(
    name: str, wrong: str, make_client: Make, asking: InMemoryCollector, make_source: Any,
    tape: Any, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.DEBUG)
    source = make_source(1)
    client = make_client(policy=policy(), fetched=("household",), source=source)
    answers = dict(SECRET)
    if wrong == "missing":
        del answers[name]
    else:
        answers[name] = "hidden-83715"
    with pytest.raises(PrivateValueError) as refused:
        client.contribute("household", answers)
    assert source.draws == []
    assert client.history() == ()
    text = caplog.text + "".join(traceback.format_exception(refused.value)) + repr(refused.value)
    for hidden in ("83715", "52321", "52_321", "2.361234", "912.375"):
        assert hidden not in text
    assert refused.value.__context__ is None
    assert client.contribute("household", SECRET).fresh


@pytest.mark.parametrize(
    "answers", [{}, None, 52_000.0, [1, 2], SECRET | {"debt": 83715.0}, SECRET | {"income": -1.0}]
)
def test_what_is_no_form_is_refused(answers, make_client, asking):
    client = make_client(policy=policy(), fetched=("household",))
    with pytest.raises(PrivateValueError) as refused:
        client.contribute("household", answers)
    assert "83715" not in str(refused.value)
    assert client.history() == ()


def test_a_number_of_another_kind_of_campaign_is_not_a_form(make_client, asking):
    client = make_client(fetched=("income",))
    with pytest.raises(PrivateValueError):
        client.contribute("income", SECRET)


def test_each_attribute_is_charged_its_own_over_several_campaigns(make_either, asking, state_dir):
    client = make_either(
        policy=policy(2), state_dir=state_dir, fetched=("household", "again"), background=False
    )
    client.contribute("household", SECRET)
    client.contribute("again", SECRET)
    spent = {budget.attribute: budget.spent for budget in client.budgets()}
    # To rent or not shows in the rent as well: 2 and, from the middle to an end, 2500/1000.
    assert spent == {"income": 2, "home": 2, "rents": 9, "rent": 2, "mood": 1, "ways": 1}


@pytest.mark.parametrize("name", limits())
def test_one_attribute_that_is_spent_refuses_the_whole_form(name, make_either, asking, make_source):
    tight = limits(2) | {name: limits(1)[name]}
    source = make_source(2)
    client = make_either(
        policy=Policy(tight, openly=OPENLY), fetched=("household", "again"), source=source
    )
    client.contribute("household", SECRET)
    drawn = len(source.draws)
    with pytest.raises(BudgetExceeded) as refused:
        client.contribute("again", SECRET)
    assert refused.value.attribute == name
    assert len(source.draws) == drawn
    assert len(client.history()) == 1
    assert {b.attribute: b.spent for b in client.budgets()}["mood"] == 0.5


def refusing(aspect: str, fields: Any = FIELDS, **settings: Any) -> PolicyRefused:
    own = Policy(**{"limits": limits(), "openly": OPENLY} | settings)
    builder = ReportBuilder(policy=own)
    with pytest.raises(PolicyRefused) as refused:
        builder.accept("household", seal(encode(form(fields=fields))))
    assert aspect in refused.value.aspect
    return refused.value


def test_an_open_field_needs_the_app_s_word():
    assert refusing("open field 'region'", openly={}).permitted == "none"
    refusing("open field 'region'", openly={"region": Ordinal()})
    refusing("open field 'region'", openly={"region": Choice(("north", "east"))})
    # A limit is none: it is for what is perturbed.
    more = Limit(campaign=GeoPrivacy(9, 1, "option"), value=Choice())
    refusing("open field 'region'", limits=limits() | {"region": more}, openly={})
    builder = ReportBuilder(policy=policy(openly={"region": Choice(("north", "east", "south"))}))
    assert builder.accept("household", seal(encode(form())))


@pytest.mark.parametrize("name", limits())
def test_an_attribute_that_is_not_listed_is_refused(name):
    listed = {other: limit for other, limit in limits().items() if other != name}
    assert name in refusing("attribute", limits=listed).stated


def test_no_server_decides_how_an_answer_is_read():
    def with_value(name: str, value: Any, unit: str) -> dict[str, Limit]:
        return limits() | {name: Limit(campaign=GeoPrivacy(10, 1, unit), value=value)}

    refusing("value of 'rents'", limits=with_value("rents", Choice(("yes", "maybe")), "option"))
    refusing("value of 'rents'", limits=with_value("rents", Multiple(), "option"))
    refusing("value of 'ways'", limits=with_value("ways", Choice(), "option"))
    upside_down = Ordinal(("good", "so so", "bad"))
    refusing("value of 'mood'", limits=with_value("mood", upside_down, "step"))
    refusing("privacy loss of 'mood'", limits=with_value("mood", Choice(), "option"))
    wide = Limit(campaign=GeoPrivacy(1, 500, "metre"), value=Place(Area(2.35, 48.86, 1000)))
    refusing("value of 'home'", limits=limits() | {"home": wide})


def test_the_most_of_a_whole_form():
    private = FIELDS[:-1]
    far = form(fields=private).largest_epsilon
    assert 0 < 62.5 + 60 + 2 + 5 + 1 + 1.5 - far < 1e-4  # on the Earth 30 km are a little less
    enough = policy(form_any_two=LocalPrivacy(far))
    envelope = seal(encode(form(fields=private)))
    assert ReportBuilder(policy=enough).accept("household", envelope)
    less = LocalPrivacy(math.nextafter(far, 0))
    refusing("any two forms", private, form_any_two=less)
    refusing("any two forms", form_any_two=LocalPrivacy(1e9))  # with an open field
    most = GeoPrivacy(1, 1, "step")
    mood = Limit(campaign=most, value=Ordinal(), any_two=LocalPrivacy(0.9))
    refusing("any two values of 'mood'", limits=limits() | {"mood": mood})


@pytest.mark.parametrize(
    ("fields", "more"), [(FIELDS, {}), ((MOOD, REGION), {"period": timedelta(days=30)})]
)
def test_what_was_shown_and_agreed_to_is_permitted(fields, more):
    campaign = form(fields=fields, **more)
    builder = ReportBuilder(policy=Policy.permitting(campaign))
    accepted = builder.accept("household", seal(encode(campaign)))
    assert len(accepted.limits) == len(campaign.charges)
    for _ in range(3):
        assert builder.prepare(accepted, {f.name: SECRET[f.name] for f in fields})


def test_a_form_that_asks_too_much_work_is_refused_before_it_is_made():
    many = ChoiceField(name="word", options=tuple(f"word {i}" for i in range(10_000)), epsilon=1.0)
    campaign = form(fields=(many,))
    assert CampaignCost.of(encode(campaign)).work > 20_000
    assert CampaignCost.of(encode(form())).work < 10_000
    refusing("work", (many,))
    refusing("number of questions", most_queries=6)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [(Choice, {"options": ()}), (Choice, {"options": "yes"}), (Ordinal, {"options": ("a", "a")}),
     (Multiple, {"options": (1, 2)})],
)  # fmt: skip
def test_options_that_are_none_are_refused(kind, arguments):
    with pytest.raises(ParameterError, match="options"):
        kind(**arguments)


@pytest.mark.parametrize(
    ("name", "given"),
    [("openly", {"region": "yes"}), ("openly", {"": Choice()}), ("openly", ["region"]),
     ("form_any_two", 3.0)],
)  # fmt: skip
def test_a_policy_that_is_none_is_refused(name, given):
    with pytest.raises(ParameterError, match=name):
        Policy({}, **{name: given})


@pytest.mark.parametrize("unit", ["metre", "step"])
def test_limits_of_options_are_per_option(unit):
    with pytest.raises(ParameterError, match="'option'"):
        Limit(campaign=GeoPrivacy(1, 1, unit), value=Choice())


NOW: dict[str, Any] = {
    "opens": datetime.now(UTC) - timedelta(days=1),
    "closes": datetime.now(UTC) + timedelta(9),
}


def take_part(transport: WireTransport, state: Path, home: tuple[float, float]) -> Any:
    with Client(policy=policy(), state_dir=state, transport=transport, background=False) as client:
        client.fetch("household", 0.5)
        client.contribute("household", SECRET | {"home": home})
        client.contribute("household", SECRET | {"rents": "no"})
        client.flush(0.5)
        return client.history(), {budget.attribute: budget.spent for budget in client.budgets()}


@pytest.mark.parametrize("stride", [29, pytest.param(7, marks=pytest.mark.deep)])
def test_a_device_killed_at_any_point_draws_one_form(stride, tmp_path):
    def lives(point: int) -> bool:
        lab = Lab(InMemoryCollector([form(**NOW)]))
        state = tmp_path / str(point)
        (first,) = lab.run(lambda t: take_part(t, state, (2.36, 48.85)), kill_at=point)
        (last,) = lab.run(lambda t: take_part(t, state, (2.30, 48.88)))
        (receipt,), spent = last.returned()
        (counted,) = lab.collector.reports("household")
        assert lab.seen["household", 0] == {counted.SerializeToString(deterministic=True)}
        assert receipt.report_id == counted.report_id.hex()
        assert receipt.charges == form(**NOW).charges
        assert spent == {c.attribute: c.privacy.epsilon for c in receipt.charges}
        return first.killed

    assert list(every_point(lives, stride, stride // 2))[-1] >= 20


def test_two_processes_draw_one_form(tmp_path):
    lab = Lab(InMemoryCollector([form(**NOW)]))
    ended = lab.run(lambda t: take_part(t, tmp_path / "state", (2.36, 48.85)), processes=2)
    shown = [device.returned()[0][0].report_id for device in ended]
    (counted,) = lab.collector.reports("household")
    assert shown == [counted.report_id.hex()] * 2
    assert len(lab.seen["household", 0]) == 1


def test_nothing_that_is_kept_holds_an_answer(make_client, asking, tmp_path):
    client = make_client(policy=policy(), state_dir=tmp_path / "s", fetched=("household",))
    receipt = client.contribute("household", SECRET)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "s").iterdir())
    for hidden in (b"52321", b"2.361234", b"912.375"):
        assert hidden not in kept
        assert hidden.decode() not in repr(receipt) + str(receipt.to_dict())
