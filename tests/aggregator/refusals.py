"""Expected errors of services, stores and servers."""

from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator import Code, ServiceError


@contextmanager
def refuses(code: Code | grpc.StatusCode) -> Iterator[Any]:
    """Expect a `ServiceError` with a code, or a call's error with a status."""
    ours = isinstance(code, Code)
    with pytest.raises(ServiceError if ours else grpc.aio.AioRpcError) as caught:
        yield caught
    error: Any = caught.value
    assert (error.code if ours else error.code()) is code


async def refused(code: Code | grpc.StatusCode, call: Awaitable[object]) -> Any:
    """Return the error of a call that is refused."""
    with refuses(code) as caught:
        await call
    return caught.value


def details_of(error: grpc.aio.AioRpcError) -> list[Any]:
    """Return the details of a call's error, after a check of their status."""
    metadata = dict(error.trailing_metadata() or ())
    status = Status.FromString(metadata["grpc-status-details-bin"])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    found = []
    for packed in status.details:
        for kind in (ErrorInfo, RetryInfo, BadRequest):
            message = kind()
            if packed.Unpack(message):
                found.append(message)
    return found
