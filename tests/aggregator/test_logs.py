"""Test the form of logs, and that private data are never in them."""

import asyncio
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from geoveil.aggregator.ops.logs import LIBRARY, Sparing, configure, handle_loop_errors
from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.gp import ParameterError

PRIVATE = 4_711_038_261
LOG = logging.getLogger("geoveil.aggregator.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before():
    root, ours = logging.getLogger(), logging.getLogger("geoveil")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


@pytest.fixture
def configured():
    def configured(level: str = "info", form: str = "auto") -> io.StringIO:
        stream = io.StringIO()
        configure(level, form, stream)
        return stream

    return configured


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_unless_on_a_terminal(configured):
    stream = configured()
    LOG.info("listening", extra={"address": "x", "tls": True})
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("listening", "info", LOG.name)
    assert (line["address"], line["tls"]) == ("x", True)
    assert line["timestamp"].endswith("Z")
    for form, stream, human in [
        ("auto", Terminal(), True),
        ("human", io.StringIO(), True),
        ("json", Terminal(), False),
    ]:
        configure("info", form, stream)
        LOG.info("one event")
        assert "one event" in stream.getvalue()
        assert stream.getvalue().startswith("{") is not human


def test_a_place_that_complains_again_and_again_is_left_out(configured, monkeypatch):
    """Whoever can bring a complaint about could fill the disk."""
    now = [0.0]
    monkeypatch.setattr(Sparing.__init__, "__defaults__", (lambda: now[0],))
    stream, library = configured(), logging.getLogger("grpc")
    for now[0] in (0.0, 1000.0):
        for number in range(100):
            LOG.warning("without_tls", extra={"number": number})
            library.error("handshake failed")
            LOG.info("listening")
    found = lines(stream)
    assert len(found) == 2 * 100 + 4 * 20
    assert [line["left_out"] for line in found if "left_out" in line] == [80, 80]
    assert len([line for line in found if line["event"] == LIBRARY]) == 40


def test_levels(configured):
    for level, shown in [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)]:
        stream = configured(level)
        LOG.debug("a")
        LOG.info("b")
        LOG.warning("c")
        logging.getLogger("a.library").info("never: it may say anything")
        assert len(lines(stream)) == shown


def test_unknown_levels_and_forms_are_refused():
    with pytest.raises(ParameterError, match="log_level"):
        configure("loud")
    with pytest.raises(ParameterError, match="log_format"):
        configure("info", "xml")


@pytest.mark.parametrize("form", ["json", "human"])
def test_messages_of_exceptions_are_not_shown(configured, form):
    stream = configured(form=form)
    try:
        raise ValueError(f"income {PRIVATE}")
    except ValueError as error:
        LOG.exception("failed")
        logging.getLogger("a.library").error("failed", exc_info=error)
    text = stream.getvalue()
    assert str(PRIVATE) not in text
    assert text.count("builtins.ValueError (message not shown)") == 2
    assert "test_messages_of_exceptions_are_not_shown" in text


async def test_complaints_of_the_loop_show_no_values(configured):
    stream = configured()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(handle_loop_errors)

    def fail() -> None:
        raise ValueError(f"income {PRIVATE}")

    loop.call_soon(fail)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    (line,) = lines(stream)
    assert line["level"] == "error"
    assert "builtins.ValueError" in line["exception"]
    assert str(PRIVATE) not in stream.getvalue()


@pytest.mark.parametrize(
    "peer",
    [
        "ipv4:192.0.2.7:4711",
        "ipv6:%5B2001:db8::1%5D:80",
        "192.0.2.7",
        "[2001:db8::1]:80",
        "unix:/x",
    ],
)
def test_words_of_libraries_name_no_address(configured, peer):
    stream = configured()
    logging.getLogger("grpc._server").warning("call of %s at 12:30 failed: x.cc:12", peer)
    (line,) = lines(stream)
    assert line["event"] == "library"
    assert line["message"] == "call of (address) at 12:30 failed: x.cc:12"
    assert line["logger"] == "grpc._server"


def test_every_event_has_a_name_and_is_documented():
    """A sentence in place of a name would be found by nobody who looks for an event."""
    root = Path(__file__).parents[2]
    logged = re.compile(r'_LOG\.\w+\(\s*(?:level, )?"([^"]*)"')
    found = set()
    for file in [*(root / "aggregator").rglob("*.py"), *(root / "apps").rglob("*.py")]:
        text = file.read_text()
        calls = len(re.findall(r"_LOG\.(?:debug|info|warning|error|critical|log)\(", text))
        names = logged.findall(text)
        assert len(names) == calls, file
        found |= set(names)
    found.add(LIBRARY)
    assert all(re.fullmatch("[a-z_]+", name) for name in found)
    documented = re.findall(r"^\| `([a-z_]+)` \| (?:debug|info|warning|error|critical)",
                            (root / "docs" / "operating.md").read_text(), re.MULTILINE)  # fmt: skip
    assert set(documented) == found


async def test_a_whole_day_in_the_log_names_nobody(
    configured, start_server, publish, wire_report, tmp_path
):
    stream = configured("debug", "json")
    tokens = tmp_path / "tokens.json"
    token = TokenFile(tokens).create("alice", Scope, None)
    server = await start_server(tokens_file=tokens)
    wire, campaign = server.wire, publish()
    own_port = server.address.rpartition(":")[2]
    metadata = (("authorization", f"Bearer {token}"),)
    create = wire.channel.unary_unary("/geoveil.proto.v1.Analyst/CreateCampaign")
    from geoveil.proto.v1 import analyst_pb2, campaign_pb2

    request = analyst_pb2.CreateCampaignRequest(
        envelope=campaign_pb2.CampaignEnvelope(campaign=campaign.published)
    )
    call = create(request.SerializeToString(), metadata=metadata)
    await call
    request_id = dict(await call.trailing_metadata())["geoveil-request-id"]
    own, other = PRIVATE, PRIVATE + 1
    report = wire_report(123_456_789, (0, own))
    await wire.submit(campaign, report, wire_report(123_456_789, (0, other)))
    with pytest.raises(grpc.aio.AioRpcError):
        await create(request.SerializeToString(), metadata=(("authorization", "Bearer guess"),))
    await server.aggregator.stop()

    text = stream.getvalue()
    calls = [line for line in lines(stream) if line["logger"].endswith(".middleware")]
    assert [(line["event"], line["level"], line["method"], line["code"]) for line in calls] == [
        ("call", "info", "geoveil.proto.v1.Analyst/CreateCampaign", "OK"),
        ("call", "debug", "geoveil.proto.v1.Collector/SubmitReports", "OK"),
        ("call", "info", "geoveil.proto.v1.Analyst/CreateCampaign", "UNAUTHENTICATED"),
    ]
    assert all(0 <= line["seconds"] < 60 for line in calls)
    assert calls[0]["request_id"] == request_id
    assert [line.get("token") for line in calls] == ["alice", None, None]
    hidden = [str(own), str(other), "123456789", report.report_id.hex(), token, "guess", "ipv4:"]
    for secret in hidden:
        assert secret not in text
    # Of all addresses only its own is named, when it begins to listen.
    assert text.count("127.0.0.1") == text.count(f"127.0.0.1:{own_port}") == 1
