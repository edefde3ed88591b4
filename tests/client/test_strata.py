"""Labels of groups: how they leave the device, what they cost, and who may ask for them."""

import logging
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from geoveil.campaign import PlanarLaplaceSpec, Strata, encode, seal
from geoveil.client import (
    BudgetExceeded,
    Limit,
    ParameterError,
    Policy,
    PolicyRefused,
    PrivateValueError,
    ReportBuilder,
)
from geoveil.gp import GeoPrivacy, LocalPrivacy
from geoveil.proto.v1 import report_pb2

INCOME = {"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))}
OPEN = Strata(name="region", labels=("north", "middle", "south"))
LIES = Strata(name="region", labels=OPEN.labels, epsilon=0.5)


def policy(**more: Any) -> Policy:
    return Policy(INCOME, **{"strata": {"region": LocalPrivacy(1.2)}, **more})


@pytest.fixture
def asking(make_either: Any, collector: Any, make_campaign: Any, make_source: Any) -> Any:
    """Make a client that has a campaign with strata for each id."""

    def made(strata: Strata, *ids: str, state_dir: Any = None, **more: Any) -> Any:
        for name in ids:
            collector.add(make_campaign(name, strata=strata))
        return make_either(
            state_dir=state_dir, source=make_source(0), fetched=ids, **{"policy": policy()} | more
        )

    return made


def indices(receipt: Any) -> list[int]:
    return [answer.query_index for answer in receipt.answers]


def test_a_label_that_is_open_is_sent_as_it_is(asking: Any, make_campaign: Any) -> None:
    client = asking(OPEN, "a", "b", policy=policy(strata={"region": "openly"}))
    columns = make_campaign("a").columns
    for name, label in (("a", "north"), ("b", "south")):
        found = indices(client.contribute(name, 52_000, stratum=label))
        assert {i // columns for i in found} == {OPEN.labels.index(label)}


def test_a_randomised_label_is_sent_with_lies(make_campaign: Any, make_source: Any) -> None:
    """400 reports; the share of the truth, α = 10⁻⁴ (3.9 standard errors)."""
    asked = make_campaign("a", strata=LIES)
    builder = ReportBuilder(policy=policy(), source=make_source(1))
    accepted = builder.accept("a", seal(encode(asked)))
    sent = Counter[int]()
    for _ in range(400):
        made = builder.prepare(accepted, 52_000, stratum="middle")
        report = report_pb2.Report.FromString(made.report)
        sent[report.answers[0].query_index // asked.columns] += 1
    assert LIES.randomized is not None
    p = float(LIES.randomized.truth)
    assert abs(sent[1] - 400 * p) < 3.9 * (400 * p * (1 - p)) ** 0.5
    assert min(sent[0], sent[2]) > 50


@pytest.mark.parametrize("label", ["west", None, "North", ""])
def test_another_label_is_refused_before_anything_is_drawn(
    asking: Any, label: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    client = asking(LIES, "a")
    with pytest.raises(PrivateValueError, match="a region, which is one of north, middle, south"):
        client.contribute("a", 52_000, stratum=label)
    assert client.history() == ()
    assert "west" not in caplog.text


def test_a_campaign_without_strata_takes_no_label(
    make_either: Any, collector: Any, make_campaign: Any
) -> None:
    collector.add(make_campaign("a"))
    client = make_either(policy=policy(), fetched=("a",))
    with pytest.raises(ParameterError, match="stratum must be left out"):
        client.contribute("a", 52_000, stratum="north")
    assert client.contribute("a", 52_000).fresh


def test_answering_again_sends_the_label_of_before(asking: Any) -> None:
    client = asking(LIES, "a")
    first = client.contribute("a", 52_000, stratum="north")
    again = client.contribute("a", 52_000, stratum="south")
    assert again.answers == first.answers
    assert not again.fresh


@pytest.mark.parametrize(
    ("strata", "permitted", "said"),
    [
        (OPEN, {}, "permits none"),
        (LIES, {}, "permits none"),
        (OPEN, {"region": LocalPrivacy(9.0)}, "sent as it is"),
        (LIES, {"region": LocalPrivacy(0.49)}, "ε = 0.5 between any two values"),
        (LIES, {"Region": "openly"}, "permits none"),
    ],
)
def test_a_policy_says_which_labels_may_be_sent(
    make_campaign: Any, strata: Strata, permitted: Any, said: str
) -> None:
    asked = make_campaign("a", strata=strata)
    with pytest.raises(PolicyRefused, match="label 'region'") as raised:
        policy(strata=permitted).check(asked, None)
    assert said in str(raised.value)


@pytest.mark.parametrize("permitted", [{"region": "openly"}, {"region": LocalPrivacy(0.5)}])
def test_what_a_policy_permits_is_answered(make_campaign: Any, permitted: Any) -> None:
    policy(strata=permitted).check(make_campaign("a", strata=LIES), None)
    Policy.permitting(make_campaign("a", strata=OPEN)).check(make_campaign("a", strata=OPEN), None)


@pytest.mark.parametrize(
    "strata", [["region"], {"": "openly"}, {"region": 1.0}, {"region": None}, {3: "openly"}]
)
def test_a_policy_of_something_else_is_refused(strata: Any) -> None:
    with pytest.raises(ParameterError, match="strata"):
        policy(strata=strata)


def test_the_ledger_charges_labels_over_all_campaigns(asking: Any) -> None:
    """1.2 has room for two labels of 0.5, whatever is asked with them."""
    client = asking(LIES, "a", "b", "c")
    client.contribute("a", 52_000, stratum="north")
    client.contribute("b", 52_000, stratum="north")
    with pytest.raises(BudgetExceeded, match="'region'") as raised:
        client.contribute("c", 52_000, stratum="north")
    assert (raised.value.scope, raised.value.spent) == ("lifetime", 1.0)
    assert len(client.history()) == 2
    (budget,) = (b for b in client.budgets() if b.attribute == "region")
    assert (budget.spent, budget.limit) == (1.0, GeoPrivacy(1.2, 1.0, "label"))


def test_labels_are_charged_in_every_period(
    make_either: Any, collector: Any, make_campaign: Any, fake_time: Any
) -> None:
    opens = fake_time.date
    collector.add(
        make_campaign(
            "a",
            strata=LIES,
            opens=opens,
            closes=opens + timedelta(days=30),
            period=timedelta(days=7),
        )
    )
    client = make_either(policy=policy(), fetched=("a",))
    for week in range(2):
        fake_time.date = opens + timedelta(days=7 * week)
        client.contribute("a", 52_000, stratum="north")
    fake_time.date = opens + timedelta(days=14)
    with pytest.raises(BudgetExceeded, match="'region'") as raised:
        client.contribute("a", 52_000, stratum="north")
    assert raised.value.scope == "this campaign"


def test_what_labels_cost_is_known_after_a_restart(
    make_client: Any, collector: Any, make_campaign: Any, tmp_path: Any
) -> None:
    for name in "abc":
        collector.add(make_campaign(name, strata=LIES))
    with make_client(policy=policy(), state_dir=tmp_path / "s", fetched=("a", "b")) as client:
        client.contribute("a", 52_000, stratum="north")
        client.contribute("b", 52_000, stratum="north")
    again = make_client(policy=policy(), state_dir=tmp_path / "s", fetched=("c",))
    with pytest.raises(BudgetExceeded, match="'region'"):
        again.contribute("c", 52_000, stratum="north")


def test_points_come_with_labels_too(make_campaign: Any, make_source: Any) -> None:
    asked = make_campaign("a", strata=OPEN, mechanism=PlanarLaplaceSpec(1), queries=())
    builder = ReportBuilder(policy=policy(strata={"region": "openly"}), source=make_source(1))
    made = builder.prepare(builder.accept("a", seal(encode(asked))), 52_000, stratum="south")
    report = report_pb2.Report.FromString(made.report)
    assert [answer.query_index for answer in report.answers] == [2]
