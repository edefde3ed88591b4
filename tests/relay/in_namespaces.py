"""A device, a relay and a server in network namespaces, with the traffic that each sees.

`python -m tests.relay.in_namespaces ROLE ...` is one of them, also one that leaks; `packets` reads
what a namespace captured.
"""

import http.client
import json
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from geoveil.campaign import PublicKey
from geoveil.client import Client, Limit, Policy, Timing
from geoveil.gp import GeoPrivacy
from geoveil.relay import Relay, RelayTransport, forwarding, transport, web
from geoveil.relay.encapsulation import ALGORITHMS, HEADER, seal_request

DEVICE, NEAR, FAR, SERVER = "10.71.1.2", "10.71.1.1", "10.71.2.1", "10.71.2.2"
"""Addresses of the device, the relay on either side, and the server."""
RELAY_PORT, WEB_PORT = 7719, 7718
POLICY = Policy({"household income": Limit(campaign=GeoPrivacy(10**6, 8000, "dollar"))})
_PACKET_STATISTICS = 263, 6
REPORT = b"SubmitReports"


class Packet(NamedTuple):
    """A packet of TCP over IPv4."""

    at: float
    source: str
    target: str
    ports: tuple[int, int]
    content: bytes


def packets(path: Path) -> list[Packet]:
    """Return what was captured, in order."""
    found = []
    data, at = path.read_bytes(), 0
    while at + 12 <= len(data):
        when, size = struct.unpack_from("<dI", data, at)
        frame = data[at + 12 :][:size]
        at += 12 + size
        if frame[12:14] != b"\x08\x00" or frame[23] != 6:
            continue
        ip = frame[14:]
        head, total = 4 * (ip[0] & 15), int.from_bytes(ip[2:4], "big")
        tcp = ip[head:total]
        source, target = (socket.inet_ntoa(ip[n : n + 4]) for n in (12, 16))
        near, far = struct.unpack_from(">HH", tcp)
        content = tcp[4 * (tcp[12] >> 4) :]
        found.append(Packet(when, source, target, (near, far), content))
    return found


def capture(path: str) -> None:
    """Write all packets of this namespace to a file, until standard input ends; miss none."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as taken,
        open(path, "wb") as file,
    ):
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        taken.settimeout(0.2)
        stop = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
        print("ready", flush=True)
        while not stop.is_set():
            with suppress(TimeoutError):
                frame, address = taken.recvfrom(1 << 16)
                if address[0] != "lo":
                    file.write(struct.pack("<dI", time.time(), len(frame)) + frame)
        _, missed = struct.unpack("II", taken.getsockopt(*_PACKET_STATISTICS, 8))
        assert missed == 0


def relay(leak: str = "") -> None:
    """Relay without TLS: what a relay sees once it has taken TLS off."""
    forwarding.is_loopback = lambda _: True  # type: ignore[attr-defined]
    if leak == "address":
        request: Any = http.client.HTTPConnection.request

        def naming(connection: Any, method: str, path: str, body: Any, head: Any) -> None:
            request(connection, method, path, body, head | {"X-Forwarded-For": DEVICE})

        http.client.HTTPConnection.request = naming  # type: ignore[assignment, method-assign]
    with Relay(("0.0.0.0", RELAY_PORT), f"http://{SERVER}:{WEB_PORT}") as running:
        print("ready", flush=True)
        running.serve_forever()


def devices(operator: str, order: str, leak: str = "") -> None:
    """Take part as many devices, one after the other, each in the next campaign of an order.

    Print when each began, the ids of their reports and the requests that were sealed.
    """
    web.is_loopback = lambda _: True  # type: ignore[attr-defined]
    key = PublicKey.parse(operator)
    made: dict[str, list[Any]] = {"begun": [], "ids": [], "requests": []}
    number = 0

    def seal(key_id: int, public: bytes, message: bytes) -> Any:
        if REPORT in message:
            made["requests"].append(message.rstrip(b"\0").hex())
            if leak == "size":
                message = message.rstrip(b"\0")
            elif leak == "key":
                key_id = (key_id + 1 + number) % 256  # never that of the gateway
            elif leak == "clear":
                head = HEADER.pack(key_id, *ALGORITHMS) + bytes(32)
                return head + message + bytes(16), None
        return seal_request(key_id, public, message)

    transport.seal_request = seal  # type: ignore[assignment, attr-defined]
    for campaign_id in json.loads(order):
        number = int(campaign_id[-2:])
        made["begun"].append(time.time())
        with Client(
            policy=POLICY,
            transport=RelayTransport(f"http://{NEAR}:{RELAY_PORT}/", operator=key),
            background=False,
            release_floor_s=0,
            timing=Timing(jitter=lambda: 1e9),  # no second try
        ) as client:
            client.fetch(campaign_id)
            made["ids"].append(client.contribute(campaign_id, 87_500.0).report_id)
            assert client.flush().acknowledged == (leak in ("", "address"))
            client.close(0)
    print(json.dumps(made), flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
