"""Connections of devices and analysts to a server: TLS, channels, and errors of failed calls.

This module does not load gRPC before a channel is opened.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from geoveil.campaign.text import visible
from geoveil.gp import GeoVeilError, ParameterError

if TYPE_CHECKING:
    import grpc
    import grpc.aio

RETRYABLE = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
"""Status codes after which a retry may succeed, as in OTLP; see `CallError`."""
_DETAILS = "grpc-status-details-bin"
_MOST_CHARACTERS = 300
_SCHEMES = ("unix", "unix-abstract", "dns", "ipv4", "ipv6", "xds", "vsock")
"""Schemes of gRPC targets that are not hosts."""
_NO_PROXY = (
    # http_proxy, https_proxy, grpc_proxy ...
    ("grpc.enable_http_proxy", 0),
    # ... and GRPC_ADDRESS_HTTP_PROXY, which gRPC reads despite the option above.
    ("grpc.address_http_proxy_enabled_addresses", ""),
)


class TLSRequiredError(GeoVeilError, ValueError):
    """A target needs TLS: without it anybody on the way could read and change messages."""

    def __str__(self) -> str:
        return (
            f"{self.args[0]!r} is not on this machine, so it needs TLS: give tls=TLS(), or"
            " tls=TLS(root_certificates=...) for a private authority; tls=TLS(insecure=True) sends"
            " in the clear"
        )


class CallError(GeoVeilError):
    """A call to the server failed.

    Attributes:
        code: the name of a gRPC status code, for example "UNAVAILABLE".
        detail: the text from the server or the network.
        retry_after_s: the server's requested delay, 0 to 3600 seconds; None if there is none.
        answered: whether the server itself, not the network, failed the call.
    """

    def __init__(
        self,
        code: str,
        detail: str = "",
        *,
        retry_after_s: float | None = None,
        answered: bool = True,
    ) -> None:
        super().__init__(code, detail)
        self.code = code
        self.detail = detail
        # In this order NaN becomes 0. No server may silence a client permanently.
        self.retry_after_s = None if retry_after_s is None else min(max(0.0, retry_after_s), 3600.0)
        self.answered = answered

    @property
    def retryable(self) -> bool:
        """Whether a retry of the same request may succeed, by OTLP's table.

        After RESOURCE_EXHAUSTED only if the server gave a delay, since a retry would otherwise
        make things worse.

        Example:
            >>> CallError("UNAVAILABLE").retryable, CallError("INTERNAL").retryable
            (True, False)
            >>> CallError("RESOURCE_EXHAUSTED").retryable
            False
            >>> CallError("RESOURCE_EXHAUSTED", retry_after_s=2.0).retryable
            True
        """
        if self.code == "RESOURCE_EXHAUSTED":
            return self.retry_after_s is not None
        return self.code in RETRYABLE

    def __str__(self) -> str:
        return f"{self.code}: {one_line(self.detail)}" if self.detail else self.code


def one_line(text: str) -> str:
    """Return a server's text as one short, printable line."""
    cut = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
    return visible(cut)


