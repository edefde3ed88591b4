"""Test access to the console: sessions, forms, origins, tokens, and the log of actions."""

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.console import sessions
from geoveil.console.http import RefusedError, form_of
from geoveil.console.sessions import COOKIE, Sessions
from geoveil.gateway import ledger
from geoveil.gp import ParameterError

from .served import form_token, served, survey


@pytest.fixture
async def guarded(tmp_path):
    """A console that asks for tokens."""
    async with served(tmp_path, tokens=True) as made:
        await made.publish(survey())
        yield made


async def page(client: httpx.AsyncClient, path: str = "/console/") -> httpx.Response:
    return await client.get(path)


@pytest.mark.deep
async def test_nobody_sees_a_page_without_a_session(guarded):
    async with guarded.browser() as client:
        for path in ("/", "/surveys/income", "/surveys/income/estimate.csv", "/none"):
            answer = await page(client, f"/console{path}")
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/console/sign-in?next=%2F")
            assert "income" not in answer.text
        answer = await client.get("/console/events?campaign=income")
        assert answer.status_code == 303
        assert (await client.post("/console/sign-out")).status_code == 401


async def test_a_token_opens_a_session_and_a_wrong_one_does_not(guarded):
    async with guarded.browser() as client:
        for wrong in ("", "geoveil_x", guarded.token[:-1] if guarded.token else ""):
            answer = await client.post("/console/sign-in", data={"token": wrong, "next": "/"})
            assert answer.status_code == 403
            assert "unknown" in answer.text
            assert "set-cookie" not in answer.headers
        told = {"token": guarded.token or "", "next": "/surveys/income"}
        answer = await client.post("/console/sign-in", data=told)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/surveys/income")
        told_of_cookie = answer.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/console"):
            assert part in told_of_cookie
        assert guarded.token not in told_of_cookie
        assert "Secure" not in told_of_cookie
        assert "Household income" in (await page(client)).text
        assert "alice" in (await page(client)).text
        behind_tls = {"origin": guarded.base.replace("http:", "https:")}
        answer = await client.post("/console/sign-in", data=told, headers=behind_tls)
        assert "; Secure" in answer.headers["set-cookie"]


@pytest.mark.deep
async def test_pages_and_tries_to_sign_in_are_limited(guarded, monkeypatch):
    """By what they cost, as tokens are too long to be found: wrong tries lock nobody else out."""
    monkeypatch.setattr(ledger, "_BURST", 50_000.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-9)
    guarded.gateway.ledger.account("127.0.0.1").credit = 50_000.0
    async with guarded.browser() as client:
        codes = []
        for _ in range(12):
            answer = await client.post("/console/sign-in", data={"token": "x", "next": "/"})
            codes.append(answer.status_code)
    assert codes[:6] == [403] * 6
    assert codes[-1] == 429


@pytest.mark.deep
async def test_behind_a_proxy_tries_to_sign_in_lock_nobody_else_out(guarded, monkeypatch):
    """Not even the right token helps whoever tried too often, until their address has earned more.

    Of those behind a proxy that is not named, all pay together: this is the control.
    """
    monkeypatch.setattr(ledger, "_BURST", 50_000.0)
    monkeypatch.setattr(ledger, "_SHARE", 1e-9)
    accounts = guarded.gateway.ledger
    for named in (True, False):
        monkeypatch.setattr(accounts, "_proxies", {bytes([127, 0, 0, 1])} if named else set())
        accounts.account("127.0.0.1").credit = float("inf") if named else 50_000.0
        async with guarded.browser() as client:

            async def sign_in(address: str, token: str, client: httpx.AsyncClient = client) -> int:
                behind = {"x-forwarded-for": address}
                told = {"token": token, "next": "/"}
                try:
                    answer = await client.post("/console/sign-in", data=told, headers=behind)
                except httpx.TransportError:  # hung up on
                    return 429
                return answer.status_code

            for _ in range(12):
                last = await sign_in("192.0.2.1", "x")
            assert last == await sign_in("192.0.2.1", guarded.token or "") == 429
            others = [await sign_in(f"198.51.100.{n}", guarded.token or "") for n in range(3)]
        assert others == [303 if named else 429] * 3


@pytest.mark.deep
async def test_forms_of_strangers_are_short(guarded):
    async with guarded.browser() as client:
        told = {"token": "x" * 5_000, "next": "/"}
        assert (await client.post("/console/sign-in", data=told)).status_code == 413
        files = {"token": ("name", b"x" * 100)}
        assert (await client.post("/console/sign-in", files=files)).status_code == 415
        sent = {"content": b"x" * 5_000, "headers": {"content-type": "application/octet-stream"}}
        assert (await client.post("/console/uploads", **sent)).status_code == 413
    async with guarded.signed_in() as client:
        sent["headers"]["x-form-token"] = form_token((await page(client)).text)
        assert (await client.post("/console/uploads", **sent)).status_code == 200
        sent["headers"]["x-form-token"] = "x"
        assert (await client.post("/console/uploads", **sent)).status_code == 403


