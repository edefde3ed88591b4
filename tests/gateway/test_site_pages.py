"""Test the pages that a gateway serves."""

import re

import httpx
import pytest

from geoveil.gateway import GatewaySettings, ledger
from geoveil.gp import ParameterError
from tests.gateway.test_site import connected, url

# Pages.


async def test_pages_load_nothing_but_their_own_files(running):
    async with httpx.AsyncClient() as client:
        page = await client.get(url(running, "/take-part/income"))
        script = await client.get(url(running, "/pages/take-part.js"))
        again = await client.get(
            url(running, "/pages/take-part.js"),
            headers={"if-none-match": script.headers["etag"]},
        )
        head = await client.head(url(running, "/take-part/"))
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert script.headers["content-encoding"] == "gzip"
    assert (again.status_code, again.content) == (304, b"")
    assert (head.status_code, head.content) == (200, b"")
    for answer in (page, script, again):
        policy = answer.headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'self'"
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    # Nothing stands in the page that its policy would not let through.
    assert not re.findall(r"<style|<script(?! type=\"module\" src=)| on[a-z]+=| style=", page.text)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', page.text)) <= {
        *("/pages/icon.svg", "/pages/take-part.css", "/pages/take-part.js"),
    }


async def test_a_map_is_sent_in_parts(running):
    path = url(running, "/pages/world.pmtiles")
    async with httpx.AsyncClient() as client:
        whole = await client.get(path)
        size = len(whole.content)
        parts = {
            of: await client.get(path, headers={"range": f"bytes={of}"})
            for of in ("0-126", f"{size - 5}-{size + 9}", f"{size}-{size + 1}", "9-3", "5-")
        }
    assert "content-encoding" not in whole.headers
    assert [one.status_code for one in parts.values()] == [206, 206, 200, 200, 200]
    assert parts["0-126"].content == whole.content[:127]
    assert parts["0-126"].headers["content-range"] == f"bytes 0-126/{size}"
    last = parts[f"{size - 5}-{size + 9}"]
    assert last.content == whole.content[-5:]
    assert last.headers["content-range"] == f"bytes {size - 5}-{size - 1}/{size}"


async def test_streets_are_a_file_of_the_operator(start_web, tmp_path):
    file = tmp_path / "city.pmtiles"
    file.write_bytes(b"PMTiles\x03" + bytes(range(100)))
    running = [await start_web(**given) for given in ({"web_streets": file}, {})]
    async with httpx.AsyncClient() as client:
        with_streets, without = [
            [
                await client.get(url(one, "/pages/streets.pmtiles"), headers=headers)
                for headers in ({"range": "bytes=8-10"}, {"range": "bytes=106-200"}, {})
            ]
            for one in running
        ]
        beyond = await client.get(
            url(running[0], "/pages/streets.pmtiles"), headers={"range": "bytes=108-110"}
        )
    assert [one.status_code for one in (*with_streets, beyond)] == [206, 206, 204, 204]
    assert [one.content for one in with_streets] == [bytes([0, 1, 2]), bytes([98, 99]), b""]
    assert with_streets[1].headers["content-range"] == "bytes 106-107/*"
    assert [one.status_code for one in without] == [204] * 3
    file.write_bytes(b"no map")
    for path in (file, tmp_path / "none"):
        with pytest.raises(ParameterError, match="web_streets"):
            GatewaySettings(server="127.0.0.1:7717", streets=path)


async def test_only_the_page_that_takes_part_may_ask_the_issuer(start_web):
    issuer = "https://issuer.example:8443/tokens"
    running = [await start_web(**given) for given in ({"web_issuer": issuer}, {})]
    async with httpx.AsyncClient() as client:
        named = [await client.get(url(one, "/pages/issuer")) for one in running]
        pages = [
            (await client.get(url(one, path))).headers["content-security-policy"]
            for one in running
            for path in ("/take-part/income", "/pages/take-part.js")
        ]
    assert [(one.status_code, one.text) for one in named] == [(200, issuer), (204, "")]
    assert ["connect-src" in one for one in pages] == [True, False, False, False]
    assert pages[0].endswith("; connect-src 'self' https://issuer.example:8443")
    for wrong in (
        "http://issuer.example",
        "issuer.example",
        "https://a;b",
        "https://a b",
        "https://",
    ):
        with pytest.raises(ParameterError, match="web_issuer"):
            GatewaySettings(server="127.0.0.1:7717", issuer=wrong)
    GatewaySettings(server="127.0.0.1:7717", issuer="http://127.0.0.1:7720/")


@pytest.mark.parametrize("path", ["/", "/take-part"])
async def test_the_front_page_is_the_list_of_surveys(running, path):
    async with httpx.AsyncClient() as client:
        led = await client.get(url(running, path))
        assert (led.status_code, led.headers["location"]) == (307, "/take-part/")
        assert (await client.get(url(running, "/take-part/"))).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/pages/", "/pages/take-part.html", "/pages/../site.py", "/pages/%2e%2e/site.py", "/x"],
)
async def test_there_are_no_other_pages(running, path):
    async with connected(running) as (reader, writer):
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")


async def test_pages_count(start_web, monkeypatch):
    monkeypatch.setattr(ledger, "_BURST", 1_000.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-4)
    running = await start_web()
    async with httpx.AsyncClient() as client:
        answers = [await client.get(url(running, "/take-part/x")) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].headers["connection"] == "close"
