"""A device's part in a campaign with a channel: it checks the table, then draws by it."""

from collections.abc import Callable
from typing import Any

import pytest

from geoveil.campaign import Campaign, ChannelSpec, digest, encode, seal
from geoveil.client import (
    CampaignInvalid,
    CampaignNotFetched,
    InMemoryCollector,
    Limit,
    Policy,
    ReportBuilder,
)
from geoveil.gp import GeoPrivacy, LinearProgramMechanism, RandomSource, Threshold
from geoveil.proto.v1 import campaign_pb2, collector_pb2, report_pb2

PRIVACY = GeoPrivacy(1, 8000, "dollar")
QUERY = Threshold(100_000, 16_000, "smoothstep")


class Replayed(RandomSource):
    """Gives out the bits that another source gave before."""

    is_secure = True

    def __init__(self, draws: list[tuple[int, int]]) -> None:
        self._draws = list(draws)

    def bits(self, count: int) -> int:
        asked, value = self._draws.pop(0)
        assert asked == count
        return value


@pytest.fixture(scope="module")
def planned() -> LinearProgramMechanism:
    return LinearProgramMechanism(QUERY, PRIVACY, quick=True)


@pytest.fixture(scope="module")
def asked(make_campaign: Callable[..., Campaign], planned: LinearProgramMechanism) -> Campaign:
    return make_campaign("channel", mechanism=ChannelSpec.of(planned))


def hostile(asked: Campaign, change: Callable[[campaign_pb2.Channel], None]) -> bytes:
    """The bytes of a campaign with a channel that somebody tampered with."""
    message = campaign_pb2.Campaign.FromString(encode(asked))
    change(message.mechanism.channels.per_query[0])
    return message.SerializeToString(deterministic=True)


def lean(channel: campaign_pb2.Channel) -> None:
    """Move a share of 2^-20 in the first row: sums stay right, and the ratio to the next breaks."""
    width = len(channel.outputs)
    row = channel.counts[:width]
    ratios = [a / b for a, b in zip(row, channel.counts[width : 2 * width], strict=True)]
    channel.counts[ratios.index(max(ratios))] += 1 << 40
    channel.counts[ratios.index(min(ratios))] -= 1 << 40


def unsettle(channel: campaign_pb2.Channel) -> None:
    """Add the least that there is to one probability."""
    channel.counts[7] += 1


def duplicate(channel: campaign_pb2.Channel) -> None:
    channel.outputs[1] = channel.outputs[0]


def lose_an_edge(channel: campaign_pb2.Channel) -> None:
    channel.edges[1] = float("nan")


def enlarge(channel: campaign_pb2.Channel) -> None:
    channel.cells[0] = 2**32 - 1


@pytest.mark.parametrize("seed", range(4))
def test_the_report_is_one_release_of_the_planned_mechanism(
    make_source: Callable[[int], Any],
    policy: Policy,
    asked: Campaign,
    planned: LinearProgramMechanism,
    seed: int,
) -> None:
    """Bit for bit that of the mechanism which was solved, on a device that solves nothing."""
    source = make_source(seed)
    builder = ReportBuilder(policy=policy, source=source)
    accepted = builder.accept("channel", seal(encode(asked)))
    value = 91_000.0 + 6_000 * seed
    report = report_pb2.Report.FromString(builder.prepare(accepted, value).report)
    (answer,) = report.answers
    choice, ident, *noise = source.draws
    assert (choice[0], ident[0]) == (0, 128)  # which of one query; the report's id
    assert answer.value == planned.release(value, Replayed(noise))
    assert answer.value in asked.outputs[0]  # type: ignore[operator]  # it has a channel


@pytest.mark.parametrize("change", [lean, unsettle, duplicate, lose_an_edge, enlarge])
def test_a_table_that_does_not_keep_the_privacy_is_refused_before_anything_is_spent(
    make_either: Callable[..., Any],
    make_source: Callable[[int], Any],
    tape: Any,
    asked: Campaign,
    change: Callable[[campaign_pb2.Channel], None],
) -> None:
    envelope = seal(hostile(asked, change))
    source = make_source(1)
    policy = Policy({"household income": Limit(campaign=PRIVACY, lifetime=PRIVACY)})
    client = make_either(source=source, policy=policy)
    response = collector_pb2.GetCampaignResponse(
        envelope=campaign_pb2.CampaignEnvelope.FromString(envelope)
    )
    tape.handler = lambda request: response
    with pytest.raises(CampaignInvalid):
        client.fetch("channel")
    with pytest.raises(CampaignNotFetched):
        client.contribute("channel", 100_000)
    assert source.draws == []
    assert client.history() == ()
    assert [budget.spent for budget in client.budgets()] == [0.0]
    assert tape.submitted == []


def test_the_reason_names_the_rows(
    make_source: Callable[[int], Any], policy: Policy, asked: Campaign
) -> None:
    builder = ReportBuilder(policy=policy, source=make_source(1))
    with pytest.raises(CampaignInvalid, match="ratio of rows 0 and 1 must be at most"):
        builder.accept("channel", seal(hostile(asked, lean)))
    # Control: untouched, it is taken.
    assert builder.accept("channel", seal(encode(asked))).campaign == asked


def test_a_collector_in_memory_takes_the_outputs_and_nothing_between(asked: Campaign) -> None:
    collector = InMemoryCollector([asked])
    outputs = sorted(asked.outputs[0] or ())
    accepted = report_pb2.REPORT_STATUS_ACCEPTED
    for number, value in enumerate([outputs[0], outputs[-1], outputs[20]]):
        assert _status(collector, asked, number, value) == (accepted, 0)
    rejected = (report_pb2.REPORT_STATUS_REJECTED, report_pb2.REJECTION_REASON_OUT_OF_RANGE)
    for number, value in enumerate([outputs[0] - 1, outputs[-1] + 1, outputs[20] + 1], start=10):
        assert _status(collector, asked, number, value) == rejected


def _status(
    collector: InMemoryCollector, asked: Campaign, number: int, value: int
) -> tuple[int, int]:
    report = report_pb2.Report(
        report_id=number.to_bytes(16), answers=[report_pb2.Answer(query_index=0, value=value)]
    )
    request = collector_pb2.SubmitReportsRequest(
        campaign_id="channel", campaign_digest=digest(encode(asked)), reports=[report]
    )
    (result,) = collector(request).results
    return result.status, result.reason