_PEM = ("root_certificates", "certificate_chain", "private_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """How the app authenticates the server, and how the server authenticates this app.

    Raises:
        ParameterError: if a field has the wrong type, the chain or its key is missing, or fields
            are given for a connection without TLS. The error does not quote keys.
    """

    root_certificates: bytes | None = None
    """The trusted authorities in PEM; None for gRPC's own."""
    certificate_chain: bytes | None = None
    """This app's own certificate and those up to its authority in PEM, if servers require it."""
    private_key: bytes | None = field(default=None, repr=False)
    """The certificate's private key in PEM."""
    server_name: str | None = None
    """The name in the server's certificate if it is not the target's host, such as for an IP
    address or a tunnel."""
    insecure: bool = False
    """Send in the clear: anybody on the way can read reports and withhold campaigns. Perturbation
    still protects the values, and the policy still holds, but nothing else does."""

    def __post_init__(self) -> None:
        for name in _PEM:
            pem = getattr(self, name)
            if pem is not None and not (isinstance(pem, bytes) and b"-----BEGIN " in pem):
                shown = "other bytes" if isinstance(pem, bytes) else type(pem).__name__
                raise ParameterError(name, shown, "bytes in PEM format, or None")
        if self.server_name is not None and (
            not isinstance(self.server_name, str) or not self.server_name
        ):
            raise ParameterError("server_name", self.server_name, "a name, or None")
        _, chain, key = _PEM
        together(chain, self.certificate_chain, key, self.private_key)
        for name in (*_PEM, "server_name"):
            if self.insecure and getattr(self, name) is not None:
                raise ParameterError("insecure", True, f"False if {name} is given")


def tls_for(
    target: str, tls: TLS | None, missing: type[TLSRequiredError] = TLSRequiredError
) -> TLS:
    """Return `tls`, or no encryption if it is None and the target is on this machine.

    Raises:
        ParameterError: if the target is not a gRPC address, or `tls` not a TLS.
        TLSRequiredError: or `missing`, if `tls` is None for another machine.
    """
    if not isinstance(target, str) or not target or target.startswith(("http://", "https://")):
        expected = 'HOST:PORT, for example "collector.example:443", without http://'
        raise ParameterError("target", target, expected)
    port = _port(target)
    if port is None and target.partition(":")[0] not in _SCHEMES:
        port = ""  # gRPC would use 443
    # gRPC would connect to port 34463 for 99999.
    if port is not None and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65_535):
        raise ParameterError("target", target, "HOST:PORT with a port from 1 to 65,535")
    if tls is not None:
        if not isinstance(tls, TLS):
            raise ParameterError("tls", type(tls).__name__, "a TLS, or None")
        return tls
    if not is_local(target):
        raise missing(target)
    return TLS(insecure=True)


def is_local(target: str) -> bool:
    """Return whether a gRPC target can only be this machine.

    Example:
        >>> [is_local(t) for t in ("localhost:1", "127.0.0.1:1", "[::1]:1", "unix:/run/a.sock")]
        [True, True, True, True]
        >>> [is_local(t) for t in ("example.org:443", "localhost.example.org:1", "0.0.0.0:1")]
        [False, False, False]
    """
    scheme, colon, rest = target.partition(":")
    if scheme in ("unix", "unix-abstract"):
        return True
    if scheme in ("dns", "ipv4", "ipv6") and colon:
        # "dns://authority/host" names its own name server, so it is not local.
        authority, _, path = rest.removeprefix("//").partition("/")
        if rest.startswith("//"):
            return not authority and is_local(path)
        return all(is_local(address) for address in rest.split(","))
    return is_loopback(target if _port(target) is None else target.rpartition(":")[0])


