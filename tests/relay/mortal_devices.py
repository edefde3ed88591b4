"""Devices that die by SIGKILL: each line of standard input is one run of a device.

A life is a process forked from this one. All that it does outside its own memory is a numbered
point: what it asks the issuer and the relay, before and after, what it computes of a token, and
what it writes. At the point `kill_at` it kills itself; the number of points passed is answered.
"""

import json
import os
import secrets
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from geoveil.campaign import PublicKey
from geoveil.client import Client, Limit, Policy, Timing
from geoveil.client.journal import Journal
from geoveil.gp import GeoPrivacy
from geoveil.relay import RelayTransport, TokenTransport, tokens, web

POLICY = Policy({"household income": Limit(campaign=GeoPrivacy(100, 8000, "dollar"))})
PLACES = (
    (web.WebAddress, "ask"),
    (tokens._Tokens, "_execute"),
    (tokens, "blind"),
    (tokens, "unblind"),
    (RelayTransport, "submit_reports"),
    (Journal, "record"),
    (Journal, "mark_sent"),
    (Journal, "record_outcome"),
)


def live(given: dict[str, Any], told: int) -> None:
    """Take part, until the point at which it ends."""
    passed = 0

    def point() -> None:
        nonlocal passed
        passed += 1
        os.pwrite(told, passed.to_bytes(4, "big"), 0)
        if passed == given["kill_at"]:
            os.kill(os.getpid(), signal.SIGKILL)

    def marked(of: Any, name: str) -> None:
        work: Callable[..., Any] = getattr(of, name)

        def between(*args: Any, **kwargs: Any) -> Any:
            point()
            result = work(*args, **kwargs)
            point()
            return result

        setattr(of, name, between)

    for of, name in PLACES:
        marked(of, name)
    if given.get("forgetful"):  # what a device would lose that blinds with what it does not keep
        tokens._Tokens._made = lambda _, label, message, size: secrets.token_bytes(size)  # type: ignore[method-assign]
    now = datetime.fromisoformat(given["now"])
    relay = RelayTransport(
        given["relay"], operator=PublicKey.parse(given["operator"]), clock=now.timestamp
    )
    transport = TokenTransport(
        relay, issuer=given["issuer"], credential=given["code"], state_dir=given["state_dir"]
    )
    client = Client(
        policy=POLICY,
        state_dir=given["state_dir"],
        transport=transport,
        background=False,
        release_floor_s=0,
        timing=Timing(now=lambda: now, sleep=lambda _: None),
    )
    client.fetch("income")
    departs = client.contribute("income", 90_000.0).departs
    client.flush()
    if departs is not None:  # it has its token, and comes back at its time
        now = departs
        client.flush()
    counts = client.counts()
    os._exit(0 if counts.acknowledged == 1 and not counts.pending + counts.rejected else 3)


def main() -> None:
    """Answer each line with how the life ended, and how many points it passed."""
    told = os.memfd_create("points")
    for line in sys.stdin:
        os.ftruncate(told, 0)
        child = os.fork()
        if child == 0:
            try:
                live(json.loads(line), told)
            finally:
                os._exit(4)
        _, status = os.waitpid(child, 0)
        passed = int.from_bytes(os.pread(told, 4, 0), "big")
        print(json.dumps([os.waitstatus_to_exitcode(status), passed]), flush=True)


if __name__ == "__main__":
    main()
