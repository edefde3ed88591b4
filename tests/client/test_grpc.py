"""The real gRPC transports against a small server: errors, TLS, restarts, and no residue."""

import asyncio
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from geoveil.client import (
    TLS,
    AsyncClient,
    CampaignInvalid,
    CampaignNotFound,
    Client,
    DeliveryFailed,
    FlushResult,
    GrpcAioTransport,
    GrpcTransport,
    InMemoryCollector,
    ParameterError,
    PlaintextRefused,
    Policy,
    Timing,
    TransportError,
)
from geoveil.client.transport import is_local
from geoveil.proto.v1 import campaign_pb2, collector_pb2, collector_pb2_grpc

Handler = Callable[[Any], Any]


class Servicer(collector_pb2_grpc.CollectorServicer):
    """Gives requests to a handler; what it raises becomes a status."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.time_left: list[float] = []

    async def _answer(self, request: Any, context: Any) -> Any:
        self.time_left.append(context.time_remaining())
        try:
            result = self._handler(request)
            return await result if asyncio.iscoroutine(result) else result
        except TransportError as error:
            await context.abort(grpc.StatusCode[error.code], error.detail)

    async def GetCampaign(self, request: Any, context: Any) -> Any:
        return await self._answer(request, context)

    async def SubmitReports(self, request: Any, context: Any) -> Any:
        return await self._answer(request, context)


@asynccontextmanager
async def serving(
    handler: Handler,
    address: str = "127.0.0.1:0",
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[tuple[str, Servicer]]:
    server = aio.server(options=[("grpc.max_send_message_length", 64 << 20)])
    servicer = Servicer(handler)
    collector_pb2_grpc.add_CollectorServicer_to_server(servicer, server)
    if credentials is None:
        port = server.add_insecure_port(address)
    else:
        port = server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield address.replace(":0", f":{port}"), servicer
    finally:
        await server.stop(None)


class InThread:
    """A `Client` behind the face of an `AsyncClient`: its calls block a thread, not the server."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._client = Client(*args, **settings)

    def contribute(self, *args: Any) -> Awaitable[Any]:
        return asyncio.to_thread(self._client.contribute, *args)

    def flush(self) -> Awaitable[Any]:
        return asyncio.to_thread(self._client.flush)

    async def aclose(self) -> None:
        self._client.close()

    async def __aenter__(self) -> "InThread":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


# The first pause is longer than any time that is left.
TRY_ONCE = Timing(jitter=lambda: 1e9)

either = pytest.mark.parametrize("client_type", [InThread, AsyncClient], ids=["blocking", "aio"])


@either
async def test_a_report_goes_through(
    client_type: Any, collector: InMemoryCollector, policy: Policy, tmp_path: Path
) -> None:
    async with (
        serving(collector) as (target, servicer),
        client_type(target, policy=policy, state_dir=tmp_path / "state", timeout_s=30.0) as client,
    ):
        receipt = await client.contribute("income", 52_000)
        assert await client.contribute("income", 99) == receipt
        with pytest.raises(CampaignNotFound):
            await client.contribute("nothing", 1)
    (report,) = collector.reports("income")
    assert report.report_id.hex() == receipt.report_id
    # Every call carried the client's deadline.
    assert len(servicer.time_left) == 3
    assert all(0 < left <= 30.1 for left in servicer.time_left)


@either
@pytest.mark.parametrize("status", [s for s in grpc.StatusCode if s is not grpc.StatusCode.OK])
async def test_every_status_becomes_a_transport_error(
    client_type: Any, policy: Policy, status: grpc.StatusCode
) -> None:
    def refuse(request: Any) -> None:
        raise TransportError(status.name, "because\nof this")

    async with (
        serving(refuse) as (target, _),
        client_type(target, policy=policy, timing=TRY_ONCE) as client,
    ):
        expected = CampaignNotFound if status is grpc.StatusCode.NOT_FOUND else TransportError
        with pytest.raises(expected) as raised:
            await client.contribute("income", 1)
        error = raised.value if isinstance(raised.value, TransportError) else raised.value.__cause__
        assert isinstance(error, TransportError)
        assert (error.code, error.detail) == (status.name, "because\nof this")
        assert str(error) == f"{status.name}: because\\nof this"
        assert isinstance(error.__cause__, grpc.RpcError)


