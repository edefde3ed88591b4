"""A proxy before PostgreSQL that cuts the connection at a chosen message."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import make_url

_BIG = 1 << 20
_GOODBYE = b"X\0\0\0\4"


class CuttingProxy:
    """Forwards whole rounds: what the client sends, then what the server answers to it.

    Attributes:
        url: to be used in the place of the server's.
        rounds: forwarded since the last `arm`.
    """

    def __init__(self, url: str, folder: Path) -> None:
        parsed = make_url(url)
        port = parsed.port or parsed.query.get("port", 5432)
        self._server: str | tuple[str, int] = f"{parsed.query.get('host')}/.s.PGSQL.{port}"
        if parsed.host:
            self._server = (parsed.host, int(str(port)))
        here = parsed.set(host="", port=None).difference_update_query(["port"])
        self.url = here.update_query_dict({"host": str(folder)}).render_as_string(False)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.arm(None)
        self._spawn(self._accept)

    def arm(self, cut_at: int | None, before: Callable[[], object] | None = None) -> None:
        """Choose what happens at round `cut_at`, counted from 1.

        With `before`, that is called instead of forwarding the round. Without, the server does
        the round and its answer is lost.
        """
        self.rounds = 0
        self._cut_at = cut_at
        self._before = before

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _spawn(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._spawn(self._serve, client)

    def _connected(self) -> socket.socket:
        if isinstance(self._server, tuple):
            return socket.create_connection(self._server)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        return server

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), self._connected() as server:
            while asked := _whole(client):
                if asked == _GOODBYE:  # of an older connection, at any time
                    return
                with self._lock:
                    self.rounds += 1
                    cut = self.rounds == self._cut_at
                if cut and self._before is not None:
                    self._before()
                    return
                server.sendall(asked)
                answer = _answer(server)
                if cut or not answer:
                    return
                client.sendall(answer)


def _whole(client: socket.socket) -> bytes:
    """Return what the client sends until it waits: up to a Sync, a simple Query, or a start."""
    data = b""
    while True:
        piece = client.recv(_BIG)
        if not piece:
            return b""
        data += piece
        if _ends_round(data):
            return data


def _ends_round(data: bytes) -> bool:
    at = 0
    kind = b""
    if data[:1] == b"\0":  # the start-up message has no kind
        return len(data) >= int(struct.unpack_from(">i", data)[0])
    while at < len(data):
        kind = data[at : at + 1]
        if len(data) < at + 5:
            return False
        at += 1 + int(struct.unpack_from(">i", data, at + 1)[0])
    return at == len(data) and kind in (b"S", b"Q", b"X", b"p")


def _answer(server: socket.socket) -> bytes:
    """Return what the server sends until it is ready for the next round."""
    data = b""
    at = 0
    while True:
        piece = server.recv(_BIG)
        if not piece:
            return b""
        data += piece
        while len(data) >= at + 5:
            end = at + 1 + int(struct.unpack_from(">i", data, at + 1)[0])
            if len(data) < end:
                break
            if data[at : at + 1] == b"Z":
                return data
            at = end


@contextmanager
def cutting_proxy(url: str, folder: Path) -> Iterator[CuttingProxy]:
    """Run a proxy; its socket lies in the folder."""
    proxy = CuttingProxy(url, folder)
    try:
        yield proxy
    finally:
        proxy.close()