@pytest.mark.deep(keep=0)
async def test_a_cookie_is_found_wherever_it_stands(guarded):
    async with guarded.signed_in() as client:
        cookie = client.cookies[COOKIE]
    backslashes = "\\" * 15_000
    for text in (
        f"a=1; {COOKIE}={cookie}",
        f'x="{backslashes}; {COOKIE}={cookie};',
        f"{COOKIE}={cookie}",
    ):
        async with guarded.browser(cookie=text) as client:
            assert (await page(client)).status_code == 200, text[:40]
    for text in (backslashes, f"{COOKIE}", f"x{COOKIE}={cookie}", "=", ";;;"):
        async with guarded.browser(cookie=text) as client:
            assert (await page(client)).status_code == 303, text[:40]


@pytest.mark.deep
async def test_a_cookie_is_worth_nothing_after_signing_out(guarded):
    async with guarded.signed_in() as client:
        stolen = client.cookies[COOKIE]
        token = form_token((await page(client)).text)
        answer = await client.post("/console/sign-out", data={"form_token": token})
        assert answer.status_code == 303
        assert COOKIE not in client.cookies
    async with guarded.browser(cookie=f"{COOKIE}={stolen}") as thief:
        assert (await page(thief)).status_code == 303


@pytest.mark.deep
async def test_a_revoked_token_ends_what_its_session_may_do(guarded, tmp_path):
    tokens = TokenFile(tmp_path / "tokens.json")
    bob = tokens.create("bob", [Scope.LIST, Scope.ESTIMATE], None)
    async with guarded.signed_in(bob) as client:
        assert (await page(client)).status_code == 200
        tokens.revoke("bob")
        assert (await page(client)).status_code == 401
        assert (await page(client, "/console/surveys/income")).status_code == 401
        assert (await page(client, "/console/events?campaign=income")).status_code == 401


@pytest.mark.deep
async def test_scopes_and_campaigns_of_a_token_hold(guarded, tmp_path):
    await guarded.publish(survey("other", title="Another title"))
    tokens = TokenFile(tmp_path / "tokens.json")
    lists = tokens.create("lists", [Scope.LIST], None)
    mine = tokens.create("mine", [Scope.LIST, Scope.ESTIMATE], None, ["income"])
    async with guarded.signed_in(lists) as client:
        assert (await page(client)).status_code == 200
        assert (await page(client, "/console/surveys/income")).status_code == 403
        assert (await page(client, "/console/surveys/income/estimate.csv")).status_code == 403
        assert (await page(client, "/console/events?campaign=income")).status_code == 403
    async with guarded.signed_in(mine) as client:
        assert "Another title" not in (await page(client)).text
        assert (await page(client, "/console/surveys/income")).status_code == 200
        assert (await page(client, "/console/surveys/other")).status_code == 403
        assert (await page(client, "/console/events?campaign=other")).status_code == 403


async def test_a_session_that_somebody_else_fixed_is_not_used(guarded):
    fixed = "A" * 43
    async with guarded.browser(cookie=f"{COOKIE}={fixed}") as victim:
        told = {"token": guarded.token or "", "next": "/"}
        answer = await victim.post("/console/sign-in", data=told)
        given = answer.headers["set-cookie"].partition("=")[2].partition(";")[0]
        assert given != fixed
    async with guarded.browser(cookie=f"{COOKIE}={fixed}") as thief:
        assert (await page(thief)).status_code == 303
    # A real session of the thief's, planted in the victim's browser, ends when the victim signs in.
    async with guarded.signed_in() as thief:
        planted = thief.cookies[COOKIE]
        async with guarded.browser(cookie=f"{COOKIE}={planted}") as victim:
            told = {"token": guarded.token or "", "next": "/"}
            assert (await victim.post("/console/sign-in", data=told)).status_code == 303
        assert (await page(thief)).status_code == 303