@either
async def test_a_server_that_hangs_costs_the_timeout_and_no_more(
    client_type: Any, collector: InMemoryCollector, policy: Policy, tmp_path: Path
) -> None:
    async def hang(request: Any) -> Any:
        await asyncio.Event().wait()

    def refuse(request: Any) -> Any:
        if isinstance(request, collector_pb2.SubmitReportsRequest):
            raise TransportError("INTERNAL")
        return collector(request)

    loop = asyncio.get_running_loop()
    settings: dict[str, Any] = {"policy": policy, "state_dir": tmp_path / "state"}
    async with serving(refuse) as (target, _), client_type(target, **settings) as client:
        with pytest.raises(DeliveryFailed, match="INTERNAL"):
            await client.contribute("income", 1)
    async with (
        serving(hang) as (target, _),
        client_type(target, **settings, timeout_s=0.3) as client,
    ):
        started = loop.time()
        with pytest.raises(DeliveryFailed, match=r"DEADLINE_EXCEEDED.*it is kept"):
            await client.contribute("income", 1)
        assert loop.time() - started < 10  # no default of gRPC's is as short


@either
async def test_a_server_that_comes_back_is_found_again(
    client_type: Any, collector: InMemoryCollector, policy: Policy, tmp_path: Path
) -> None:
    """Down, up, down with a lost answer, up: one report, whatever happened."""
    address = f"unix:{tmp_path}/collector.sock"

    def lost(request: Any) -> Any:
        response = collector(request)
        if isinstance(request, collector_pb2.SubmitReportsRequest):
            raise TransportError("INTERNAL", "the answer is lost")
        return response

    settings = {"policy": policy, "state_dir": tmp_path / "state", "timeout_s": 30.0}
    async with client_type(address, **settings, timing=TRY_ONCE) as client:
        with pytest.raises(TransportError, match="UNAVAILABLE"):
            await client.contribute("income", 1)
    async with client_type(address, **settings) as client:
        async with serving(lost, address):
            with pytest.raises(DeliveryFailed) as raised:
                await client.contribute("income", 1)
        async with serving(collector, address):
            assert await client.flush() == FlushResult(acknowledged=1, rejected=0, pending=0)
            receipt = await client.contribute("income", 1)
    assert receipt.report_id == raised.value.receipt.report_id
    assert len(collector.reports("income")) == 1


@either
async def test_a_hostile_server_is_refused(client_type: Any, policy: Policy) -> None:
    def answering(published: bytes) -> Handler:
        envelope = campaign_pb2.CampaignEnvelope(campaign=published)
        return lambda request: collector_pb2.GetCampaignResponse(envelope=envelope)

    async with (
        serving(answering(b"\xff" * 100)) as (target, _),
        client_type(target, policy=policy) as client,
    ):
        with pytest.raises(CampaignInvalid):
            await client.contribute("income", 1)
    async with (
        serving(answering(bytes(5 << 20))) as (target, _),
        client_type(target, policy=policy) as client,
    ):
        with pytest.raises(TransportError, match="RESOURCE_EXHAUSTED"):
            await client.contribute("income", 1)


