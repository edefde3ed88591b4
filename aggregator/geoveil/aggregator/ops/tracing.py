"""Spans of calls and their commits, sent to an OpenTelemetry collector.

A span holds a method, its status and times, but no value, report, token or address. The only data
from a caller is the `traceparent`.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from geoveil.gp import ParameterError

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_CALL: ContextVar["tuple[Tracer, Span] | None"] = ContextVar("span of a call", default=None)
_DEFECTS = frozenset({"UNKNOWN", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "DEADLINE_EXCEEDED"})
"""Status codes that count as the server's fault by OpenTelemetry's conventions for gRPC."""


class Tracing:
    """Sends the spans of a share of calls to `OTEL_EXPORTER_OTLP_ENDPOINT`.

    It ignores callers' sampling decisions.

    Raises:
        ParameterError: if the extra `tracing` is not installed.
    """

    def __init__(self, share: float) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.sdk.trace.sampling import TraceIdRatioBased
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            expected = "left out, or pip install 'geoveil[tracing]'"
            raise ParameterError("traces", share, expected) from None
        name = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "geoveil")}
        self._provider = TracerProvider(TraceIdRatioBased(share), Resource.create(name))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("geoveil")
        self._read = TraceContextTextMapPropagator().extract

    def begin(self, method: str, metadata: Iterable[tuple[str, Any]]) -> None:
        """Begin the span of a call of "package.Service/Method", a child of the caller's if any."""
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        sent = {key: str(value) for key, value in metadata if key == "traceparent"}
        service, _, name = method.rpartition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": name}
        parent = self._read(sent, Context())
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        _CALL.set((self._tracer, span))

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()


def end_call(code: str) -> None:
    """End the current call's span, if any, with the name of its status code."""
    if (call := _CALL.get()) is None:
        return
    import grpc
    from opentelemetry.trace import StatusCode

    _CALL.set(None)
    _, span = call
    span.set_attribute("rpc.grpc.status_code", grpc.StatusCode[code].value[0])
    if code in _DEFECTS:
        span.set_status(StatusCode.ERROR)
    span.end()


@contextmanager
def commit_span() -> Iterator[None]:
    """Add a child span for the wait and transaction, if the current call has a span."""
    if (call := _CALL.get()) is None:
        yield
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import set_span_in_context

    tracer, parent = call
    span = tracer.start_span("commit", set_span_in_context(parent, Context()))
    try:
        yield
    finally:
        span.end()
