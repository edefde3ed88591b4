"""Requests that come compressed, unpacked up to what a request may be.

gRPC would unpack each before anything of ours sees it: four kilobytes to four megabytes, on the
thread that answers everybody.
"""

import zlib

from geoveil.gp import ParameterError

_GZIP = b"\x1f\x8b"
"""The first bytes of gzip; a protobuf message has no field of this type."""
_WITH_HEADER = 31


def is_packed(message: bytes) -> bool:
    """Return whether a request is compressed.

    Example:
        >>> import gzip
        >>> is_packed(gzip.compress(b"")), is_packed(b"a request")
        (True, False)
    """
    return message.startswith(_GZIP)


def unpacked(message: bytes, longest: int) -> bytes:
    """Return a request as it was before it was compressed; one that was not, as it is.

    Args:
        message: the bytes that came.
        longest: the most bytes that it may unpack to.

    Raises:
        ParameterError: if it is damaged, or unpacks to more.
    """
    if not is_packed(message):
        return message
    unpacking = zlib.decompressobj(wbits=_WITH_HEADER)
    try:
        content = unpacking.decompress(message, longest + 1)
    except zlib.error:
        raise ParameterError("request", f"{len(message)} bytes", "sound gzip") from None
    if len(content) > longest:
        raise ParameterError("size of a request", "more", f"at most {longest:,} bytes")
    if not unpacking.eof:
        raise ParameterError("request", f"{len(message)} bytes", "sound gzip")
    return content