@either
async def test_an_answer_that_is_no_message_is_a_transport_error(
    client_type: Any, policy: Policy
) -> None:
    async def rubbish(request: bytes, context: Any) -> bytes:
        return b"\xff\xff\xff"

    server = aio.server()
    handler: Any = grpc.unary_unary_rpc_method_handler(rubbish)
    server.add_generic_rpc_handlers(
        [
            grpc.method_handlers_generic_handler(
                "geoveil.proto.v1.Collector", {"GetCampaign": handler}
            )
        ]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with client_type(f"127.0.0.1:{port}", policy=policy) as client:
            with pytest.raises(TransportError, match="INTERNAL"):
                await client.contribute("income", 1)
    finally:
        await server.stop(None)


@either
async def test_nothing_is_left_after_close(
    client_type: Any, collector: InMemoryCollector, policy: Policy, tmp_path: Path
) -> None:
    await asyncio.to_thread(lambda: None)  # the loop's own executor has its thread now
    tasks = asyncio.all_tasks()
    async with serving(collector) as (target, _):
        before = set(threading.enumerate())
        async with client_type(target, policy=policy, state_dir=tmp_path / "state") as client:
            await client.contribute("income", 52_000)
        left = {t.name for t in set(threading.enumerate()) - before}
        assert {name for name in left if not name.startswith("asyncio_")} == set()
    assert asyncio.all_tasks() == tasks


def test_the_channel_is_made_at_the_first_call(policy: Policy) -> None:
    """Until then a process may fork, and an asyncio client be made outside of a loop."""
    transport = GrpcTransport("localhost:1")
    assert transport._channel is None
    asynchronous = GrpcAioTransport("localhost:1")
    assert asynchronous._channel is None
    transport.close()
    asyncio.run(asynchronous.aclose())


async def test_a_transport_can_be_used_again_after_close(collector: InMemoryCollector) -> None:
    request = collector_pb2.GetCampaignRequest(campaign_id="income")
    async with serving(collector) as (target, _):
        transport = GrpcTransport(target)
        asynchronous = GrpcAioTransport(target)
        for _ in range(2):
            await asyncio.to_thread(transport.get_campaign, request, 10.0)
            await asynchronous.get_campaign(request, 10.0)
            transport.close()
            await asynchronous.aclose()


async def test_one_transport_serves_many_clients(
    collector: InMemoryCollector, policy: Policy
) -> None:
    async with serving(collector) as (target, _):
        transport = GrpcAioTransport(target)

        async def device() -> None:
            async with AsyncClient(policy=policy, transport=transport) as client:
                assert (await client.contribute("income", 52_000)).acknowledged

        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(device())
        await transport.aclose()
    assert len(collector.reports("income")) == 50


def test_many_threads_make_one_channel(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    genuine = grpc.insecure_channel

    def counted(*args: Any, **more: Any) -> Any:
        made.append(genuine(*args, **more))
        return made[-1]

    monkeypatch.setattr(grpc, "insecure_channel", counted)
    transport = GrpcTransport("127.0.0.1:1")
    barrier = threading.Barrier(8)

    def call() -> None:
        barrier.wait()
        with pytest.raises(TransportError):
            transport.get_campaign(collector_pb2.GetCampaignRequest(), 5.0)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    transport.close()
    assert len(made) == 1


LOCAL = [
    "localhost:1",
    "localhost",
    "127.0.0.1:1",
    "127.8.9.10:1",
    "[::1]:1",
    "::1",
    "unix:/run/collector.sock",
    "unix:///run/collector.sock",
    "unix-abstract:collector",
    "dns:localhost:1",
    "dns:///localhost:1",
    "ipv4:127.0.0.1:1",
    "ipv4:127.0.0.1:1,127.0.0.2:1",
    "ipv6:[::1]:1",
]
ELSEWHERE = [
    "collector.example:443",
    "10.0.0.1:1",
    "0.0.0.0:1",
    "[::]:1",
    "[2001:db8::1]:1",
    "localhost.example:1",
    "127.0.0.1.example:1",
    "dns:collector.example",
    "dns:///collector.example:1",
    "dns://10.0.0.1/localhost:1",
    "ipv4:127.0.0.1:1,10.0.0.1:1",
    "127.0.0.1:1,10.0.0.1:1",
    "xds:///localhost",
    "https://localhost",
    "localhost:1@collector.example:1",
    ":1",
    " ",
]


@pytest.mark.parametrize("target", LOCAL)
def test_this_machine_needs_no_tls(target: str) -> None:
    assert is_local(target)
    GrpcTransport(target)
    GrpcTransport(target, tls=TLS())


@pytest.mark.parametrize("target", ELSEWHERE)
@pytest.mark.parametrize("transport", [GrpcTransport, GrpcAioTransport])
def test_elsewhere_needs_tls_or_a_clear_word(target: str, transport: Any) -> None:
    assert not is_local(target)
    with pytest.raises(PlaintextRefused, match=r"tls=TLS\(insecure=True\) sends in the clear"):
        transport(target)
    transport(target, tls=TLS())
    transport(target, tls=TLS(insecure=True))


@pytest.mark.parametrize("target", ["", None, 50051])
def test_a_target_is_an_address(target: Any) -> None:
    with pytest.raises(ParameterError, match="target"):
        GrpcTransport(target)


def test_tls_settings_are_checked() -> None:
    with pytest.raises(ParameterError, match="PEM"):
        TLS(root_certificates="-----BEGIN CERTIFICATE-----")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="insecure"):
        TLS(root_certificates=b"", insecure=True)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Return a fresh key and a self-signed certificate for localhost."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([openssl, *command.split(), *files, *names], check=True, capture_output=True)
    return (folder / "key.pem").read_bytes(), (folder / "certificate.pem").read_bytes()


@either
async def test_tls_trusts_the_roots_given_and_no_others(
    client_type: Any,
    collector: InMemoryCollector,
    policy: Policy,
    certificate: tuple[bytes, bytes],
) -> None:
    credentials = grpc.ssl_server_credentials([certificate])
    async with serving(collector, credentials=credentials) as (target, _):
        trusting = TLS(root_certificates=certificate[1])
        async with client_type(target, policy=policy, tls=trusting) as client:
            assert (await client.contribute("income", 1)).acknowledged
        for distrusting in (TLS(), None):
            async with client_type(
                target, policy=policy, tls=distrusting, timing=TRY_ONCE
            ) as client:
                with pytest.raises(TransportError, match="UNAVAILABLE"):
                    await client.contribute("income", 1)
    assert len(collector.reports("income")) == 1
