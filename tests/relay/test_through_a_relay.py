"""Test devices, a relay and a gateway: who sees what, and that each report counts once."""

import asyncio
import http.client
import random
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from geoveil.campaign import SigningKey, decode, digest
from geoveil.client import (
    CampaignNotFound,
    DeliveryStatus,
    GrpcTransport,
    PlaintextRefused,
    PolicyRefused,
    TransportError,
)
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2, report_pb2
from geoveil.relay import PATH, SIZES, AsyncRelayTransport, GatewayKeys, Relay, RelayTransport
from geoveil.relay.binary_http import InnerRequest, read_response, write_request
from geoveil.relay.encapsulation import padded_request, seal_request
from tests.aggregator.conftest import Published
from tests.relay.conftest import DEVICE, OPERATOR, Tap, Way

Start = Callable[..., Awaitable[Way]]


@pytest.fixture
def campaign(publish: Callable[..., Published]) -> Published:
    return publish(queries=1)


def take_part(way: Way, campaign: Published, name: str, transport: Any = None) -> list[Any]:
    """Let a device fetch a campaign, answer and send; return its reports as they were sent."""
    with way.client(name, transport) as client:
        client.fetch(campaign.campaign_id)
        client.contribute(campaign.campaign_id, 98_765.4375)
        assert client.flush().acknowledged == 1
        (receipt,) = client.history()
        assert receipt.status is DeliveryStatus.ACKNOWLEDGED
        return [receipt]


async def test_the_relay_sees_no_content_and_the_gateway_no_address(
    started: Way, campaign: Published
) -> None:
    receipts = await asyncio.to_thread(take_part, started, campaign, "device")
    assert await started.counted(campaign) == 1
    secrets = _secrets(campaign, receipts)
    for tap in (started.near, started.far):
        assert not [secret for secret in secrets if secret in tap.seen]
    assert started.near.callers == {DEVICE}
    assert started.far.callers == {"127.0.0.1"}
    assert DEVICE.encode() not in started.far.seen
    # What is planted is found: the same over a door without a relay.
    open_door = Tap(("127.0.0.1", int(started.web.address.rpartition(":")[2])))
    direct = GrpcTransport(f"127.0.0.1:{open_door.port}")
    try:
        receipts = await asyncio.to_thread(take_part, started, campaign, "other", direct)
    finally:
        direct.close()
        open_door.close()
    leaked = [secret for secret in _secrets(campaign, receipts) if secret in open_door.seen]
    assert len(leaked) >= 2


def _secrets(campaign: Published, receipts: list[Any]) -> list[bytes]:
    """Return what would tell a campaign or a report."""
    name = campaign.campaign_id.encode()
    return [name, name[::-1], campaign.digest, campaign.digest.hex().encode(),
            b"Collector", b"SubmitReports",
            *(bytes.fromhex(receipt.report_id) for receipt in receipts)]  # fmt: skip


async def test_all_that_travels_has_two_sizes_and_the_same_headers(
    started: Way, campaign: Published
) -> None:
    await asyncio.to_thread(take_part, started, campaign, "device")
    requests, answers = (
        [each.partition(b"\r\n\r\n") for each in kept]
        for kept in (started.far.sent, started.far.answered)
    )
    assert [len(content) for _, _, content in requests] == [0, SIZES[1], SIZES[0]]
    assert [len(content) for _, _, content in answers][1:] == [SIZES[1], SIZES[0]]
    for head, _, _ in requests:
        lines = head.split(b"\r\n")
        assert lines[0].split()[1] == PATH.encode()
        names = {line.partition(b":")[0].lower() for line in lines[1:]}
        assert names <= {b"host", b"accept-encoding", b"content-length", b"content-type"}


async def test_a_replay_is_answered_as_the_first_and_counts_nothing(
    started: Way, campaign: Published
) -> None:
    await asyncio.to_thread(take_part, started, campaign, "device")
    sent, first = started.far.sent[-1], started.far.answered[-1]

    def replay() -> bytes:
        with socket.create_connection(started.far.to, timeout=10) as sock:
            sock.sendall(sent)
            came = b""
            while len(came) < len(first) and (more := sock.recv(1 << 16)):
                came += more
            return came

    again = await asyncio.to_thread(replay)
    heads = [each.partition(b"\r\n\r\n")[0].splitlines() for each in (first, again)]
    shown = [[line for line in head if not line.startswith(b"date")] for head in heads]
    assert shown[0] == shown[1]
    assert len(again) == len(first)
    assert await started.counted(campaign) == 1


