"""The domain logic at chosen times; signatures are checked once and relayed unchanged."""

import hashlib
from datetime import timedelta
from math import ldexp, sqrt
from statistics import fmean, stdev
from typing import Any

import pytest

from geoveil.aggregator import Code
from geoveil.aggregator.domain.reports import Report, Status
from geoveil.aggregator.store import CampaignRecord
from geoveil.campaign import DebiasedLaplaceSpec, SignatureInvalid, SigningKey, State, seal, signer
from geoveil.campaign.admission import Reason
from geoveil.gp import GeoVeilError, UnsupportedError
from geoveil.gp.intervals import IntervalMethod, interval_of_mean
from geoveil.proto.v1.campaign_pb2 import CampaignEnvelope

from .refusals import refused

SECOND = timedelta(seconds=1)


def report(number: int, *answers: tuple[int, int]) -> Report:
    return Report(number.to_bytes(16, "big"), list(answers))


async def outcomes(service: Any, campaign: Any, *reports: Report) -> list[Any]:
    """Return the status of each report, or the reason why it was rejected."""
    results = await service.submit(campaign.campaign_id, campaign.digest, reports)
    return [result.reason or result.status for result in results]


async def test_unknown_campaigns(service, publish):
    campaign = publish()
    for call in (
        service.get_campaign("income"),
        service.close_campaign("income"),
        service.estimate("income"),
        outcomes(service, campaign, report(1, (0, 5))),
    ):
        await refused(Code.CAMPAIGN_NOT_FOUND, call)
    await service.create_campaign(
        seal(campaign.published)
    )  # not finding it before is not remembered
    assert await outcomes(service, campaign, report(1, (0, 5))) == [Status.ACCEPTED]


async def test_reports_for_other_bytes_are_refused_whole(service, publish, store):
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    for wrong in (b"", bytes(32), campaign.digest[:-1], campaign.digest + b"\x00"):
        await refused(Code.DIGEST_MISMATCH, service.submit("income", wrong, [report(1, (0, 5))]))
    assert store.get_campaign("income").reports == 0


async def test_each_report_is_judged_by_itself(service, publish, store):
    campaign = publish(mechanism=DebiasedLaplaceSpec())
    await service.create_campaign(seal(campaign.published))
    low, high = campaign.campaign.mechanisms[0].grid_range
    batch = [
        report(1, (0, high)),
        Report(b"short", [(0, 0)]),
        report(1, (0, high)),
        report(1, (0, low)),
        report(2, (0, high + 1)),
        report(3, (0, low - 1)),
        report(4, (3, 0)),
        report(5),
        report(6, (0, 0), (1, 0)),
        report(2, (1, low)),
    ]
    assert await outcomes(service, campaign, *batch) == [
        Status.ACCEPTED,
        Reason.MALFORMED_ID,
        Status.DUPLICATE,
        Reason.ID_CONFLICT,
        Reason.OUT_OF_RANGE,
        Reason.OUT_OF_RANGE,
        Reason.WRONG_ANSWERS,
        Reason.WRONG_ANSWERS,
        Reason.WRONG_ANSWERS,
        Status.ACCEPTED,  # its id was not taken by the report out of range
    ]
    totals = store.totals("income")
    assert [(t.n, t.total) for t in totals] == [(1, high), (1, low), (0, 0)]


@pytest.mark.parametrize("skew_s", [0.0, 60.0])
async def test_dates_are_kept_up_to_the_skew_of_clocks(start_service, publish, clock, skew_s):
    service = (await start_service(clock_skew_s=skew_s)).service
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    skew = timedelta(seconds=skew_s)
    times = [
        (clock.opens - skew - SECOND, Reason.NOT_OPEN),
        (clock.opens - skew, Status.ACCEPTED),
        (clock.closes + skew - SECOND, Status.ACCEPTED),
        (clock.closes + skew, Reason.NOT_OPEN),
    ]
    for number, (now, expected) in enumerate(times):
        clock.now = now
        assert await outcomes(service, campaign, report(number, (0, 5))) == [expected]


@pytest.mark.parametrize("by_analyst", [True, False])
async def test_retries_outlive_the_campaign(service, publish, clock, by_analyst):
    campaign = publish()
    await service.create_campaign(seal(campaign.published))
    acknowledged = report(1, (0, 5))
    assert await outcomes(service, campaign, acknowledged) == [Status.ACCEPTED]
    if by_analyst:
        await service.close_campaign("income")
    else:
        clock.now = clock.closes + timedelta(days=400)
    late = [acknowledged, report(1, (0, 6)), report(2, (0, 5))]
    expected = [Status.DUPLICATE, Reason.ID_CONFLICT, Reason.NOT_OPEN]
    assert await outcomes(service, campaign, *late) == expected


