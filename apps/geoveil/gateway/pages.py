"""The gateway's pages: files of this package, the same for everybody.

They contain no data of campaigns or callers: a page gets its content by calls that are open to
anyone. So there is nothing to escape here, and a page may load only its own files.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from geoveil.gateway.http import Headers, Scope, Send, answer, respond

TAKE_PART = "/take-part/"
"""The path before a campaign's id; without an id the page lists open campaigns."""
_FILES = "/pages/"
_TYPES = MappingProxyType(
    {
        ".html": b"text/html; charset=utf-8",
        ".css": b"text/css; charset=utf-8",
        ".js": b"text/javascript; charset=utf-8",
        ".json": b"application/json",
        ".svg": b"image/svg+xml",
        ".pmtiles": b"application/vnd.pmtiles",
    }
)
_MAP = _TYPES[".pmtiles"]
_STREETS, _RESULTS, _ISSUER = "streets.pmtiles", "results", "issuer"
_LONGEST_PART = 4 << 20
"""The most bytes of the streets file per response."""
_RANGE = re.compile(rb"bytes=(\d{1,12})-(\d{1,12})")
GUARDS = (
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"permissions-policy", b"geolocation=(self)"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"service-worker-allowed", b"/take-part/"),
    # Browsers revalidate each time and get 304, so an update never mixes old and new files.
    (b"cache-control", b"no-cache"),
)
"""Headers of pages and their files."""


@dataclass(frozen=True, slots=True)
class _File:
    kind: bytes
    content: bytes
    tag: bytes


class Files:
    """The files in a folder of a package, which don't change at run time."""

    def __init__(self, package: str, folder: str) -> None:
        self._files = _files(package, folder)

    async def answer(self, scope: Scope, send: Send, name: str, guards: Headers = GUARDS) -> None:
        """Answer a request for one of the files."""
        file = self._files.get(name)
        if file is None:
            await answer(send, 404, "there is no such page")
            return
        of_request = dict(scope["headers"])
        tag = of_request.get(b"if-none-match") == file.tag
        packed = file.kind != _MAP and b"gzip" in of_request.get(b"accept-encoding", b"")
        content = b"" if tag else _packed(file.content) if packed else file.content
        headers = [*guards, (b"etag", file.tag), (b"vary", b"accept-encoding")]
        status = 304 if tag else 200
        part = _RANGE.fullmatch(of_request.get(b"range", b"")) if file.kind == _MAP else None
        if part and (first := int(part[1])) < min(len(content), int(part[2]) + 1):
            content = content[first : int(part[2]) + 1]
            of = (first, first + len(content) - 1, len(file.content))
            headers.append((b"content-range", b"bytes %d-%d/%d" % of))
            status = 206
        if not tag:
            headers.append((b"content-type", file.kind))
            if packed:
                headers.append((b"content-encoding", b"gzip"))
        await respond(send, status, content, headers)


async def answer_page(
    scope: Scope, send: Send, streets: Path | None, *, results: bool, issuer: str | None
) -> None:
    """Answer a GET request; the operator's streets file may be large.

    `results` says whether this gateway shows results, which pages ask first. Pages get tokens from
    the issuer, their only other origin.
    """
    path: str = scope["path"]
    named = path.startswith(_FILES) and not path.endswith(".html")
    name = path.removeprefix(_FILES) if named else ""
    if path.startswith(TAKE_PART):
        name = "take-part.html"
    if name == _STREETS:
        await _answer_streets(scope, send, streets)
        return
    if name in (_RESULTS, _ISSUER):
        content = b"" if name == _RESULTS else (issuer or "").encode()
        status = 200 if content or (results and name == _RESULTS) else 204
        await respond(send, status, content, GUARDS)
        return
    outlines = name.endswith(".json")
    files = Files("geoveil.campaign", "data") if outlines else Files("geoveil.gateway", "files")
    (policy, guarded), *others = GUARDS
    if issuer is not None and path.startswith(TAKE_PART):
        guarded += b"; connect-src 'self' " + "/".join(issuer.split("/")[:3]).encode()
    await files.answer(scope, send, name, [(policy, guarded), *others])


async def _answer_streets(scope: Scope, send: Send, path: Path | None) -> None:
    """Answer with a file's range, or 204 if it is absent or no range was requested."""
    part = _RANGE.fullmatch(dict(scope["headers"]).get(b"range", b""))
    headers, content = [*GUARDS], b""
    if path is not None and part is not None:
        first = int(part[1])
        length = min(int(part[2]) + 1 - first, _LONGEST_PART)
        content = await asyncio.to_thread(_part, path, first, length)
        if content:
            span = b"bytes %d-%d/*" % (first, first + len(content) - 1)
            headers += [(b"content-type", _MAP), (b"content-range", span)]
    await respond(send, 206 if content else 204, content, headers)


def _part(path: Path, first: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(first)
        return file.read(max(0, length))


@cache
def _files(package: str, folder: str) -> Mapping[str, _File]:
    files = {}
    for resource in resources.files(package).joinpath(folder).iterdir():
        kind = _TYPES.get(resource.name[resource.name.rfind(".") :])
        if kind is not None:
            content = resource.read_bytes()
            tag = b'"%b"' % hashlib.sha256(content).hexdigest()[:32].encode()
            files[resource.name] = _File(kind, content, tag)
    return MappingProxyType(files)


@cache
def _packed(content: bytes) -> bytes:
    """Return a file's compressed bytes; maps are already compressed."""
    return gzip.compress(content, mtime=0)
