"""A device's tokens, which limit each person to one report.

The blinding is derived from a secret of the device and the report's id, which the journal has
before anything is sent: after a crash, a device sends its issuer the same request again, and gets
the same response. One transaction stores a report with its token before it is first sent; from then
on it needs no issuer.
"""

import asyncio
import hashlib
import hmac
import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

from geoveil.campaign import TokenRule, decode, digest, token_key_id
from geoveil.client import AsyncTransport, JournalError, Transport, TransportError
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2, report_pb2
from geoveil.relay.binary_http import MessageInvalid
from geoveil.relay.blind_rsa import SALT_BYTES, blind, unblind
from geoveil.relay.web import WebAddress

_Inner = TypeVar("_Inner")
FILE = "tokens.sqlite"
REQUEST_TYPE, RESPONSE_TYPE = (
    "application/private-token-request",
    "application/private-token-response",
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS secret (one INTEGER PRIMARY KEY, secret BLOB)",
    "CREATE TABLE IF NOT EXISTS reports (id BLOB PRIMARY KEY, report BLOB) WITHOUT ROWID",
)
_SECRET_BYTES = 32
_REFUSALS = (401, 403, 404)
"""Status codes that a retry can't fix, but the person or the issuer can."""
_GIVEN = 409


_REJECTED = collector_pb2.SubmitReportsResponse(
    results=[
        report_pb2.ReportResult(
            status=report_pb2.REPORT_STATUS_REJECTED,
            reason=report_pb2.REJECTION_REASON_WRONG_TOKEN,
            detail="token must be the person's first: the issuer gave one for another report",
        )
    ]
)
"""Replaces the server's response, so that the report does not block later ones."""


class _GivenError(Exception):
    """The issuer has given this person a token for another report."""


class _Tokens(Generic[_Inner]):
    """Gets tokens and stores them; `TokenTransport` explains the arguments."""

    gives_tokens = True

    def __init__(
        self,
        transport: _Inner,
        *,
        issuer: str,
        credential: str,
        state_dir: str | os.PathLike[str],
        root_certificates: bytes | None = None,
    ) -> None:
        if not (isinstance(credential, str) and credential.isascii() and credential.isprintable()):
            raise ParameterError("credential", "(not shown)", "printable characters of ASCII")
        self._transport = transport
        self.operator = getattr(transport, "operator", None)
        self._credential = credential
        self._issuer = WebAddress("issuer", issuer, root_certificates)
        self._path = Path(state_dir) / FILE
        self._rules: dict[bytes, TokenRule | None] = {}
        self._keys: dict[bytes, bytes] = {}
        """Key id → a period's key."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            for table in _SCHEMA:
                self._execute(table)
            drawn = os.urandom(_SECRET_BYTES)
            self._execute("INSERT OR IGNORE INTO secret VALUES (0, ?)", drawn)
            ((self._secret,),) = self._execute("SELECT secret FROM secret")
        except (OSError, JournalError, ValueError) as error:
            usable = f"usable ({type(error).__name__})"
            raise ParameterError("state_dir", str(state_dir), usable) from error

    def _unknown(
        self, request: collector_pb2.SubmitReportsRequest
    ) -> collector_pb2.GetCampaignRequest | None:
        """Return the request for the reports' campaign; None if its rule is known."""
        if request.campaign_digest in self._rules or self._kept(request):
            return None
        return collector_pb2.GetCampaignRequest(campaign_id=request.campaign_id)

    def _learn(
        self,
        request: collector_pb2.SubmitReportsRequest,
        response: collector_pb2.GetCampaignResponse,
    ) -> None:
        """Store a campaign's token rule; refuse a campaign with another digest."""
        campaign = response.envelope.campaign
        if digest(campaign) != request.campaign_digest:
            raise TransportError("FAILED_PRECONDITION", "the campaign has another digest")
        self._rules[request.campaign_digest] = TokenRule.of(decode(campaign))

    def _complete(
        self, request: collector_pb2.SubmitReportsRequest, end: float
    ) -> collector_pb2.SubmitReportsRequest:
        """Return the request with a token in its report, if its campaign requires one.

        Raises:
            _GivenError: if the person already has a token for another report.
        """
        kept = self._kept(request)
        rule = None if kept else self._rules[request.campaign_digest]
        completed = collector_pb2.SubmitReportsRequest()
        completed.CopyFrom(request)
        (report,) = completed.reports
        if kept:
            report.ParseFromString(kept)
        elif rule is not None:
            report.token = self._token(rule, report, end)
            encoded = report.SerializeToString()
            keep = "INSERT OR IGNORE INTO reports VALUES (?, ?)"
            self._execute(keep, report.report_id, encoded)
        return completed

    def _kept(self, request: collector_pb2.SubmitReportsRequest) -> bytes:
        """Return a request's report with its token; empty if it has none yet."""
        if len(request.reports) != 1:
            raise ParameterError("reports", len(request.reports), "one in a request")
        (report,) = request.reports
        kept = self._execute("SELECT report FROM reports WHERE id = ?", report.report_id)
        return kept[0][0] if kept else b""

    def _execute(self, statement: str, *values: bytes) -> list[Any]:
        try:
            # A new connection each time, since threads and forked children use this too.
            with closing(sqlite3.connect(self._path)) as database, database:
                return database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise JournalError(str(self._path), str(error)) from error

    def _token(self, rule: TokenRule, report: report_pb2.Report, end: float) -> bytes:
        """Return the token for a report."""
        key_id, before = rule.key_id(report.period), b""
        key = rule.key
        if rule.recurs:
            key = before = self._key(key_id, end)
        message = rule.message(report.report_id, report.period)
        salt = self._made(b"salt", message, SALT_BYTES)
        # So many more bits than the modulus that the remainder is uniform up to 2^-128.
        modulus = int.from_bytes(key, "big")
        factor = int.from_bytes(self._made(b"blind", message, len(key) + 16), "big") % modulus
        try:
            content = blind(key, message, salt, factor)
        except MessageInvalid as error:
            raise TransportError("FAILED_PRECONDITION", str(error)) from None
        head = {"Content-Type": REQUEST_TYPE, "Authorization": f"Bearer {self._credential}"}
        truncated = bytes([0, 2]) + key_id[-1:]
        signed = self._ask("POST", truncated + content, head, end, key_id)
        token = before + unblind(key, signed, factor)
        if len(signed) != len(key) or not rule.is_sound(report.report_id, token, report.period):
            raise TransportError("DATA_LOSS", "the issuer answered with no token")
        return token

    def _key(self, key_id: bytes, end: float) -> bytes:
        """Return a period's key."""
        if key_id not in self._keys:
            key = self._ask("GET", b"", {}, end, key_id)
            if token_key_id(key) != key_id:
                raise TransportError("DATA_LOSS", "the issuer answered with another key")
            self._keys[key_id] = key
        return self._keys[key_id]

    def _ask(
        self, method: str, content: bytes, head: dict[str, str], end: float, key_id: bytes
    ) -> bytes:
        """Return the issuer's response about a key."""
        answer = self._issuer.ask(method, content, head, end, f"/{key_id.hex()}")
        if answer.status == _GIVEN:
            raise _GivenError
        if answer.status != 200:
            code = "PERMISSION_DENIED" if answer.status in _REFUSALS else "UNAVAILABLE"
            text = f"the issuer gives no token: status {answer.status}"
            raise TransportError(code, text, retry_after_s=answer.retry_after_s)
        return answer.content

    def _made(self, label: bytes, message: bytes, size: int) -> bytes:
        """Return deterministic bytes that look random without the secret."""
        keyed = hmac.digest(self._secret, label + message, "sha256")
        return hashlib.shake_256(keyed).digest(size)