@pytest.mark.deep
async def test_forms_from_elsewhere_are_refused(guarded):
    async with guarded.signed_in() as client:
        token = form_token((await page(client)).text)
        for headers in (
            {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
            {"origin": guarded.base, "sec-fetch-site": "cross-site"},
            {"origin": guarded.base, "sec-fetch-site": "same-site"},
            {"origin": "null"},
        ):
            answer = await client.post(
                "/console/sign-out", data={"form_token": token}, headers=headers
            )
            assert answer.status_code == 403, headers
        for wrong in ("", "x", token[:-1]):
            answer = await client.post("/console/sign-out", data={"form_token": wrong})
            assert answer.status_code == 403
        assert (await page(client)).status_code == 200
        sent = b'{"form_token": "x"}'
        answer = await client.post(
            "/console/sign-out", content=sent, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 415
    del client
    async with guarded.browser() as client:
        client.headers.pop("origin")
        client.headers.pop("sec-fetch-site")
        answer = await client.post("/console/sign-in", data={"token": guarded.token or ""})
        assert answer.status_code == 403


async def test_pages_elsewhere_can_load_nothing(guarded):
    async with guarded.signed_in() as client:
        for where in ("image", "script", "empty", "iframe"):
            headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": where}
            answer = await client.get("/console/surveys/income/estimate.csv", headers=headers)
            assert answer.status_code == 403
        answer = await page(client)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example",
        "https://evil.example",
        "\\evil",
        "/sign-in",
        "/a\r\nset-cookie: x",
        "/\u2028",
    ],
)
async def test_signing_in_leads_nowhere_else(guarded, wanted):
    async with guarded.browser() as client:
        told = {"token": guarded.token or "", "next": wanted}
        answer = await client.post("/console/sign-in", data=told)
        assert answer.headers["location"].startswith("/console/")
        assert "set-cookie: x" not in str(answer.headers)


async def test_actions_are_logged_by_the_name_of_the_token(guarded, caplog):
    caplog.set_level(logging.INFO, "geoveil")
    async with guarded.signed_in() as client:
        await client.get("/console/surveys/income/estimate.csv")
    told = [vars(one) for one in caplog.records if one.message == "console"]
    assert [(one["who"], one["action"]) for one in told] == [
        ("alice", "sign in"),
        ("alice", "download"),
    ]
    calls = [vars(one) for one in caplog.records if one.message == "call"]
    assert any(one.get("token") == "alice" for one in calls)
    assert guarded.token not in str([vars(one) for one in caplog.records])


def test_sessions_end_by_themselves_and_are_few():
    now = [0.0]
    kept = Sessions(clock=lambda: now[0], most=3)
    cookie = kept.begin("alice", "token")
    for _ in range(20):
        now[0] += sessions.IDLE_S - 1
        used = kept.find(cookie)
        assert (used is not None) == (now[0] <= sessions.LONGEST_S)
    assert len(kept) == 0
    idle = kept.begin("alice", "token")
    now[0] += sessions.IDLE_S / 2
    assert kept.find(idle, use=False) is not None
    now[0] += sessions.IDLE_S / 2 + 1
    assert kept.find(idle) is None
    cookies = [kept.begin(f"{number}", None) for number in range(5)]
    assert [kept.find(one) is not None for one in cookies] == [False, False, True, True, True]
    assert "token" not in repr(kept.find(kept.begin("alice", "token"))).replace("form_token", "")


async def test_on_the_machine_itself_no_token_is_needed(tmp_path):
    async with served(tmp_path) as made:
        await made.publish(survey())
        async with made.browser() as client:
            answer = await page(client)
            assert answer.status_code == 200
            assert "HttpOnly" in answer.headers["set-cookie"]
        async with made.browser() as client:
            headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
            answer = await client.get("/console/", headers=headers)
            assert answer.status_code == 303  # a link elsewhere leads to a button, no further
        async with httpx.AsyncClient(base_url=made.base) as client:
            answer = await client.get("/console/", headers={"host": "evil.example"})
            assert answer.status_code == 421


def test_without_tokens_the_console_is_for_the_machine_itself():
    assert Settings(console=True).web == "127.0.0.1:7718"
    for changes in ({"host": "0.0.0.0"}, {"web": "0.0.0.0:7718"}):
        with pytest.raises(ParameterError, match="tokens_file"):
            Settings(console=True, **changes)
        with pytest.raises(ParameterError, match="tokens_file"):
            Settings(console=True, insecure_open_analyst=True, **changes)
        Settings(console=True, tokens_file=Path("tokens.json"), **changes)


async def test_an_expired_token_opens_nothing(guarded, tmp_path):
    past = datetime.now(UTC) - timedelta(days=1)
    old = TokenFile(tmp_path / "tokens.json").create("old", Scope, past)
    async with guarded.browser() as client:
        answer = await client.post("/console/sign-in", data={"token": old, "next": "/"})
        assert answer.status_code == 403


_FORM = "application/x-www-form-urlencoded"


def test_two_hundred_fields_are_read_and_one_more_is_refused():
    fields = form_of(_FORM, b"&".join(b"a%d=%%25" % n for n in range(200)))
    assert fields == {f"a{n}": ["%"] for n in range(200)}
    with pytest.raises(RefusedError, match="too many fields"):
        form_of(_FORM, b"&".join([b"a=1"] * 201))


@pytest.mark.parametrize("content", [b"a=%", b"a=%2", b"a=%zz", b"%" * 4096])
def test_a_percent_sign_that_begins_no_escape_is_refused(content):
    """Each would take as long to split off as a field."""
    with pytest.raises(RefusedError, match="%25"):
        form_of(_FORM, content)
