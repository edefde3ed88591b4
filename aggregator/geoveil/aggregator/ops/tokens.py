"""Tokens of analysts: shown once when created, and stored only as SHA-256.

A token has 256 random bits, so nobody can guess it from its plain hash; a slow hash would not help.
"""

import fcntl
import json
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any

from geoveil.aggregator.ops.reloading_file import ReloadingFile
from geoveil.campaign import check_campaign_id
from geoveil.gp import ParameterError, enum_repr

_LOG = logging.getLogger(__name__)
PREFIX = "geoveil_"
"""The prefix of every token, which helps people and programs find leaked secrets."""
_VERSION = 2
_MOST_CAMPAIGNS = 1_000
_MOST_NAME = 64
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Scope(Enum):
    """The permission of a token."""

    __repr__ = enum_repr

    CREATE = "create"
    CLOSE = "close"
    LIST = "list"
    ESTIMATE = "estimate"
    EXPORT = "export"
    OPERATE = "operate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token's stored record; ParameterError names a wrong field."""

    name: str
    """The name of the person or program that uses the token."""
    digest: bytes
    """SHA-256 of the token."""
    scopes: frozenset[Scope]
    """The token's permissions, at least one."""
    expires: datetime | None
    """The time when it expires; None for never."""
    campaigns: frozenset[str] | None = None
    """Ids of the permitted campaigns, which may not exist yet; None for all."""

    def __post_init__(self) -> None:
        name = self.name
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MOST_NAME:
            raise ParameterError("name", name, f"1 to {_MOST_NAME} printable characters")
        if len(self.digest) != sha256().digest_size:
            raise ParameterError("length of digest", len(self.digest), "that of SHA-256")
        if not self.scopes:
            raise ParameterError("scopes", "none", f"some of {', '.join(s.value for s in Scope)}")
        if self.expires is not None and self.expires.tzinfo is None:
            raise ParameterError("expires", self.expires.isoformat(), "a time with a time zone")
        if self.campaigns is not None:
            if not 1 <= len(self.campaigns) <= _MOST_CAMPAIGNS:
                number = len(self.campaigns)
                raise ParameterError("number of campaigns", number, f"1 to {_MOST_CAMPAIGNS:,}")
            for campaign_id in sorted(self.campaigns):
                check_campaign_id(campaign_id)

    def __repr__(self) -> str:
        return f"Token({self.name!r}, {sorted(s.value for s in self.scopes)}, digest not shown)"


class TokenFile:
    """A server's tokens, in a JSON file that only its operator may write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[Token, ...]:
        """Return all tokens, in order of creation.

        Raises:
            ParameterError: if the file is unreadable, not a token file, or others may write it.
        """
        try:
            with self._path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & _WRITABLE_BY_OTHERS:
                    raise self._wrong("a file that only its owner may write (chmod 600)")
                content = json.load(file)
            if content["version"] != _VERSION:
                raise self._wrong(f"of version {_VERSION}")
            tokens = tuple(map(_from_json, content["tokens"]))
        except OSError as error:
            raise self._wrong(f"a file to read ({error.strerror})") from error
        except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError):
            raise self._wrong("a file that 'geoveil token create' wrote") from None
        if len({token.name for token in tokens}) < len(tokens):
            raise self._wrong("a file in which no name occurs twice")
        return tokens

    def create(
        self,
        name: str,
        scopes: Iterable[Scope],
        expires: datetime | None,
        campaigns: Iterable[str] | None = None,
    ) -> str:
        """Add a token and return it; it is never shown again. ParameterError as in `Token`."""
        text = PREFIX + secrets.token_urlsafe(32)
        token = Token(
            name=name,
            digest=digest(text),
            scopes=frozenset(scopes),
            expires=expires,
            campaigns=None if campaigns is None else frozenset(campaigns),
        )

        def add(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            if any(other.name == name for other in tokens):
                raise ParameterError("name", name, "one that no token has: revoke that one first")
            return (*tokens, token)

        self._change(add)
        return text

    def revoke(self, name: str) -> None:
        """Remove a token, which servers then refuse; ParameterError if the name is unknown."""

        def remove(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
            left = tuple(token for token in tokens if token.name != name)
            if len(left) == len(tokens):
                raise ParameterError("name", name, "the name of a token: see 'geoveil token list'")
            return left

        self._change(remove)

    def _change(self, change: Callable[[tuple[Token, ...]], tuple[Token, ...]]) -> None:
        with _locked(self._path.parent):
            before = self.read() if self._path.exists() else ()
            rows = [_to_json(token) for token in change(before)]
            content = json.dumps({"version": _VERSION, "tokens": rows}, indent=2) + "\n"
            _replace(self._path, content)

    def _wrong(self, expected: str) -> ParameterError:
        return ParameterError("tokens_file", str(self._path), expected)


class Tokens:
    """The current tokens of a file; `find` raises like `TokenFile.read`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        file = TokenFile(path)
        file.read()
        self._watched = ReloadingFile([path], file.read)
        self._failed = False

    def find(self, text: str) -> Token | None:
        """Return a token's record, even if expired; None if unknown."""
        try:
            tokens = self._latest()
        except ParameterError as error:
            if not self._failed:
                _LOG.error("tokens_file_wrong", extra={"reason": str(error)})
            self._failed = True
            raise
        self._failed = False
        presented, match = digest(text), None
        for token in tokens:  # all of them, so that the time does not reveal which
            if compare_digest(token.digest, presented):
                match = token
        return match

    def _latest(self) -> Sequence[Token]:
        try:
            return self._watched.get()
        except OSError as error:
            expected = f"a file to read ({error.strerror})"
            raise ParameterError("tokens_file", str(self._path), expected) from error


def digest(text: str) -> bytes:
    """Return the SHA-256 of a token."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _to_json(token: Token) -> dict[str, Any]:
    return {
        "name": token.name,
        "sha256": token.digest.hex(),
        "scopes": sorted(scope.value for scope in token.scopes),
        "expires": None if token.expires is None else token.expires.isoformat(),
        "campaigns": None if token.campaigns is None else sorted(token.campaigns),
    }


def _from_json(row: dict[str, Any]) -> Token:
    campaigns = row["campaigns"]
    if campaigns is not None and not isinstance(campaigns, list):
        raise TypeError("campaigns")
    try:
        return Token(
            name=row["name"],
            digest=bytes.fromhex(row["sha256"]),
            scopes=frozenset(Scope(scope) for scope in row["scopes"]),
            expires=None if row["expires"] is None else datetime.fromisoformat(row["expires"]),
            campaigns=None if campaigns is None else frozenset(campaigns),
        )
    except ValueError as error:
        # Only the kind of fault, since the file may contain a pasted token.
        raise KeyError("token") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder, so that other processes do not change its files."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        expected = f"in a folder that exists ({error.strerror})"
        raise ParameterError("tokens_file", str(folder), expected) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(path: Path, content: str) -> None:
    """Write a file completely or not at all, readable only by its owner."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if path.exists():  # keep the operator's choice of owner
                owner = path.stat()
                if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
                    os.chown(temporary, owner.st_uid, owner.st_gid)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        expected = f"a file to write ({error.strerror})"
        raise ParameterError("tokens_file", str(path), expected) from error
