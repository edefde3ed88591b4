"""Connections of commands: TLS, tokens, no proxy; and `health`, which only connects."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2
from typer.testing import CliRunner

from geoveil.aggregator import Aggregator, Settings
from geoveil.analyst import Analyst, ServerError
from geoveil.cli.app import app
from geoveil.cli.connection import CommandError, Connection, analyst_at
from geoveil.cli.console import err, out
from geoveil.cli.options import TOKEN, TOKEN_FILE
from geoveil.client import (
    TLS,
    AsyncClient,
    Client,
    GrpcAioTransport,
    GrpcTransport,
    Policy,
    TransportError,
)
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.proto.v1.collector_pb2 import GetCampaignRequest
from tests.aggregator.tls_files import for_client, for_server, new_authority, written

from .conftest import ABOVE

SECRET = "a-token-that-nobody-sees"
HERE = Connection(server="127.0.0.1:1")
THERE = Connection(server="aggregator.example:7717")
HEALTH = [sys.executable, "-c", "from geoveil.cli import main; main()", "health", "--wait"]


@contextmanager
def running(settings):
    """Run a server on a thread of its own; yield its address."""
    address: Future[str] = Future()
    ended = threading.Event()

    async def serve():
        async with Aggregator(settings) as aggregator:
            address.set_result(aggregator.address)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield address.result(60)
    finally:
        ended.set()
        thread.join(60)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the PEM files of a server, of a client that it knows and of one that it doesn't."""
    folder = tmp_path_factory.mktemp("tls")
    servers, clients = new_authority("servers"), new_authority("clients")
    found = {}
    for name, authority in (("servers", servers), ("clients", clients)):
        found[name] = folder / f"{name}.pem"
        found[name].write_bytes(authority.certificate)
    for name, issued in (
        ("server", for_server(servers)),
        ("analyst", for_client(clients)),
        ("stranger", for_client(new_authority("others"))),
    ):
        found[name], found[f"{name}-key"] = written(issued, folder, name)
    return found


@pytest.fixture(scope="module")
def address(files, tmp_path_factory):
    settings = Settings(
        database=tmp_path_factory.mktemp("server") / "reports.db",
        port=0,
        tls_certificate=files["server"],
        tls_key=files["server-key"],
        tls_client_ca=files["clients"],
        insecure_open_analyst=True,
    )
    with running(settings) as found:
        yield found


@pytest.fixture
def command(address, monkeypatch):
    """Run the command against that server; errors of geoveil are raised as they are."""
    for console in (out, err):
        monkeypatch.setattr(console, "width", 160)

    def run(*arguments, stdin=None):
        typed = [*map(str, arguments), "--server", address]
        return CliRunner().invoke(app, typed, input=stdin, catch_exceptions=False)

    return run


@pytest.fixture
def given(files):
    """Return the options for a server that is trusted, and for a client's certificate."""

    def options(client):
        roots = ["--tls-roots", files["servers"]]
        pair = [
            "--tls-client-certificate",
            files[client],
            "--tls-client-key",
            files[f"{client}-key"],
        ]
        return [*roots, *pair]

    return options


@pytest.mark.deep
def test_with_a_certificate_every_command_works(command, given, tmp_path):
    mutual = given("analyst")
    assert command("health", *mutual).output == "SERVING\n"
    assert "mutual" in command("campaign", "create", "Mutual", *ABOVE, *mutual).output
    assert "above 100,000" in command("estimate", "mutual", *mutual).output
    state = ("--state-dir", tmp_path / "device")
    taken = command("contribute", "mutual", "--yes", *state, *mutual, stdin="87500\n")
    assert "counted: report" in taken.output
    file = tmp_path / "rows.parquet"
    assert "1 rows" in command("campaign", "export", "mutual", "--out", file, *mutual).output
    assert file.exists()
    fleet = ["simulate", "fleet", "--devices", "20", "--campaign", "mutual"]
    assert "nothing was lost" in command(*fleet, *mutual).output
    assert "is closed" in command("campaign", "close", "mutual", *mutual).output
    assert "mutual" in command("campaign", "list", *mutual).output
    assert "above 100,000" in command("estimate", "mutual", "--watch", *mutual).output


