"""Errors as google.rpc.Status, in the trailing metadata where gRPC's libraries look for it."""

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator.domain.errors import PublicError

DOMAIN = "geoveil"
_KEY = "grpc-status-details-bin"


def trailing_metadata(told: PublicError) -> tuple[tuple[str, bytes], ...]:
    """Return what goes with the status of an error.

    ErrorInfo with the code; RetryInfo if the request may be sent again; BadRequest if a field is
    at fault.

    Example:
        >>> from geoveil.aggregator.domain.errors import Code
        >>> error = PublicError(Code.QUEUE_FULL, "full", retry_after_s=1.0)
        >>> ((key, value),) = trailing_metadata(error)
        >>> [detail.TypeName() for detail in Status.FromString(value).details]
        ['google.rpc.ErrorInfo', 'google.rpc.RetryInfo']
    """
    details: list[Message] = [ErrorInfo(reason=told.code.name, domain=DOMAIN)]
    if told.retry_after_s is not None:
        retry = RetryInfo()
        retry.retry_delay.FromMilliseconds(round(1000 * told.retry_after_s))
        details.append(retry)
    if told.violation is not None:
        field, permitted = told.violation
        of_field = BadRequest.FieldViolation(field=field, description=f"must be {permitted}")
        details.append(BadRequest(field_violations=[of_field]))
    status = Status(code=grpc.StatusCode[told.status].value[0], message=told.text)
    for detail in details:
        status.details.add().Pack(detail)
    return ((_KEY, status.SerializeToString()),)
