"""Test nginx as a relay, with the lines of docs/operating.md."""

import asyncio
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from geoveil.relay.web import WebAddress
from tests.aggregator.conftest import Published
from tests.relay.conftest import DEVICE, Tap, Way
from tests.relay.test_through_a_relay import take_part
from tests.test_pages import blocks_of, free_port

ROOT = Path(__file__).parents[2]
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin")


def lines(gateway: int, listen: int) -> str:
    """Return the lines of the page, without TLS and for addresses of this machine."""
    (block,) = [b.text for b in blocks_of(ROOT / "docs" / "operating.md") if "ohttp" in b.text
                and b.kind == "nginx"]  # fmt: skip
    plain = re.sub(r"(?m)^ *(proxy_)?ssl_.*\n", "", block)
    for old, new in (
        ("https://collector", "http://collector"),
        ("collector.example:443", f"127.0.0.1:{gateway}"),
        ("443 ssl", f"127.0.0.1:{listen}"),
    ):
        assert old in plain
        plain = plain.replace(old, new)
    return plain


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.deep(keep=0)
async def test_nginx_drops_all_but_the_sealed_message(
    way: Callable[..., Awaitable[Way]], publish: Callable[..., Published], tmp_path: Path
) -> None:
    running, port = await way(), free_port()
    campaign = publish(queries=1)
    await running.web.wire.create(campaign)
    paths = "".join(f"{name}_temp_path {tmp_path};" for name in
                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
    config = tmp_path / "nginx.conf"
    config.write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}}\n"
        f"http {{ {paths}\n{lines(running.far.port, port)} }}"
    )
    near = Tap(("127.0.0.1", port))
    assert NGINX is not None
    command = [NGINX, "-c", config, "-p", tmp_path]
    process = await asyncio.to_thread(subprocess.Popen, command)
    try:
        url = f"http://127.0.0.1:{near.port}/reports"
        for _ in range(100):
            try:
                await asyncio.to_thread(
                    take_part, running, campaign, "device", running.transport(relay=url)
                )
                break
            except ConnectionError:
                await asyncio.sleep(0.05)
        end = time.monotonic() + 10
        preflight = WebAddress("relay", url).ask("OPTIONS", b"", {}, end)
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 10)
        near.close()
    assert await running.counted(campaign) == 1
    assert near.callers >= {DEVICE}
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, "*")
    assert running.far.callers == {"127.0.0.1"}
    sent = b"".join(running.far.sent)
    heads = re.findall(rb"(?:GET|POST) \S+ HTTP/1.1\r\n(?:\S+: [^\r]*\r\n)*\r\n", sent)
    assert len(heads) == 3
    names = {name.lower() for head in heads for name in re.findall(rb"\n(\S+):", head)}
    assert names == {b"host", b"content-type", b"content-length"}
    assert DEVICE.encode() not in sent
