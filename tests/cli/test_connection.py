"""Every command that talks to a server has the same options, and mutual TLS works with all."""

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geoveil.aggregator import Aggregator, Settings
from geoveil.analyst import Analyst
from geoveil.cli.app import app
from geoveil.cli.connection import CommandError, Connection, analyst_at
from geoveil.cli.console import err, out
from geoveil.gp import ParameterError

from ..aggregator.tls_files import for_client, for_server, new_authority, written  # noqa: TID252 - tests have no other name

INCOME = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--threshold", "100000",
]  # fmt: skip


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
    """Run the command against the server; errors of geoveil are raised as they are."""
    for console in (out, err):
        monkeypatch.setattr(console, "width", 160)

    def run(*arguments, stdin=None):
        return CliRunner().invoke(
            app, [*arguments, "--server", address], input=stdin, catch_exceptions=False
        )

    return run


@pytest.fixture
def mutual(files):
    return [
        "--tls-roots", str(files["servers"]),
        "--tls-client-certificate", str(files["analyst"]),
        "--tls-client-key", str(files["analyst-key"]),
    ]  # fmt: skip


@pytest.mark.deep
def test_with_a_certificate_every_command_works(command, mutual, tmp_path):
    assert command("health", *mutual).output == "SERVING\n"
    assert "mutual" in command("campaign", "create", "Mutual", *INCOME, *mutual).output
    assert "above 100,000" in command("estimate", "mutual", *mutual).output
    taken = command(
        "contribute", "mutual", "--yes", "--state-dir", str(tmp_path / "device"), *mutual,
        stdin="87500\n",
    )  # fmt: skip
    assert "counted: report" in taken.output
    file = tmp_path / "rows.parquet"
    assert "1 rows" in command("campaign", "export", "mutual", "--out", str(file), *mutual).output
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
def test_without_one_of_the_authority_nothing_works(command, files, client):
    options = ["--tls-roots", str(files["servers"])]
    if client:
        options += ["--tls-client-certificate", str(files[client])]
        options += ["--tls-client-key", str(files[f"{client}-key"])]
    expected = "yours is not from its tls_client_ca" if client else "asks for --tls-client-cert"
    for call in (["campaign", "list"], ["estimate", "mutual"], ["health"]):
        with pytest.raises(CommandError, match=expected):
            command(*call, *options)


def test_a_device_without_a_certificate_is_told(command, files, tmp_path):
    with pytest.raises(CommandError, match="--tls-client-certificate"):
        command(
            "contribute", "mutual", "--yes", "--state-dir", str(tmp_path / "device"),
            "--tls-roots", str(files["servers"]), stdin="87500\n",
        )  # fmt: skip


@pytest.mark.parametrize("options", [[], ["--tls-roots", "clients"]])
def test_a_server_that_is_not_known_or_in_the_clear_is_not_talked_to(command, files, options):
    given = [str(files.get(option, option)) for option in options]
    for call in (["health"], ["campaign", "list"]):
        with pytest.raises(CommandError, match="--tls-roots"):
            command(*call, *given)


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
    given = {
        "tls_roots": files["servers"],
        "tls_client_certificate": files["analyst"],
        "tls_client_key": files["analyst-key"],
    }
    given |= {key: (files | more)[value] for key, value in changes.items()}
    with pytest.raises(ParameterError) as caught:
        Connection(**given).security()
    assert caught.value.name == name
    assert "31415" not in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_half_of_a_pair_is_told_by_the_options(files):
    for half, other in (("certificate", "key"), ("key", "certificate")):
        with pytest.raises(ParameterError) as caught:
            Connection(**{f"tls_client_{half}": files["analyst"]})
        told = f"--tls-client-{other} must be given together with --tls-client-{half}"
        assert str(caught.value) == told


def test_a_token_of_the_environment_is_told_by_its_variable(monkeypatch):
    monkeypatch.setenv("GEOVEIL_TOKEN", "tökén-31415")
    with (
        pytest.raises(CommandError, match="GEOVEIL_TOKEN holds no token") as caught,
        analyst_at(Connection()),
    ):
        pass
    assert "31415" not in str(caught.value)


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


def test_a_page_after_the_other_is_listed(geoveil, server, monkeypatch):
    monkeypatch.setattr("geoveil.analyst.calls._ON_PAGE", 2)
    for number in range(5):
        geoveil("campaign", "create", f"Page {number}", *INCOME)
    listed = geoveil("campaign", "list").output
    lines = [line.split()[0] for line in listed.splitlines() if line.strip().startswith("page-")]
    assert lines == [f"page-{number}" for number in range(5)]
    with Analyst(server) as analyst:
        campaigns = [s.envelope.campaign for s in analyst.campaigns()]
    assert len(campaigns) == len(set(campaigns)) >= 5


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
