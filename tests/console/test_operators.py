"""The page for operators says what the metrics say."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from geoveil.aggregator.ops.metrics import Metrics
from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.campaign import ChoiceField, FormCampaign
from geoveil.console.operators import Sample, warnings_of
from geoveil.proto.v1 import console_pb2 as pb
from geoveil.proto.v1.report_pb2 import Answer, Report

from .served import served, survey

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def numbers_in(page: str, title: str) -> dict[str, int]:
    """Return the rows of a table of counts."""
    table = re.search(rf'aria-label="{title}"(.*?)</table>', page, re.DOTALL)
    if table is None:
        return {}
    rows = re.findall(r'<tr><td>([^<]*)</td><td[^>]*><data value="([0-9]+)"', table[1])
    return {name: int(count) for name, count in rows}


@pytest.mark.deep
async def test_numbers_are_those_of_the_metrics(tmp_path):
    async with served(tmp_path, metrics_port=0) as made:
        campaign = survey()
        await made.publish(campaign)
        await made.report(campaign, 120)
        bad = [Report(report_id=b"short", answers=[Answer(query_index=0, value=0)])]
        bad += [Report(report_id=bytes(16), answers=[Answer(query_index=9, value=0)])] * 2
        await made.send(campaign, bad)
        async with made.signed_in() as client:
            page = (await client.get("/console/operators")).text
            address = f"http://127.0.0.1:{made.aggregator.metrics_port}/metrics"
            async with httpx.AsyncClient() as other:
                told = (await other.get(address)).text
        served_now = dict(re.findall(r'geoveil_reports_total{outcome="(\w+)"} ([0-9.]+)', told))
        assert numbers_in(page, "Reports") == {"accepted": 120, "rejected": 3}
        assert {name: float(count) for name, count in served_now.items() if float(count)} == {
            "accepted": 120.0,
            "rejected": 3.0,
        }
        rejected = numbers_in(page, "Rejected, by reason")
        told_rejected = re.findall(
            r'geoveil_reports_rejected_total{reason="(\w+)"} ([0-9.]+)', told
        )
        assert rejected == {
            name.replace("_", " "): int(float(count))
            for name, count in told_rejected
            if float(count)
        }
        assert sum(rejected.values()) == 3
        calls = numbers_in(page, "Calls")
        assert calls["CreateCampaign"] == 1
        assert "SQLite" in page
        assert "sign in" in page


async def test_the_page_needs_its_scope(tmp_path):
    async with served(tmp_path, tokens=True) as made:
        tokens = TokenFile(tmp_path / "tokens.json")
        others = [scope for scope in Scope if scope is not Scope.OPERATE]
        without = tokens.create("without", others, None)
        limited = tokens.create("limited", Scope, None, ["income"])
        for token in (without, limited):
            async with made.signed_in(token) as client:
                answer = await client.get("/console/operators")
                assert answer.status_code == 403
                assert "Memory" not in answer.text
        async with made.signed_in() as client:
            assert (await client.get("/console/operators")).status_code == 200


def status_of(metrics: Metrics, **more: Any) -> pb.GetStatusResponse:
    """Return what a server with these metrics says of itself."""
    samples = [
        pb.MetricSample(name=one.name, labels=one.labels, value=one.value)
        for family in metrics.registry.collect()
        for one in family.samples
    ]
    return pb.GetStatusResponse(**({"samples": samples, "on_loopback": True} | more))


def test_warnings_say_what_is_wrong():
    def warned(metrics: Metrics, **more: Any) -> list[str]:
        status = status_of(metrics, **more)
        return [*warnings_of(Sample.of(status, 0.0), status, NOW)]

    metrics = Metrics()
    metrics.ready.set(1)
    assert warned(metrics, queue_limit=100) == []
    metrics.ready.set(0)
    metrics.queue_weight.set(60)
    metrics.store_errors.labels("commit").inc(2)
    metrics.certificate_expires.set((NOW + timedelta(days=3, hours=1)).timestamp())
    told = warned(metrics, queue_limit=100)
    assert len(told) == 4
    assert "expires in 3 days" in told[-1]
    metrics = Metrics()
    metrics.ready.set(1)
    (told_of_tls,) = warned(metrics, queue_limit=100, on_loopback=False)
    assert "Without TLS" in told_of_tls


def test_quantiles_of_a_histogram_lie_in_their_bucket():
    metrics = Metrics()
    for seconds in (0.0004, 0.002, 0.002, 0.03):
        metrics.commit_seconds.observe(seconds)
    sample = Sample.of(status_of(metrics), 0.0)
    assert sample.quantile("geoveil_commit_seconds", 0.25) == pytest.approx(0.001)
    median = sample.quantile("geoveil_commit_seconds", 0.5)
    assert median is not None
    assert 0.001 < median <= 0.0025
    assert sample.quantile("geoveil_commit_seconds", 0.99) == pytest.approx(0.05, rel=0.05)
    assert sample.quantile("geoveil_rpc_seconds", 0.5, method="none") is None


@pytest.mark.deep
async def test_an_empty_console_says_how_to_begin(tmp_path):
    async with served(tmp_path) as made, made.signed_in() as client:
        page = (await client.get("/console/")).text
        assert "There is no survey yet" in page
        for link in re.findall(r'href="(/console[^"]*)"', page):
            assert (await client.get(link)).status_code == 200, link


@pytest.mark.deep
async def test_the_page_of_a_form_leads_to_where_people_take_part(tmp_path):
    opens = datetime.now(UTC) - timedelta(hours=1)
    form = FormCampaign(
        campaign_id="household",
        title="Household survey",
        fields=(ChoiceField(name="rents", options=("yes", "no"), epsilon=2.0),),
        opens=opens,
        closes=opens + timedelta(days=1),
    )
    async with served(tmp_path) as made, made.signed_in() as client:
        await made.publish(form)
        page = (await client.get("/console/surveys/household")).text
        assert '<a href="/take-part/household">the page for participants</a>' in page
        assert "rents: ε = 2 per 1 option" in page
        assert (await client.get("/take-part/household")).status_code == 200