def test_the_options_come_from_the_environment_too(command, files, monkeypatch):
    monkeypatch.setenv("GEOVEIL_TLS_ROOTS", str(files["servers"]))
    monkeypatch.setenv("GEOVEIL_TLS_CLIENT_CERTIFICATE", str(files["analyst"]))
    monkeypatch.setenv("GEOVEIL_TLS_CLIENT_KEY", str(files["analyst-key"]))
    assert command("health").output == "SERVING\n"


@pytest.mark.parametrize("client", [None, "stranger"])
def test_without_a_certificate_of_the_authority_nothing_works(command, given, client, tmp_path):
    options = given(client) if client else given("analyst")[:2]
    expected = "yours is not from its tls_client_ca" if client else "asks for --tls-client-cert"
    contribute = ("contribute", "mutual", "--yes", "--state-dir", tmp_path / "device")
    for call in (("campaign", "list"), ("estimate", "mutual"), ("health",), contribute):
        with pytest.raises(CommandError, match=expected):
            command(*call, *options, stdin="87500\n")


@pytest.mark.parametrize("options", [[], ["--tls-roots", "clients"]])
def test_a_server_that_is_not_known_or_in_the_clear_is_not_talked_to(command, files, options):
    for call in (["health"], ["campaign", "list"]):
        with pytest.raises(CommandError, match="--tls-roots"):
            command(*call, *(files.get(option, option) for option in options))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"tls_roots": "absent"}, "tls_roots"),
        ({"tls_roots": "wrong"}, "tls_roots"),
        ({"tls_client_certificate": "wrong"}, "--tls-client-certificate"),
        ({"tls_client_key": "stranger-key"}, "--tls-client-key"),
    ],
)
def test_files_that_can_not_be_used_are_named(files, tmp_path, changes, name):
    (tmp_path / "wrong").write_bytes(b"-----BEGIN secret 31415-----")
    more = {"absent": tmp_path / "no", "wrong": tmp_path / "wrong"}
    sound = {
        "tls_roots": files["servers"],
        "tls_client_certificate": files["analyst"],
        "tls_client_key": files["analyst-key"],
    }
    changed = {key: (files | more)[value] for key, value in changes.items()}
    with pytest.raises(ParameterError) as caught:
        Connection(**sound | changed).security()
    assert caught.value.name == name
    assert "31415" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_half_of_a_pair_is_told_by_the_options(files):
    for half, other in (("certificate", "key"), ("key", "certificate")):
        with pytest.raises(ParameterError) as caught:
            Connection(**{f"tls_client_{half}": files["analyst"]})
        told = f"--tls-client-{other} must be given together with --tls-client-{half}"
        assert str(caught.value) == told


def test_a_key_is_never_shown(files):
    connection = Connection(
        tls_client_certificate=files["analyst"], tls_client_key=files["analyst-key"]
    )
    tls = connection.security()
    assert tls is not None
    assert tls.root_certificates is None
    secret = files["analyst-key"].read_text().splitlines()[1]
    assert secret in str(tls.private_key)
    assert secret not in f"{tls} {connection}"


@pytest.mark.deep(rest=6)
@pytest.mark.parametrize("trusted", [True, False])
def test_tls_trusts_what_public_authorities_sign(trusted, tmp_path):
    """The roots that gRPC comes with are replaced, in a process of its own: it reads them once."""
    public, other = new_authority("public"), new_authority("other")
    certificate, key = written(for_server(public), tmp_path, "server")
    roots = tmp_path / "roots.pem"
    roots.write_bytes((public if trusted else other).certificate)
    settings = Settings(
        database=tmp_path / "reports.db", port=0, tls_certificate=certificate, tls_key=key,
        insecure_open_analyst=True,
    )  # fmt: skip
    with running(settings) as address:
        done = subprocess.run(
            [Path(sys.executable).parent / "geoveil", "health", "--tls", "--server", address],
            env=os.environ | {"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": str(roots)},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode == 0) == trusted
    assert (done.stdout == "SERVING\n") == trusted
    assert ("--tls-roots" in done.stderr) != trusted


def test_a_server_elsewhere_without_tls_is_told_the_option(geoveil):
    elsewhere = ("--server", "collector.example:443")
    with pytest.raises(CommandError, match="--tls-roots"):
        geoveil("contribute", "x", "--yes", *elsewhere, to_server=False)