class TokenTransport(_Tokens[Transport], Transport):
    """Gets a token for each report whose campaign requires one, and sends both.

    Args:
        transport: carries reports, and fetches campaigns.
        issuer: URL of the campaign's issuer; https:// unless it is on this machine.
        credential: identifies this person to the issuer, such as an invitation code.
        state_dir: the client's directory, which stores a secret and the tokens.
        root_certificates: the issuer's trusted authorities in PEM; None for the system's.

    Raises:
        ParameterError: if the issuer is not a URL, or the directory is unusable.
        PlaintextRefused: if the issuer is another machine without TLS.
    """

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return self._transport.get_campaign(request, timeout_s)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        end = time.monotonic() + timeout_s
        try:
            completed = self._completed(request, end)
        except _GivenError:
            return _REJECTED
        return self._transport.submit_reports(completed, _left(end))

    def fetch_tokens(self, request: collector_pb2.SubmitReportsRequest, timeout_s: float) -> None:
        """Get and store the token of a report that leaves later, if it needs one."""
        with suppress(_GivenError):
            self._completed(request, time.monotonic() + timeout_s)

    def _completed(
        self, request: collector_pb2.SubmitReportsRequest, end: float
    ) -> collector_pb2.SubmitReportsRequest:
        if asking := self._unknown(request):
            self._learn(request, self._transport.get_campaign(asking, _left(end)))
        return self._complete(request, end)


class AsyncTokenTransport(_Tokens[AsyncTransport], AsyncTransport):
    """`TokenTransport` for asyncio, which calls the issuer in a thread."""

    async def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return await self._transport.get_campaign(request, timeout_s)

    async def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        end = time.monotonic() + timeout_s
        try:
            completed = await self._completed(request, end)
        except _GivenError:
            return _REJECTED
        return await self._transport.submit_reports(completed, _left(end))

    async def fetch_tokens(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> None:
        """Do the same as `TokenTransport.fetch_tokens`."""
        with suppress(_GivenError):
            await self._completed(request, time.monotonic() + timeout_s)

    async def _completed(
        self, request: collector_pb2.SubmitReportsRequest, end: float
    ) -> collector_pb2.SubmitReportsRequest:
        if asking := self._unknown(request):
            response = await self._transport.get_campaign(asking, _left(end))
            self._learn(request, response)
        return await asyncio.to_thread(self._complete, request, end)


def _left(end: float) -> float:
    left_s = end - time.monotonic()
    if left_s <= 0:
        raise TransportError("DEADLINE_EXCEEDED", "no time is left")
    return left_s