def is_loopback(host: str) -> bool:
    """Return whether only its own machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def together(name: str, given: object, other: str, beside: object) -> None:
    """Refuse one of two parameters without the other.

    Raises:
        ParameterError: if only one is not None.
    """
    if (given is None) != (beside is None):
        missing, there = (name, other) if given is None else (other, name)
        raise ParameterError(missing, None, f"given together with {there}")


def address_to_listen_on(name: str, text: str) -> tuple[str, int]:
    """Return the host and port of HOST:PORT; for port 0 the operating system chooses one.

    Args:
        name: of the parameter.
        text: an IPv6 address is in brackets.

    Raises:
        ParameterError: if the text is no such address.

    Example:
        >>> address_to_listen_on("web", "[::1]:7718")
        ('::1', 7718)
    """
    host, _, port = str(text).rpartition(":")
    sound = port.isascii() and port.isdigit() and int(port) <= 65_535
    bare = host.startswith("[") == host.endswith("]") == (":" in host)
    if not (isinstance(text, str) and sound and bare and host.isprintable() and host):
        raise ParameterError(name, text, 'HOST:PORT, such as "127.0.0.1:7718"')
    return host.strip("[]"), int(port)


def _port(target: str) -> str | None:
    """Return the port of HOST:PORT as text; None if it is missing or only gRPC can parse it.

    Example:
        >>> [_port(t) for t in ("localhost:1", "[::1]:https", "::1", "localhost", "unix:a.sock")]
        ['1', 'https', None, None, None]
    """
    host, colon, port = target.rpartition(":")
    if not colon or "/" in target or "," in target or host in _SCHEMES:
        return None
    return port if ":" not in host or host[-1] == "]" else None


def open_channel(
    target: str, tls: TLS | None = None, options: Sequence[tuple[str, int | str]] = ()
) -> "grpc.Channel":
    """Return a direct gRPC channel to a server, never through the environment's proxy.

    A proxy could read or change plaintext; to use one, name it as the target.

    Args:
        target: a gRPC address, for example "collector.example:443".
        tls: optional only for targets on this machine.
        options: further channel arguments of gRPC.

    Raises:
        ParameterError: if the target is not a gRPC address.
        TLSRequiredError: if the target is another machine and `tls` is None.

    Example:
        >>> with open_channel("127.0.0.1:7717") as channel:
        ...     type(channel).__name__
        'Channel'
    """
    import grpc

    credentials, arguments = _secured(target, tls, options)
    if credentials is None:
        return grpc.insecure_channel(target, options=arguments)
    return grpc.secure_channel(target, credentials, options=arguments)


def open_async_channel(
    target: str, tls: TLS | None = None, options: Sequence[tuple[str, int | str]] = ()
) -> "grpc.aio.Channel":
    """Return a channel for asyncio, like `open_channel`."""
    import grpc.aio

    credentials, arguments = _secured(target, tls, options)
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=arguments)
    return grpc.aio.secure_channel(target, credentials, options=arguments)


def _secured(
    target: str, tls: TLS | None, options: Sequence[tuple[str, int | str]]
) -> "tuple[grpc.ChannelCredentials | None, list[tuple[str, int | str]]]":
    """Return a channel's credentials, None without TLS, and arguments."""
    import grpc

    tls = tls_for(target, tls)
    arguments = [*options, *_NO_PROXY]
    if tls.insecure:
        return None, arguments
    if tls.server_name is not None:
        arguments.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(
        tls.root_certificates, tls.private_key, tls.certificate_chain
    )
    return credentials, arguments


_Failure = TypeVar("_Failure", bound=CallError)


def failed(call: Any, kind: type[_Failure]) -> _Failure:
    """Return an error of the given class for a failed gRPC call."""
    metadata = call.trailing_metadata() or ()
    code, detail = call.code().name, call.details() or ""
    # Errors of a geoveil server come with details.
    answered = any(key == _DETAILS for key, _ in metadata)
    if code == "DEADLINE_EXCEEDED" and (not detail or "Deadline Exceeded" in detail):
        detail = "no answer came in time"  # gRPC's own text only repeats the code
    return kind(code, detail, retry_after_s=retry_after_s(metadata), answered=answered)


async def result_of(call: Any, kind: type[_Failure]) -> Any:
    """Return the answer to a call that was started as a future; raise its failure as `kind`.

    Futures are those of a blocking channel: grpc.aio has one engine for the whole process, which
    serves one event loop. Cancelling the task cancels the call.
    """
    import asyncio

    import grpc

    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        """Resume the waiting task, from one of gRPC's threads."""
        with suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(ended.set)

    call.add_done_callback(wake)
    try:
        await ended.wait()
    finally:
        call.cancel()  # without effect on an ended call
    if call.code() is not grpc.StatusCode.OK:
        raise failed(call, kind) from call
    return call.result()


def retry_after_s(metadata: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Return the seconds of google.rpc.RetryInfo in untrusted metadata; None without one.

    Example:
        >>> from google.rpc.error_details_pb2 import RetryInfo
        >>> from google.rpc.status_pb2 import Status
        >>> status, info = Status(), RetryInfo()
        >>> info.retry_delay.FromMilliseconds(1500)
        >>> status.details.add().Pack(info)
        >>> retry_after_s([("grpc-status-details-bin", status.SerializeToString())])
        1.5
        >>> retry_after_s([("grpc-status-details-bin", b"rubbish")])
    """
    details = dict(metadata).get(_DETAILS)
    if not isinstance(details, bytes):
        return None
    # Imported here, since only failed calls with details need them.
    from google.protobuf.message import DecodeError
    from google.rpc.error_details_pb2 import RetryInfo
    from google.rpc.status_pb2 import Status

    info = RetryInfo()
    try:
        if any(detail.Unpack(info) for detail in Status.FromString(details).details):
            delay = info.retry_delay
            return float(delay.seconds + delay.nanos * 1e-9)
    except DecodeError:
        pass
    return None
