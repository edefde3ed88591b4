"""Statistics of points, computed in a separate process that calls the server through its parent.

The process computes and renders the page, so that neither delays the process that takes reports.
It has no token and no connection: its parent makes each call to the server with the reader's token,
and the server treats it like any other caller's.
"""

import base64
import itertools
import math
import time
from collections.abc import Generator, Sequence
from datetime import datetime
from typing import Any

from geoveil.analyst import ServerError
from geoveil.console import points
from geoveil.console.http import (
    GatewayRequest,
    Lane,
    PageRequest,
    RefusedError,
    Response,
    Route,
    refusal_of,
)
from geoveil.console.kept import Newest
from geoveil.console.page_analyst import PageAnalyst
from geoveil.console.process import Ask, ChildProcess, Message, main
from geoveil.console.rendering import page
from geoveil.console.sessions import Session
from geoveil.gp import GeoVeilError

_PATH, _HEADLINE = "/surveys/{campaign_id}/ask", "/surveys/{campaign_id}/headline"
_LINES, _LINE_S = 1_000, 60.0
"""The most cached sentences, and the seconds after which one is stale."""
_SECRET = "not known here"  # noqa: S105 - in place of a token


class AskingPages:
    """The pages with statistics of points, and the process that makes them."""

    def __init__(self) -> None:
        self._process = ChildProcess("geoveil.console.asking")
        self._numbers = itertools.count()
        self._lines: Newest[tuple[str | None, str], tuple[float, str]] = Newest(_LINES)
        self.routes: Sequence[Route] = (
            Route("GET", _PATH, self.answered, Lane.WORK),
            Route("POST", _PATH, self.answered, Lane.WORK),
            Route("GET", _HEADLINE, self._headline, Lane.WORK),
        )

    def line(self, request: GatewayRequest, campaign_id: str) -> tuple[str, bool]:
        """Return the last summary of a survey's points ("" if none), and whether it is fresh."""
        then, text = self._lines.get((request.session.token, campaign_id), (-math.inf, ""))
        return text, time.monotonic() - then < _LINE_S

    def _headline(self, request: GatewayRequest) -> Response:
        made = self.answered(request)
        if request.text("form") == "line":
            key = request.session.token, request.named["campaign_id"]
            self._lines[key] = time.monotonic(), made.content.decode()
        return made

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def begin(self) -> None:
        """Start the process if necessary, so that the first answer comes sooner."""
        self._process.begin()

    def answered(self, request: GatewayRequest) -> Response:
        """Return the process's answer to a request."""
        streams: list[Generator[bytes, None, None]] = []

        def answering(call: Message) -> Message:
            try:
                content = _asked(request, call, streams)
                return {"content": None if content is None else _text(content)}
            except GeoVeilError as error:
                if isinstance(error, ServerError):
                    return {"error": [error.code, error.detail]}
                status, text = refusal_of(error)
                return {"status": status, "text": text}

        try:
            owner = str(next(self._numbers))
            answer = self._process.ask(owner, _message(request), answering=answering)
        finally:
            for stream in streams:
                stream.close()
        if "refused" in answer:
            raise RefusedError(answer.get("status", 500), answer["refused"]["expected"])
        for action, about in answer["notes"]:
            request.note(action, **about)
        headers = [
            (name.encode("latin-1"), text.encode("latin-1")) for name, text in answer["heads"]
        ]
        return Response(_bytes(answer["content"]), answer["kind"], answer["status"], headers)


def _asked(
    request: GatewayRequest, call: Message, streams: list[Generator[bytes, None, None]]
) -> bytes | None:
    """Make the process's call and return the server's answer; None if a stream has ended."""
    if "next" in call:
        return next(streams[call["next"]], None)
    method, content = call["method"], _bytes(call["content"])
    if call["stream"]:
        streams.append(request.analyst.answers(method, content, call["timeout_s"]))
        return b"%d" % (len(streams) - 1)
    return request.analyst.answer(method, content, call["timeout_s"])


def _message(request: PageRequest) -> Message:
    return {
        "method": request.method,
        "path": request.path,
        "query": {name: [*values] for name, values in request.query.items()},
        "fields": {name: [*values] for name, values in request.fields.items()},
        "files": {name: _text(content) for name, content in request.files.items()},
        "named": dict(request.named),
        "who": request.session.who,
        "form_token": request.session.form_token,
        "open": request.session.token is None,
        "rights": sorted(request.session.rights),
        "now": request.now.isoformat(),
        "address": request.address,
    }


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)


# In the process


class _ParentsAnalyst(PageAnalyst):
    """`PageAnalyst` whose calls the parent makes."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask

    def answer(self, method: str, request: bytes, timeout_s: float | None) -> bytes:
        return self._begun(method, request, timeout_s, stream=False)

    def answers(
        self, method: str, request: bytes, timeout_s: float | None
    ) -> Generator[bytes, None, None]:
        number = int(self._begun(method, request, timeout_s, stream=True))
        while (answer := self._ask({"next": number})).get("content", "") is not None:
            yield _replied(answer)

    def _begun(
        self, method: str, request: bytes, timeout_s: float | None, *, stream: bool
    ) -> bytes:
        message = {"method": method, "content": _text(request), "timeout_s": timeout_s}
        return _replied(self._ask({**message, "stream": stream}))


def _replied(told: Message) -> bytes:
    """Return the server's answer, or raise its error."""
    if "error" in told:
        raise ServerError(*told["error"])
    if "text" in told:
        raise RefusedError(told["status"], told["text"])
    return _bytes(told["content"])


def answer(message: Message, ask: Ask) -> Message:
    """Return the page with statistics of points, and its log entries, as JSON data.

    Args:
        message: the parent's message.
    """
    token = None if message["open"] else _SECRET
    rights = frozenset(message["rights"])
    session = Session(message["who"], token, message["form_token"], 0.0, 0.0, rights)
    notes: list[tuple[str, dict[str, object]]] = []

    def render(template: str, /, **shown: Any) -> Response:
        return page(template, session, **shown)

    def note(action: str, **about: object) -> None:
        notes.append((action, about))

    request = PageRequest(
        method=message["method"],
        path=message["path"],
        query=message["query"],
        fields=message["fields"],
        files={name: _bytes(text) for name, text in message["files"].items()},
        named=message["named"],
        session=session,
        analyst=_ParentsAnalyst(ask),
        now=datetime.fromisoformat(message["now"]),
        address=message["address"],
        render=render,
        note=note,
    )
    try:
        first = message["path"].endswith("/headline")
        made = points.headline(request) if first else points.asked(request)
    except GeoVeilError as error:
        status, text = refusal_of(error)
        return {"refused": {"expected": text}, "status": status}
    return {
        "status": made.status,
        "kind": made.kind,
        "heads": [(name.decode("latin-1"), text.decode("latin-1")) for name, text in made.headers],
        "content": _text(made.content),
        "notes": notes,
    }


if __name__ == "__main__":
    main(lambda: answer)
