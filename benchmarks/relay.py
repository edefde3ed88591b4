"""The cost of a relay and tokens: at the gateway and server, at the issuer, and at a relay.

All times are processor times. A report's cost is everything that a relay and a token add to it: the
request is opened and read, the token checked, the answer written and sealed. Its floor is what no
implementation can omit, with the same libraries. The issuer is compared with a bare signature; the
relay, which forwards 1,024 bytes and the answer, with a process that echoes them.
"""

import http.client
import multiprocessing
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384

from benchmarks.serving import processor_s
from benchmarks.timing import Figure, seconds_of, show
from geoveil.campaign import SigningKey, TokenRule
from geoveil.proto.v1 import collector_pb2, report_pb2
from geoveil.relay import (
    PATH,
    SIZES,
    GatewayKeys,
    InnerRequest,
    InnerResponse,
    Issuer,
    IssuerKey,
    Relay,
    read_request,
    room_in_response,
    write_response,
)
from geoveil.relay.binary_http import write_request
from geoveil.relay.blind_rsa import blind, unblind
from geoveil.relay.encapsulation import padded_request, seal_request

REPORTS, SIGNATURES, FORWARDED, QUICK_FORWARDED = 200, 50, 400, 100
ROUNDS, QUICK_ROUNDS = 9, 3


class _Anybody:
    """Treats each credential as a person."""

    def account(self, credential: str) -> str | None:
        return credential


def table(*, quick: bool = False) -> list[Figure]:
    key, rounds = IssuerKey.generate(), QUICK_ROUNDS if quick else ROUNDS
    relaying = _relaying(QUICK_FORWARDED if quick else FORWARDED)
    return [*_reports(key, rounds), *_issuing(key, rounds), *relaying]


def _reports(key: IssuerKey, rounds: int) -> list[Figure]:
    rule = TokenRule("income", b"campaign", key.public)
    operator = SigningKey.generate()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "relay.keys"
        GatewayKeys.rotate(path, operator, timedelta(days=1))
        keys = GatewayKeys(path)
        published = keys.published()
        sealed, tokens = [], []
        for number in range(REPORTS):
            report = report_pb2.Report(report_id=number.to_bytes(16, "big"))
            blinded = blind(key.public, rule.message(report.report_id), bytes(48), 3**99)
            report.token = unblind(key.public, key.sign(blinded), 3**99)
            tokens.append((report.token, rule.message(report.report_id)))
            asked = collector_pb2.SubmitReportsRequest(campaign_id="income", reports=[report])
            inner = InnerRequest(b"POST", b"https", b"", b"/", (), asked.SerializeToString())
            message = padded_request(write_request(inner))
            sealed.append(seal_request(published.key_id, published.public, message)[0])
        times = seconds_of(
            {
                "relay and token": partial(_answer, keys, rule, sealed),
                "floor": partial(_floor, key, tokens),
            },
            rounds,
            of=min,
        )
    return show("relay: a report", "ms", 1e3 / REPORTS, times, "floor")


def _answer(keys: GatewayKeys, rule: TokenRule, sealed: list[bytes]) -> None:
    """Do the extra work of a gateway and a server for reports that are sealed and have tokens."""
    for each in sealed:
        message, seal = keys.open(each)
        content = read_request(message).content
        (report,) = collector_pb2.SubmitReportsRequest.FromString(content).reports
        assert rule.is_sound(report.report_id, report.token)
        response = write_response(InnerResponse(200))
        assert len(seal(response.ljust(room_in_response(SIZES[0]), b"\0"))) == SIZES[0]


def _floor(key: IssuerKey, tokens: list[tuple[bytes, bytes]]) -> None:
    """Compute a shared secret, open, seal and verify, and nothing else."""
    private, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    cipher, nonce = AESGCM(bytes(16)), bytes(12)
    box = cipher.encrypt(nonce, bytes(SIZES[0]), None)
    public = key._private.public_key()
    for token, message in tokens:
        private.exchange(other)
        cipher.decrypt(nonce, box, None)
        public.verify(token, message, PSS(MGF1(SHA384()), 48), SHA384())
        AESGCM(bytes(16)).encrypt(nonce, bytes(SIZES[0]), None)


def _issuing(key: IssuerKey, rounds: int) -> list[Figure]:
    rule = TokenRule("income", b"campaign", key.public)
    name = rule.key_id(0).hex()
    head = bytes([0, 2, rule.key_id(0)[-1]])
    requests = [
        head + blind(key.public, rule.message(secrets.token_bytes(16)), bytes(48), 3**99)
        for _ in range(SIGNATURES)
    ]
    issuer = Issuer([key], _Anybody(), Path(":memory:"))

    def issue() -> None:
        for request in requests:
            assert issuer.answer(name, secrets.token_hex(8), request)[0] == 200

    def sign() -> None:
        for request in requests:
            key._private.sign(request, PSS(MGF1(SHA384()), 48), SHA384())

    times = seconds_of({"token issued": issue, "bare signature": sign}, rounds, of=min)
    issuer.close()
    return show("relay: issuing", "ms", 1e3 / SIGNATURES, times, "bare signature")


class _Echo(BaseHTTPRequestHandler):
    """Echoes requests."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.send_response_only(200)
        self.send_header("content-type", "message/ohttp-res")
        self.send_header("content-length", str(len(content)))
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing."""


def _echo() -> ThreadingHTTPServer:
    return ThreadingHTTPServer(("127.0.0.1", 0), _Echo)


@contextmanager
def _process(make: Callable[[], ThreadingHTTPServer]) -> Iterator[tuple[psutil.Process, int]]:
    """Run a server in a new process; yield the process and the server's port."""
    server = make()
    process = multiprocessing.get_context("fork").Process(target=server.serve_forever)
    process.start()
    port = server.server_port
    server.socket.close()
    assert process.pid is not None
    try:
        yield psutil.Process(process.pid), port
    finally:
        process.kill()
        process.join()


def _relaying(forwarded: int) -> list[Figure]:
    costs: dict[str, list[float]] = {"geoveil relay": [], "echo": []}
    with _process(_echo) as (echo, port):
        relay = partial(Relay, ("127.0.0.1", 0), f"http://127.0.0.1:{port}")
        with _process(relay) as (forwarding, near):
            for _ in range(QUICK_ROUNDS):
                costs["geoveil relay"].append(_cost(forwarding, near, forwarded))
                costs["echo"].append(_cost(echo, port, forwarded))
    times = {name: min(each) for name, each in costs.items()}
    return show("relay: forwarding 1,024 bytes", "ms", 1e3, times, "echo")


def _cost(process: psutil.Process, port: int, requests: int) -> float:
    before = processor_s(process)
    for _ in range(requests):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("POST", PATH, bytes(SIZES[0]), {"Content-Type": "message/ohttp-req"})
        answer = connection.getresponse()
        assert (answer.status, len(answer.read())) == (200, SIZES[0])
        connection.close()
    return (processor_s(process) - before) / requests
