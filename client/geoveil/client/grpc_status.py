"""What a failed call says beyond its code: google.rpc details, of which we read one."""

from collections.abc import Iterable
from typing import Any

from geoveil.client.errors import TransportError

_DETAILS = "grpc-status-details-bin"


def transport_error(call: Any) -> TransportError:
    """Return the client's error for a grpc call that has failed."""
    return TransportError(
        call.code().name,
        call.details() or "",
        retry_after_s=retry_after_s(call.trailing_metadata() or ()),
    )


def retry_after_s(metadata: Iterable[tuple[str, str | bytes]]) -> float | None:
    """Return the delay of google.rpc.RetryInfo, in seconds; None if there is none to be read.

    Args:
        metadata: (key, value) pairs that came after the answer. They may hold anything.

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
    for key, value in metadata:
        if key == _DETAILS and isinstance(value, bytes):
            return _delay_s(value)
    return None


def _delay_s(details: bytes) -> float | None:
    # Here, as only a call that failed, with details, needs them.
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