class FaultyRelay(Relay):
    """Loses requests and answers, and sends requests twice; by a seed."""

    random = random.Random(7)

    def __init__(self, listen: tuple[str, int], gateway: str) -> None:
        super().__init__(listen, gateway)
        connect: Callable[[], Any] = self.connect
        relay = self

        def faulty() -> Any:
            connection = connect()
            kind = relay.random.choice(["well", "lost", "answer lost", "twice"])
            request, answered = connection.request, connection.getresponse

            def lose(*args: Any) -> None:
                raise OSError

            def twice(*args: Any) -> None:
                other = connect()
                other.request(*args)
                other.getresponse().read()
                other.close()
                request(*args)

            def answer_lost() -> Any:
                answered()
                raise OSError

            if kind == "lost":
                connection.request = lose
            elif kind == "answer lost":
                connection.getresponse = answer_lost
            elif kind == "twice":
                connection.request = twice
            return connection

        self.connect = faulty  # type: ignore[assignment]  # faults


@pytest.mark.deep(keep=0)
async def test_a_relay_that_loses_and_doubles_loses_and_doubles_no_report(
    way: Start, campaign: Published
) -> None:
    started = await way(FaultyRelay)
    await started.web.wire.create(campaign)

    def devices() -> None:
        for number in range(6):
            with started.client(f"device-{number}") as client:
                for _ in range(50):
                    try:
                        client.fetch(campaign.campaign_id)
                    except TransportError:
                        continue
                    break
                client.contribute(campaign.campaign_id, 90_000.0)
                while client.counts().pending:
                    client.flush()
                assert client.counts().acknowledged == 1

    await asyncio.to_thread(devices)
    assert await started.counted(campaign) == 6


async def test_a_key_that_the_gateway_has_no_more_is_asked_for_again(
    started: Way, campaign: Published
) -> None:
    transport = started.transport()
    request = collector_pb2.GetCampaignRequest(campaign_id=campaign.campaign_id)
    serials = []
    for _ in range(2):
        answer = await asyncio.to_thread(transport.get_campaign, request, 10.0)
        assert answer.envelope.campaign == campaign.published
        assert transport._key is not None
        serials.append(transport._key.serial)
        for _ in range(2):
            GatewayKeys.rotate(started.keys, OPERATOR, timedelta(days=9_000))
    assert serials[1] == serials[0] + 2


async def test_a_key_of_another_operator_is_refused(started: Way, campaign: Published) -> None:
    other = SigningKey.generate().public
    transport = started.transport(operator=other)
    request = collector_pb2.GetCampaignRequest(campaign_id=campaign.campaign_id)
    with pytest.raises(TransportError, match=f"key is not signed by {other}"):
        await asyncio.to_thread(transport.get_campaign, request, 10.0)
    assert not [content for content in started.far.sent if content.startswith(b"POST")]


async def test_what_the_server_refuses_is_told_as_over_grpc(
    started: Way, publish: Callable[..., Published], campaign: Published
) -> None:
    large = publish("large", queries=150)
    await started.web.wire.create(large)

    def calls() -> None:
        with started.client("device") as client:
            with pytest.raises(CampaignNotFound):
                client.fetch("nothing")
            with pytest.raises(TransportError, match=r"longer than 4,064 bytes") as caught:
                client.fetch("large")
            assert caught.value.code == "FAILED_PRECONDITION"
        reports = [report_pb2.Report(report_id=bytes([n] * 16)) for n in range(2)]
        several = collector_pb2.SubmitReportsRequest(campaign_id="income", reports=reports)
        with pytest.raises(ParameterError, match=r"reports must be one in a request"):
            started.transport().submit_reports(several, 10.0)
        with pytest.raises(TransportError) as caught:
            started.transport().submit_reports(
                collector_pb2.SubmitReportsRequest(campaign_id="income"), 10.0
            )
        assert caught.value.code == "INVALID_ARGUMENT"

    await asyncio.to_thread(calls)


async def test_only_calls_of_devices_come_through(started: Way, campaign: Published) -> None:
    key = GatewayKeys(started.keys).published()
    for method, path in ((b"POST", b"/geoveil.proto.v1.Analyst/ListCampaigns"), (b"GET", b"/")):
        inner = InnerRequest(
            method, b"https", b"", path, ((b"content-type", b"application/proto"),)
        )
        sealed, opened = seal_request(key.key_id, key.public, padded_request(write_request(inner)))
        answer = await asyncio.to_thread(_post, started, sealed, "message/ohttp-req")
        assert answer[0] == 200
        assert read_response(opened(answer[1])).status == 400
    for body, kind, status in ((bytes(1024), "text/plain", 415), (bytes(5000), "", 413),
                               (bytes(1000), "", 422), (bytes(1024), "", 400)):  # fmt: skip
        answer = await asyncio.to_thread(_post, started, body, kind or "message/ohttp-req")
        assert answer[0] == status
    for method, status in (("GET", 200), ("PUT", 405)):
        answer = await asyncio.to_thread(_post, started, b"", "", method)
        assert answer[0] == status


