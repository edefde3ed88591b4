"""A gateway's keys: one is published, signed by its operator, and the previous one still opens.

A key's id travels in the clear, so one key serves all campaigns and everybody. The operator signs
each key with a serial and an end, and devices know the operator's key, so neither a relay nor a
gateway can give individual people other keys.
"""

import base64
import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from geoveil.campaign import PublicKey, SigningKey
from geoveil.gp import GeoVeilError, ParameterError
from geoveil.relay.binary_http import MessageInvalid
from geoveil.relay.encapsulation import ALGORITHMS, HEADER, PUBLIC_BYTES, open_request

PATH = "/.well-known/ohttp-gateway"
"""The path of a gateway's key configuration (RFC 9540)."""
SIGNED = "geoveil-signed"
"""The header with the operator's signature of the key."""
MOST_LIVE = 2
_CONTEXT = b"geoveil relay key v1\n"
_ENDS = struct.Struct(">QQ")
_CONFIGURATION = struct.Struct(f">HBH{PUBLIC_BYTES}sHHH")
"""The length of the rest; id and KEM; the key; the length of the rest; KDF and AEAD."""


class KeyUnknown(GeoVeilError):  # noqa: N818 - says what happened, as the client's errors do
    """A request was sealed for a key that its gateway no longer has, or never had."""

    def __str__(self) -> str:
        return "the request was sealed for a key other than the gateway's"


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """A gateway's key as published to devices."""

    serial: int
    """The serial number, above the previous key's."""
    expires: int
    """The end of the key, in seconds since 1970."""
    public: bytes
    signature: bytes

    @property
    def key_id(self) -> int:
        """The id that requests state."""
        return self.serial % 256

    @property
    def configuration(self) -> bytes:
        """The key as application/ohttp-keys (RFC 9458, 3.2)."""
        kem, *symmetric = ALGORITHMS
        after = _CONFIGURATION.size - 2
        return _CONFIGURATION.pack(after, self.key_id, kem, self.public, 4, *symmetric)

    @property
    def signed(self) -> str:
        """The header with its serial, end and signature."""
        return f"{self.serial} {self.expires} {base64.b64encode(self.signature).decode()}"

    @classmethod
    def read(cls, content: bytes, signed: str, operator: PublicKey, now: float) -> Self:
        """Return the key in a gateway's publication, with the header `signed` that came with it.

        Raises:
            MessageInvalid: if the operator has not signed it, it has ended, or it can't be read.
        """
        try:
            serial, expires, signature = signed.split(" ")
            _, key_id, kem, public, _, *symmetric = _CONFIGURATION.unpack(content)
            key = cls(int(serial), int(expires), public, base64.b64decode(signature))
            by_operator = operator.signed(_CONTEXT, key._statement, key.signature)
        except (ValueError, struct.error):
            raise MessageInvalid("it is not a signed key of a gateway") from None
        if (key_id, kem, *symmetric) != (key.key_id, *ALGORITHMS) or not by_operator:
            raise MessageInvalid(f"the gateway's key is not signed by {operator}")
        if key.expires <= now:
            raise MessageInvalid("the gateway's key has expired, or this clock is wrong")
        return key

    @property
    def _statement(self) -> bytes:
        return _ENDS.pack(self.serial, self.expires) + self.configuration


@dataclass(frozen=True, slots=True)
class _Live:
    """One of this gateway's keys with its private half."""

    published: PublishedKey
    private: X25519PrivateKey = field(repr=False)

    @classmethod
    def parse(cls, line: str) -> Self:
        private, serial, expires, signature = line.split(" ")
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(private))
        public = key.public_key().public_bytes_raw()
        signed = base64.b64decode(signature)
        return cls(PublishedKey(int(serial), int(expires), public, signed), key)

    def __str__(self) -> str:
        return f"{self.private.private_bytes_raw().hex()} {self.published.signed}"


class GatewayKeys:
    """The keys in a file of `rotate`, which is read again when it changes.

    Raises:
        ParameterError: if the file can't be read.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._stamp = (0, 0)
        self._live: Sequence[_Live] = ()
        self._read()

    def published(self) -> PublishedKey:
        """Return the key for new requests.

        Raises:
            KeyUnknown: if all keys have ended.
        """
        live = self._now_live()
        if not live:
            raise KeyUnknown
        return live[-1].published

    def open(self, sealed: bytes) -> tuple[bytes, Callable[..., bytes]]:
        """Return the message in a request, and the sealer of its response.

        Raises:
            KeyUnknown: if it is sealed for another key.
            MessageInvalid: if it can't be opened.
        """
        if len(sealed) < HEADER.size:
            raise MessageInvalid("it ends too early")
        key_id = HEADER.unpack(sealed[: HEADER.size])[0]
        for key in self._now_live():
            if key.published.key_id == key_id:
                return open_request(key.private, sealed)
        raise KeyUnknown

    @classmethod
    def rotate(
        cls,
        path: Path,
        operator: SigningKey,
        lasts: timedelta,
        clock: Callable[[], float] = time.time,
    ) -> PublishedKey:
        """Add a new key, signed by the operator, to a file, created if missing; keep the last one.

        Raises:
            ParameterError: if the file can't be read or written.
        """
        kept = cls(path, clock)._now_live()[1 - MOST_LIVE :] if path.exists() else ()
        serial = int(clock() * 1e3) if not kept else kept[-1].published.serial + 1
        private = X25519PrivateKey.generate()
        public = private.public_key().public_bytes_raw()
        unsigned = PublishedKey(serial, int(clock() + lasts.total_seconds()), public, b"")
        signature = operator.sign(unsigned._statement, _CONTEXT)
        made = PublishedKey(serial, unsigned.expires, public, signature)
        text = "".join(f"{key}\n" for key in (*kept, _Live(made, private)))
        beside = path.with_name(f"{path.name}.new")
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            beside.replace(path)
        except OSError as error:
            expected = f"a file that can be written ({error.strerror})"
            raise ParameterError("keys", str(path), expected) from error
        return made

    def _now_live(self) -> Sequence[_Live]:
        self._read()
        now = self._clock()
        return [key for key in self._live if key.published.expires > now]

    def _read(self) -> None:
        """Read the file if it has changed."""
        try:
            status = Path(self._path).stat()
            if (stamp := (status.st_mtime_ns, status.st_ino)) == self._stamp:
                return
            lines = Path(self._path).read_text(encoding="ascii").splitlines()
            self._live, self._stamp = [_Live.parse(line) for line in lines[-MOST_LIVE:]], stamp
        except (OSError, ValueError, TypeError):  # the error may quote the key
            if not self._live:  # otherwise the last readable keys stay in use
                expected = "a file that 'geoveil relay rotate' wrote"
                raise ParameterError("relay_keys", str(self._path), expected) from None