def test_a_page_after_the_other_is_listed(create, geoveil, server, monkeypatch):
    monkeypatch.setattr("geoveil.analyst.calls._ON_PAGE", 2)
    for number in range(5):
        create(f"Page {number}", *ABOVE)
    listed = geoveil("campaign", "list").output
    lines = [line.split()[0] for line in listed.splitlines() if line.strip().startswith("page-")]
    assert lines == [f"page-{number}" for number in range(5)]
    with Analyst(server) as analyst:
        campaigns = [s.envelope.campaign for s in analyst.campaigns()]
    assert len(campaigns) == len(set(campaigns)) >= 5


def test_a_token_is_sent_in_the_clear_to_this_machine_only(monkeypatch, tmp_path):
    """From the environment or a file; without one, nothing is sent."""
    bearer = (("authorization", f"Bearer {SECRET}"),)
    monkeypatch.delenv(TOKEN, raising=False)
    with analyst_at(THERE) as analyst:
        assert analyst._metadata == ()
    monkeypatch.setenv(TOKEN, SECRET)
    over_tls = pytest.raises(CommandError, match="over TLS only: give --tls or --tls-roots")
    with over_tls as caught, analyst_at(THERE):
        pass
    assert SECRET not in str(caught.value)
    with analyst_at(HERE) as analyst:
        assert analyst._metadata == bearer
    monkeypatch.delenv(TOKEN)
    (tmp_path / "token").write_text(SECRET + "\n")
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "token"))
    with analyst_at(HERE) as analyst:
        assert analyst._metadata == bearer
    monkeypatch.setenv(TOKEN_FILE, str(tmp_path / "none"))
    missing = f"{TOKEN_FILE} names no file with a token: No such file or directory"
    with pytest.raises(CommandError, match=missing), analyst_at(HERE):
        pass


def test_a_token_of_the_environment_is_told_by_its_variable(monkeypatch):
    monkeypatch.setenv(TOKEN, "tökén-31415")
    no_token = pytest.raises(CommandError, match="GEOVEIL_TOKEN holds no token")
    with no_token as caught, analyst_at(Connection()):
        pass
    assert "31415" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            ServerError("UNAVAILABLE", "connection refused", answered=False),
            CommandError,
            "no aggregator answers",
        ),
        (ServerError("UNAVAILABLE", "the server is stopping"), ServerError, "is stopping"),
        (ServerError("UNAUTHENTICATED", "a token is needed"), CommandError, TOKEN),
    ],
)
def test_errors_say_what_to_do(monkeypatch, error, kind, said):
    monkeypatch.delenv(TOKEN, raising=False)
    with pytest.raises(kind, match=said), analyst_at(HERE):
        raise error


POLICY = Policy({"household income": GeoPrivacy(1, 8_000, "dollar")})
ELSEWHERE = "aggregator.invalid:7717"
"""A proxy would be asked to find it."""


@pytest.fixture
def proxy(monkeypatch):
    """Name a proxy in every variable that gRPC may read; yield the first bytes that it is sent."""
    seen = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()

        def record():
            with suppress(OSError):  # closed below
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.settimeout(5)
                        seen.append(connection.recv(100))

        thread = threading.Thread(target=record)
        thread.start()
        for name in ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy"):
            for variable in (name, name.upper()):
                monkeypatch.setenv(variable, f"http://{host}:{port}")
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY", f"{host}:{port}")
        monkeypatch.setenv("GRPC_ADDRESS_HTTP_PROXY_ENABLED_ADDRESSES", "0.0.0.0/0")
        for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(TOKEN, SECRET)
        yield seen
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("off", [[], [("grpc.enable_http_proxy", 0)]])
def test_a_channel_of_grpcs_own_goes_through_the_proxy(proxy, server, off):
    """The control: the recorder works; and the option alone leaves one variable open."""
    with grpc.insecure_channel(server, options=off) as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/x/y")(b"", timeout=5)
    assert proxy[0].startswith(b"CONNECT")