def _post(started: Way, body: bytes, kind: str, method: str = "POST") -> tuple[int, bytes]:
    """Ask the gateway itself."""
    connection = http.client.HTTPConnection(started.web.web, timeout=10)
    connection.request(method, PATH, body or None, {"Content-Type": kind} if kind else {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


async def test_a_campaign_that_asks_for_a_relay_is_answered_through_it_alone(
    way: Start, publish: Callable[..., Published]
) -> None:
    started = await way()
    plain = publish(queries=1).campaign
    campaign = replace(plain, relay_operator=OPERATOR.public)
    assert decode(campaign.encoded) == campaign
    other = replace(plain, campaign_id="other", relay_operator=SigningKey.generate().public)
    for each in (campaign, other):
        await started.web.wire.create(Published.of(each))
    direct = GrpcTransport(started.web.address)

    def devices() -> None:
        refused = pytest.raises(PolicyRefused, match=r"relay is to the gateway of .* permits none")
        with started.client("direct", direct) as client, refused:
            client.fetch("income")
        with started.client("device") as client:
            with pytest.raises(PolicyRefused, match=f"permits to the gateway of {OPERATOR.public}"):
                client.fetch("other")
            client.fetch("income")
            client.contribute("income", 1.0)
            client.close(0)
        # What waits leaves by no other way, although the app now has one.
        with started.client("device", direct) as client:
            with pytest.raises(PolicyRefused):
                client.contribute("income", 1.0)
            assert client.flush().pending == 1
            assert "relay" in str(client.history()[0].failure)
        with started.client("device") as client:
            assert client.flush().acknowledged == 1

    try:
        await asyncio.to_thread(devices)
    finally:
        direct.close()


def test_only_a_key_may_be_asked_for(publish: Callable[..., Published]) -> None:
    with pytest.raises(ParameterError, match=r"relay_operator must be a PublicKey, or None"):
        replace(publish().campaign, relay_operator="ed25519:00")  # type: ignore[arg-type]


async def test_asyncio_asks_through_it_too(started: Way, campaign: Published) -> None:
    transport = AsyncRelayTransport(started.transport())
    request = collector_pb2.GetCampaignRequest(campaign_id=campaign.campaign_id)
    answer = await transport.get_campaign(request, 10.0)
    assert digest(answer.envelope.campaign) == campaign.digest
    sent = collector_pb2.SubmitReportsRequest(campaign_id=campaign.campaign_id)
    with pytest.raises(TransportError):
        await transport.submit_reports(sent, 10.0)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.1 502 Bad\r\ncontent-length: 0\r\n\r\n", "UNAVAILABLE"),
        (b"HTTP/1.1 429 Wait\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n", "UNAVAILABLE"),
        (b"HTTP/1.1 404 None\r\ncontent-length: 0\r\n\r\n", "UNIMPLEMENTED"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nxyz", "DATA_LOSS"),
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 11\r\n\r\n#ohttp-key!", "UNAVAILABLE"),
        (b"SSH-2.0\r\n", "UNAVAILABLE"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx", "DEADLINE_EXCEEDED"),
        (b"", "DEADLINE_EXCEEDED"),
    ],
)
def test_a_relay_that_answers_badly_ends_a_call_in_time(answer: bytes, code: str) -> None:
    taken = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with taken, suppress(OSError):
            while True:
                with taken.accept()[0] as near:
                    near.recv(1 << 16)
                    near.sendall(answer)
                    near.recv(1)  # until it hangs up

    thread = threading.Thread(target=serve)
    thread.start()
    port = taken.getsockname()[1]
    transport = RelayTransport(f"http://127.0.0.1:{port}", operator=OPERATOR.public)
    request = collector_pb2.GetCampaignRequest(campaign_id="income")
    with pytest.raises(TransportError) as caught:
        transport.get_campaign(request, 0.3)
    assert caught.value.code == code
    assert caught.value.retry_after_s == (7.0 if b"retry" in answer else None)
    taken.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_what_names_no_relay_is_refused() -> None:
    for url in ("", "relay.example", "ftp://relay.example", "https://", "https://a:x/", 7):
        with pytest.raises(ParameterError, match=r"relay must be a URL such as https://"):
            RelayTransport(url, operator=OPERATOR.public)  # type: ignore[arg-type]
    with pytest.raises(PlaintextRefused):
        RelayTransport("http://relay.example/", operator=OPERATOR.public)
    with pytest.raises(ParameterError, match=r"operator must be a PublicKey"):
        RelayTransport("https://relay.example/", operator="ed25519:00")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"gateway must be a URL with https"):
        Relay(("127.0.0.1", 0), "http://gateway.example")
