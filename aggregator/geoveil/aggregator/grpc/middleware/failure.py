"""Errors become the status of a call."""

import logging
from typing import NoReturn

import grpc
import grpc.aio

from geoveil.aggregator.domain.errors import Code, public
from geoveil.aggregator.grpc.middleware.wrapping import Context
from geoveil.aggregator.grpc.status_details import trailing_metadata
from geoveil.aggregator.ops.diagnostics import traceback_without_values

_LOG = logging.getLogger(__name__)


async def fail(error: Exception, context: Context, method: str) -> NoReturn:
    """End a call with what `errors.public` permits; log a defect, without content of requests."""
    told = public(error)
    if told.code is Code.INTERNAL:
        fields = {"method": method[1:], "exception": traceback_without_values(error)}
        _LOG.error("defect", extra=fields)
    trailing = (*(context.trailing_metadata() or ()), *trailing_metadata(told))
    await context.abort(grpc.StatusCode[told.status], told.text, trailing)