async def test_estimates_against_textbook_formulas(service, publish):
    campaign = publish(queries=3)
    await service.create_campaign(seal(campaign.published))
    answers = [3, -5, 40, 12]
    await outcomes(
        service, campaign, *[report(n, (0, v)) for n, v in enumerate(answers)], report(9, (1, 7))
    )
    shown = await service.estimate("income", 0.9)
    several, one, none = shown.disclosure.estimates
    assert shown.status.state is State.OPEN
    step = ldexp(1.0, campaign.campaign.grid_exponent)
    error = stdev(answers) / sqrt(4) * step
    limits = campaign.campaign.limits[0]
    variance, looks = 3 / 4 * (2 * error) ** 2, IntervalMethod.SEQUENCE
    interval = interval_of_mean(4, fmean(answers) * step, variance, 0.9, limits, looks)
    assert several.label == "above 1"
    assert (several.sums.total, several.sums.total_of_squares) == (50, 9 + 25 + 1600 + 144)
    assert several.estimate.value == pytest.approx(fmean(answers) * step)
    assert several.estimate.standard_error == pytest.approx(error)
    assert several.estimate.ci_low == pytest.approx(interval.low)
    assert several.estimate.ci_high == pytest.approx(interval.high)
    assert (one.estimate.n, one.estimate.value) == (1, 7 * step)
    assert one.estimate.standard_error is None
    assert (none.estimate.n, none.estimate.value) == (0, None)


async def test_an_unreadable_stored_campaign_is_not_the_callers_fault(service, store):
    unreadable = {"later": b"\x12\x34", "no-envelope": b"\xff", "damaged": seal(b"\x12\x34")}
    for name, published in unreadable.items():
        store.create_campaign(CampaignRecord(campaign_id=name, published=published, queries=1))
        await refused(Code.INTERNAL, service.get_campaign(name))


KEY, OTHER = SigningKey.generate(), SigningKey.generate()


async def test_a_signature_is_relayed_and_the_digest_is_of_the_campaign_alone(service, publish):
    content = publish().published
    signed = seal(content, KEY)
    assert await service.create_campaign(signed) == hashlib.sha256(content).digest()
    status = await service.get_campaign("income")
    assert status.record.published == signed
    assert signer(CampaignEnvelope.FromString(status.record.published)) == KEY.public


async def test_another_signature_is_another_campaign(service, publish):
    content = publish().published
    await service.create_campaign(seal(content, KEY))
    await service.create_campaign(seal(content, KEY))
    for other in (seal(content, OTHER), seal(content)):
        await refused(Code.CAMPAIGN_ID_TAKEN, service.create_campaign(other))
    assert (await service.get_campaign("income")).record.published == seal(content, KEY)


async def test_signatures_that_are_not_valid_are_refused(service, publish):
    """Signatures by other keys, signatures of other campaigns, and empty ones are refused."""
    signed = CampaignEnvelope.FromString(seal(publish().published, KEY))
    for key, campaign, signature in (
        (KEY.public, signed.campaign, OTHER.sign(signed.campaign)),
        (OTHER.public, signed.campaign, signed.signature.signature),
        (KEY.public, publish(title="Another title").published, signed.signature.signature),
        (None, signed.campaign, b""),
    ):
        wrong = CampaignEnvelope(campaign=campaign)
        wrong.signature.signature = signature
        wrong.signature.public_key = key.data if key else b""
        with pytest.raises(SignatureInvalid):
            await service.create_campaign(wrong.SerializeToString(deterministic=True))
    assert (await service.list_campaigns()).statuses == []


async def test_only_trusted_keys_may_ask_if_there_are_any(start_service, publish):
    content = publish().published
    service = (await start_service(trusted_keys=(KEY.public,))).service
    for wrong in (seal(content), seal(content, OTHER)):
        await refused(Code.SIGNER_NOT_TRUSTED, service.create_campaign(wrong))
    assert (await service.list_campaigns()).statuses == []
    await service.create_campaign(seal(content, KEY))
    assert (await service.get_campaign("income")).record.campaign_id == "income"


async def test_an_envelope_that_says_something_unknown_is_refused(service, publish):
    published = seal(publish().published, KEY)
    with pytest.raises(UnsupportedError, match="update geoveil"):
        await service.create_campaign(published + b"\xf8\x07\x01")
    for malformed in (b"", b"\xff\xff\xff", published[:-3]):
        with pytest.raises(GeoVeilError):
            await service.create_campaign(malformed)
    assert (await service.list_campaigns()).statuses == []
