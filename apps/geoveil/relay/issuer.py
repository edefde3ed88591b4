"""The issuer of tokens, which knows who got a token of each key, but not for which report.

It records a person's blinded message before it signs it: after a crash or a lost response, the same
message gets the same signature again, and another message gets none.
"""

import hashlib
import secrets
import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from geoveil.campaign import TOKEN_KEY_BYTES, token_key_id
from geoveil.client import TransportError
from geoveil.gp import ParameterError
from geoveil.relay.binary_http import MessageInvalid
from geoveil.relay.blind_rsa import IssuerKey
from geoveil.relay.tokens import REQUEST_TYPE, RESPONSE_TYPE
from geoveil.relay.web import TIMEOUT_S, SmallHandler, SmallServer, WebAddress

_HEAD = 3
"""Bytes before the blinded message in a request: the type, and the end of the key's id."""


class Attester(Protocol):
    """Identifies people."""

    def account(self, credential: str) -> str | None:
        """Return a person's stable name; None for a stranger.

        Raises:
            TransportError: if it can't decide now.
        """
        ...


class InvitationCodes:
    """Treats each invitation code as one person.

    Args:
        path: a file with the SHA-256 of each code in hexadecimal, one per line.

    Raises:
        ParameterError: if the file can't be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._hashes = frozenset(Path(path).read_text(encoding="ascii").split())
        except (OSError, ValueError, TypeError):
            raise ParameterError(
                "codes", str(path), "a file that 'geoveil relay invite' wrote"
            ) from None

    def account(self, credential: str) -> str | None:
        hashed = _hash(credential)
        return hashed if hashed in self._hashes else None

    @staticmethod
    def invite(path: Path, count: int) -> list[str]:
        """Add new codes to a file, created if missing, and return them."""
        codes = [secrets.token_urlsafe(16) for _ in range(count)]
        with path.open("a", encoding="ascii") as file:
            file.writelines(f"{_hash(code)}\n" for code in codes)
        return codes


class WebAttester:
    """Asks the app's own server, which knows accounts, for example through OpenID Connect.

    Args:
        url: a GET with the credential as bearer token returns status 200 and the account's name,
            or 401 or 403.
        root_certificates: the trusted authorities in PEM; None for the system's.
    """

    def __init__(self, url: str, root_certificates: bytes | None = None) -> None:
        self._web = WebAddress("attester", url, root_certificates)

    def account(self, credential: str) -> str | None:
        end = time.monotonic() + TIMEOUT_S / 2
        answer = self._web.ask("GET", b"", {"Authorization": f"Bearer {credential}"}, end)
        if answer.status in (401, 403):
            return None
        name = answer.content.strip()
        if answer.status != 200 or not name:
            raise TransportError("UNAVAILABLE", f"the attester answered {answer.status}")
        return hashlib.sha256(name).hexdigest()


class Issuer:
    """Gives each person one token per key. Threads, and processes with one file, may share it.

    Args:
        keys: one key per campaign, or per period of a campaign with periods.
        attester: identifies people.
        path: SQLite file with each person's messages.

    Raises:
        ParameterError: if the file is unusable.
    """

    def __init__(self, keys: list[IssuerKey], attester: Attester, path: Path) -> None:
        self._keys: Mapping[str, IssuerKey] = {token_key_id(k.public).hex(): k for k in keys}
        self._attester = attester
        self._lock = threading.Lock()
        try:
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS given (key TEXT, account TEXT, message BLOB,"
                " PRIMARY KEY (key, account)) WITHOUT ROWID"
            )
        except sqlite3.Error:
            raise ParameterError("given", str(path), "an SQLite file, or none") from None

    def key(self, name: str) -> bytes:
        """Return the public half of the key with this id in hexadecimal; empty if unknown."""
        key = self._keys.get(name)
        return b"" if key is None else key.public

    def answer(self, name: str, credential: str, request: bytes) -> tuple[int, bytes]:
        """Return the status and content of the response to a request for a key (RFC 9578, 6.1)."""
        key = self._keys.get(name)
        if key is None:
            return 404, b""
        head = bytes([0, 2, int(name[-2:], 16)])
        if len(request) != _HEAD + TOKEN_KEY_BYTES or not request.startswith(head):
            return 422, b""
        try:
            account = self._attester.account(credential)
        except TransportError:
            return 503, b""
        if account is None:
            return 401, b""
        hashed = hashlib.sha256(request).digest()
        with self._lock:
            self._database.execute(
                "INSERT OR IGNORE INTO given VALUES (?, ?, ?)", (name, account, hashed)
            )
            row = self._database.execute(
                "SELECT message FROM given WHERE key = ? AND account = ?", (name, account)
            ).fetchone()
        if row != (hashed,):
            return 409, b""
        try:
            return 200, key.sign(request[_HEAD:])
        except MessageInvalid:
            return 422, b""

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class IssuerServer(SmallServer):
    """Answers requests for tokens over HTTP, below any path; port 0 takes a free one."""

    def __init__(self, listen: tuple[str, int], issuer: Issuer) -> None:
        self.issuer = issuer
        super().__init__(listen, _Handler)


class _Handler(SmallHandler):
    page_headers = MappingProxyType({"access-control-allow-headers": "authorization, content-type"})

    def do_POST(self) -> None:  # noqa: N802 - the library's name
        server: Any = self.server
        size = self.headers.get("content-length", "")
        kind, credential = self.headers.get("authorization", "").partition(" ")[::2]
        status, content = 422, b""
        if self.headers.get("content-type") != REQUEST_TYPE:
            status = 415
        elif kind != "Bearer" or not credential:
            status = 401
        elif size == str(_HEAD + TOKEN_KEY_BYTES):
            name = self.path.rpartition("/")[2]
            status, content = server.issuer.answer(name, credential, self.rfile.read(int(size)))
        self.answer(status, content, {"content-type": RESPONSE_TYPE if content else ""})

    def do_GET(self) -> None:  # noqa: N802 - the library's name
        server: Any = self.server
        content = server.issuer.key(self.path.rpartition("/")[2])
        kind = "application/octet-stream" if content else ""
        self.answer(200 if content else 404, content, {"content-type": kind})


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
