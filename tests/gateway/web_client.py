"""Calls in every protocol of a server, in a common form, for comparisons."""

import base64
import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import grpc
import grpc.aio
import httpx
from google.protobuf import descriptor_pool, json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

COLLECTOR = "/geoveil.proto.v1.Collector/"
ANALYST = "/geoveil.proto.v1.Analyst/"
DETAILS = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.RetryInfo,
    error_details_pb2.BadRequest,
)


@dataclass(frozen=True)
class Outcome:
    """What a caller learns of a call."""

    code: str
    text: str = ""
    details: tuple[Message, ...] = ()
    answers: tuple[Message, ...] = ()

    @property
    def reason(self) -> str:
        """That of google.rpc.ErrorInfo; empty if there is none."""
        return next((str(getattr(one, "reason", "")) for one in self.details), "")


class GrpcCaller:
    """Calls over gRPC."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        await self._channel.close()

    async def call(self, path: str, request: bytes, **headers: str) -> Outcome:
        metadata = [(key.replace("_", "-"), value) for key, value in headers.items()]
        found: list[bytes] = []
        try:
            stream = self._channel.unary_stream(path)(request, metadata=metadata, timeout=30)
            async for answer in stream:
                found.append(answer)  # noqa: PERF401 - those before an error, too
        except grpc.aio.AioRpcError as error:
            packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
            return Outcome(
                error.code().name,
                error.details() or "",
                _details(Status.FromString(packed)) if isinstance(packed, bytes) else (),
                _answers(path, found),
            )
        return Outcome("OK", answers=_answers(path, found))


class WebCaller:
    """Calls over HTTP.

    Args:
        web: "host:port".
        kind: connect or grpc-web.
        in_json: whether messages are in JSON.
    """

    def __init__(self, web: str, kind: str, *, in_json: bool) -> None:
        self._client = httpx.AsyncClient(base_url=f"http://{web}", timeout=30)
        self._kind = kind
        self._in_json = in_json

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def call(self, path: str, request: bytes, **headers: str) -> Outcome:
        method: Any = _method(path)
        content, codec = request, "proto"
        if self._in_json:
            codec = "json"
            try:
                message = GetMessageClass(method.input_type).FromString(request)
            except (AttributeError, DecodeError):
                content = request  # no JSON either
            else:
                content = json_format.MessageToJson(message).encode()
        streams = bool(getattr(method, "server_streaming", False))
        framed = streams or self._kind == "grpc-web"
        if self._kind == "grpc-web":
            headers["content_type"] = f"application/grpc-web+{codec}"
        else:
            headers["content_type"] = f"application/{'connect+' if streams else ''}{codec}"
        if framed:
            content = b"\0" + len(content).to_bytes(4, "big") + content
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        response = await self._client.post(path, content=content, headers=sent)
        assert response.http_version == "HTTP/1.1"
        if framed:
            return self._of_frames(path, response.content)
        if response.status_code != 200:
            return _of_error(path, response.json(), ())
        return Outcome("OK", answers=self._read(path, [response.content]))

    def _of_frames(self, path: str, content: bytes) -> Outcome:
        found: list[bytes] = []
        while True:
            flags, size = content[0], int.from_bytes(content[1:5], "big")
            frame, content = content[5 : 5 + size], content[5 + size :]
            if not flags:
                found.append(frame)
                continue
            assert content == b""  # the last one
            answers = self._read(path, found)
            if flags == 0x02:
                error = json.loads(frame).get("error")
                return _of_error(path, error, answers) if error else Outcome("OK", "", (), answers)
            assert flags == 0x80
            fields = dict(line.split(": ", 1) for line in frame.decode().splitlines())
            code = next(
                one for one in grpc.StatusCode if one.value[0] == int(fields["grpc-status"])
            )
            packed = fields.get("grpc-status-details-bin")
            details = _details(Status.FromString(_unpadded(packed))) if packed else ()
            return Outcome(code.name, unquote(fields.get("grpc-message", "")), details, answers)

    def _read(self, path: str, found: list[bytes]) -> tuple[Message, ...]:
        if not found or not self._in_json:
            return _answers(path, found)
        kind = GetMessageClass(_method(path).output_type)
        return tuple(json_format.Parse(one, kind()) for one in found)


def _of_error(path: str, error: dict[str, Any], answers: tuple[Message, ...]) -> Outcome:
    code = {"canceled": "CANCELLED"}.get(error["code"], error["code"].upper())
    status = Status()
    for detail in error.get("details", []):
        packed = status.details.add()
        packed.type_url = f"type.googleapis.com/{detail['type']}"
        packed.value = _unpadded(detail["value"])
    return Outcome(code, error["message"], _details(status), answers)


def _details(status: Status) -> tuple[Message, ...]:
    found = []
    for packed in status.details:
        (kind,) = (one for one in DETAILS if packed.Is(one.DESCRIPTOR))
        message = kind()
        packed.Unpack(message)
        found.append(message)
    return tuple(found)


def _answers(path: str, found: list[bytes]) -> tuple[Message, ...]:
    return tuple(GetMessageClass(_method(path).output_type).FromString(one) for one in found)


def _method(path: str) -> Any:
    try:
        return descriptor_pool.Default().FindMethodByName(path[1:].replace("/", "."))
    except KeyError:
        return None


def _unpadded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4))