def test_no_command_goes_through_a_proxy(proxy, geoveil, tmp_path):
    commands = [
        ["health"],
        ["campaign", "create", "Straight", *ABOVE],
        ["campaign", "list"],
        ["contribute", "straight", "--yes", "--state-dir", tmp_path / "device"],
        ["simulate", "fleet", "--devices", "5", "--campaign", "straight"],
        ["estimate", "straight"],
        ["campaign", "export", "straight", "--out", tmp_path / "rows.parquet"],
        ["campaign", "close", "straight"],
        ["estimate", "straight", "--watch"],
    ]
    for command in commands:
        done = geoveil(*command, stdin="87500\n")
        assert done.exit_code == 0, (command, done.output)
    assert proxy == []


def test_the_sdk_does_not_either(proxy, create, server):
    create("Straight too", *ABOVE)
    with Client(server, policy=POLICY, background=False) as client:
        client.fetch("straight-too")
        client.contribute("straight-too", 87_500)
        assert client.flush().acknowledged == 1

    async def contributed():
        async with AsyncClient(server, policy=POLICY, background=False) as client:
            await client.fetch("straight-too")
            await client.contribute("straight-too", 87_500)
            return (await client.flush()).acknowledged

    assert asyncio.run(contributed()) == 1
    assert proxy == []


@pytest.mark.parametrize("tls", [TLS(insecure=True), TLS()], ids=["in the clear", "TLS"])
def test_nobody_asks_a_proxy_for_another_machine(proxy, tls):
    with Analyst(ELSEWHERE, tls=tls, timeout_s=2.0) as analyst, pytest.raises(ServerError):
        list(analyst.campaigns())
    request = GetCampaignRequest(campaign_id="x")
    blocking = GrpcTransport(ELSEWHERE, tls=tls)
    with pytest.raises(TransportError):
        blocking.get_campaign(request, 2.0)
    blocking.close()

    async def asked():
        transport = GrpcAioTransport(ELSEWHERE, tls=tls)
        try:
            with pytest.raises(TransportError):
                await transport.get_campaign(request, 2.0)
        finally:
            await transport.aclose()

    asyncio.run(asked())
    assert proxy == []


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@pytest.mark.deep(keep=0)
def test_a_server_that_starts_is_waited_for(tmp_path):
    port = free_port()

    async def started_later():
        process = await asyncio.create_subprocess_exec(
            *HEALTH, "--server", f"127.0.0.1:{port}", stdout=subprocess.PIPE
        )
        with pytest.raises(TimeoutError):  # nobody is there yet
            await asyncio.wait_for(process.wait(), 2.0)
        async with Aggregator(Settings(database=tmp_path / "a.db", port=port)):
            told, _ = await asyncio.wait_for(process.communicate(), 30)
        return process.returncode, told

    assert asyncio.run(started_later()) == (0, b"SERVING\n")


def test_a_server_that_never_starts_is_told(geoveil):
    nobody = f"127.0.0.1:{free_port()}"
    for wait in (["--wait"], []):
        with pytest.raises(CommandError, match=f"no aggregator answers at {nobody}: start one"):
            geoveil("health", *wait, "--timeout-s", "0.3", "--server", nobody, to_server=False)


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("wait", [[], ["--wait"]])
def test_a_service_that_there_is_not_is_told(geoveil, wait):
    with pytest.raises(CommandError, match="has no service 'nothing': leave out --service"):
        geoveil("health", "--service", "nothing", "--timeout-s", "1", *wait)


@pytest.mark.parametrize("seconds", ["0", "nan"])
def test_no_time_at_all_is_refused(geoveil, seconds):
    with pytest.raises(ParameterError, match="--timeout-s must be a finite number > 0"):
        geoveil("health", "--timeout-s", seconds)


def test_a_server_that_stays_out_of_service_is_told(geoveil, monkeypatch):
    """The stub stands for a server that stops."""
    answers = iter([health_pb2.HealthCheckResponse(status=2)])

    class Stopping(grpc.RpcError):
        code = staticmethod(lambda: grpc.StatusCode.DEADLINE_EXCEEDED)

    class Stub:
        def __init__(self, channel):
            pass

        def Watch(self, *asked, **how):
            yield from answers
            raise Stopping

    monkeypatch.setattr("grpc_health.v1.health_pb2_grpc.HealthStub", Stub)
    with pytest.raises(CommandError, match="answered NOT_SERVING, and was not SERVING in time"):
        geoveil("health", "--wait")


def test_a_server_that_is_there_is_not_waited_for(geoveil):
    assert geoveil("health", "--wait").stdout == "SERVING\n"
