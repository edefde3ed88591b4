"""The page on which people take part, in a real browser, against a real server."""

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest
from playwright.async_api import Browser, BrowserContext, Error, Page, Request, async_playwright

from geoveil.aggregator import Aggregator, Settings
from geoveil.analyst import coastline
from geoveil.analyst.outlines import lines_of
from geoveil.campaign import (
    Asker,
    Attribute,
    Campaign,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    Readings,
    SigningKey,
    ValueCampaign,
)
from geoveil.gp import Disc, GeoPrivacy, LogScale, Threshold, TwoWayThreshold
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest
from geoveil.relay import InvitationCodes, IssuerKey
from tests.aggregator.tls_files import for_server, new_authority, written
from tests.campaigns import NOW, above_100k
from tests.gateways import gateway_of
from tests.relay.conftest import issuing

from .conftest import start_browser
from .surveys import Survey, axe, counted, report_of, running, submitted

pytestmark = pytest.mark.deep
SUBMIT = "**/geoveil.proto.v1.Collector/SubmitReports"
PRIVATE = "52417"
_TIMES = "GEOVEIL_KILLED_TABS"


def campaign_of(campaign_id: str, **changes: Any) -> Campaign:
    open_now: dict[str, Any] = {
        "opens": NOW - timedelta(hours=1),
        "closes": NOW + timedelta(days=3),
    }
    return above_100k(campaign_id, **(open_now | changes))


ASKER = Asker(
    organisation="City of <b>Bergen</b>",
    purpose="where buses stop",
    contact="data@bergen.example",
    notice="https://bergen.example/survey",
)


@pytest.fixture
async def survey(survey):
    await survey.create(campaign_of("income"))
    return survey


async def answer(page: Page, value: str = PRIVATE) -> None:
    await page.fill("#value", value)
    await page.click("#send")


async def test_somebody_takes_part(survey, page):
    sent: list[bytes] = []

    def keep(request: Request) -> None:
        body = request.post_data_buffer
        if body:
            sent.append(body)

    page.on("request", keep)
    await survey.open(page)
    assert await page.inner_text("#title") == "Household income"
    assert "at most 2.72 times as likely" in await page.inner_text("#odds-text")
    assert "right at most 73.2 %" in await page.inner_text("#odds-text")
    await page.click("#more summary")
    spent = await page.inner_text("#spent")
    assert spent.startswith("ε = 0 per 8,000 dollar on household income, in all surveys")
    assert spent.endswith("this survey may take ε = 1 more")
    await page.fill("#value", "52,417")
    assert "52,417 dollar or 60,417 dollar: at most 2.72 to 1" in await page.inner_text("#odds")
    assert "fifty-two thousand four hundred seventeen" in await page.inner_text("#echo")
    # A hundred reports like that one, which are nearly all 0, and of one with 147,583 nearly all 1.
    await page.wait_for_selector("#dots svg")
    assert await page.locator("#dots circle").count() == 400
    said = await page.text_content("#dots title") or ""
    assert "Your answer: half of them from 0 to 0;" in said
    assert "147,583 dollar: half of them from 1 to 1." in said
    assert "the server can tell that your household income is below 100,000 dollar" in (
        await page.inner_text("#odds-text")
    )
    assert await axe(page) == []
    await page.click("#send")
    await counted(page)
    assert await axe(page) == []
    assert await survey.counted() == {"income": 1}
    # Nothing of the answer is left, in the page, in what it stores or in what it sent.
    kept = await page.evaluate(
        """async () => {
            const all = [document.documentElement.outerHTML, ...Object.values(localStorage)];
            for (const {name} of await indexedDB.databases()) {
                const db = await new Promise((done) => {
                    const opening = indexedDB.open(name);
                    opening.onsuccess = () => done(opening.result); });
                for (const store of db.objectStoreNames) {
                    const every = await new Promise((done) => {
                        const asking = db.transaction(store).objectStore(store).getAll();
                        asking.onsuccess = () => done(asking.result); });
                    all.push(JSON.stringify(every, (_, v) => typeof v === "bigint" ? `${v}` : v));
                }
                db.close();
            }
            return all.join(" ");
        }"""
    )
    assert PRIVATE not in kept.replace(",", "")
    assert all(PRIVATE.encode() not in one for one in sent)
    # Nobody chose to show what people answered; on the next visit somebody has.
    assert await page.locator("#results").is_hidden()
    for path in ("**/pages/results", "**/results/income"):
        await page.route(path, lambda route: route.fulfill(status=200))
    # Again: the receipt, and nothing is asked.
    await page.reload()
    await counted(page)
    assert not await page.is_visible("#form")
    await page.wait_for_selector("#results a[href='/results/income']")
    assert "Household income" in await page.inner_text("#history")
    spent = await page.inner_text("#spent")
    assert spent.startswith("ε = 1 per 8,000 dollar")
    assert spent.endswith("takes no more")
    assert await survey.counted() == {"income": 1}


async def test_a_ratio_is_shown_in_the_unit_of_values(survey, page):
    half = GeoPrivacy.per_factor(1.0, 2, "dollar")
    above = Threshold(math.log(100_000), 2.0, "smoothstep")
    scale = Attribute(name="household income", unit=half.unit, scale=LogScale(1_000.0))
    asked = (Question("above 100,000", above),)
    await survey.create(campaign_of("ratio", attribute=scale, privacy=half, questions=asked))
    await survey.open(page, "ratio")
    assert "Asks for: household income, in dollar." in await page.inner_text("#asks")
    await page.click("#more summary")
    assert "ε = 0 per factor 2 in dollar" in await page.inner_text("#spent")
    told = await page.inner_text("#odds-text")
    assert "as for one half or twice as much." in told
    assert "Less than 1,000 dollar counts as 1,000 dollar." in told
    await page.fill("#value", "52,417")
    assert "You answer 52,417 (" in await page.inner_text("#echo")
    assert "52,417 dollar or 104,834 dollar: at most 2.72 to 1" in await page.inner_text("#odds")
    assert "is below 100,000 dollar" in await page.inner_text("#odds-text")
    await page.fill("#value", "0")
    assert "1,000 dollar or 2,000 dollar: at most 2.72 to 1" in await page.inner_text("#odds")
    await page.click("#send")
    await counted(page)
    assert (await survey.counted())["ratio"] == 1
    assert (await page.inner_text("#spent")).startswith("ε = 1 per factor 2 in dollar")


async def test_a_perturbed_logarithm_is_sent_once(survey, page):
    half = GeoPrivacy.per_factor(1.0, 2, "dollar")
    scale = Attribute(name="household income", unit=half.unit, scale=LogScale(1_000.0))
    given = {"attribute": scale, "privacy": half, "mechanism": PlanarLaplaceSpec(1)}
    dates = {"opens": NOW - timedelta(hours=1), "closes": NOW + timedelta(days=3)}
    await survey.create(ValueCampaign(campaign_id="points", title="Incomes", **given, **dates))
    await survey.open(page, "points")
    assert "within a factor of 8 of yours 95.1 % of the time" in await page.inner_text("#odds-text")
    await page.fill("#value", "52,417")
    await page.click("#send")
    await counted(page)
    assert (await survey.counted())["points"] == 1
    assert "logarithm of household income" in await page.inner_text("#answers")


async def test_a_survey_that_asks_for_tokens_asks_for_an_invitation_code(browser, tmp_path):
    key, (code,) = IssuerKey.generate(), InvitationCodes.invite(tmp_path / "codes", 1)
    with issuing([key], tmp_path, InvitationCodes(tmp_path / "codes")) as url:
        async with running(tmp_path / "reports.db", web_issuer=url) as survey:
            until = datetime(NOW.year + 1, 3, 1, 12, 30, tzinfo=UTC)
            await survey.create(
                campaign_of("tokens", token_key=key.public, asker=ASKER, delete_after=until)
            )
            states = []
            for given in (["nobody's", code], [code]):
                context = await browser.new_context()
                page = await context.new_page()
                await survey.open(page, "tokens")
                assert await page.is_visible("#organisation")
                assert not await page.is_visible("#purpose")
                await page.click("#more summary")
                shown = [await page.inner_text(f"#{each}") for each in asdict(ASKER)]
                assert shown == list(asdict(ASKER).values())
                assert await page.get_attribute("#notice", "href") == ASKER.notice
                said = f"The server deletes single answers after {until:%Y-%m-%d %H:%M} UTC"
                assert said in await page.inner_text("#kept")
                await answer(page)
                assert "Give your invitation code" in await page.inner_text("#problem")
                said = await page.inner_text("#inviting")
                assert "An issuer lets each person send one report: it learns who you are" in said
                assert await axe(page) == []
                await page.fill("#invitation", given[0])
                await page.click("#send")
                if len(given) > 1:
                    await page.wait_for_selector("text=does not know this code")
                    assert "right invitation code" in await page.inner_text("#state")
                    assert await axe(page) == []
                    await page.fill("#invitation", given[1])
                    await page.click("#retry")
                await page.wait_for_selector("#state.good, #state.bad")
                states.append(await page.inner_text("#state"))
                assert (
                    await page.evaluate("localStorage.getItem('geoveil invitation tokens')") is None
                )
                await context.close()
            assert states[0].startswith("Counted.")
            assert "the invitation code was used for another report" in states[1]
            assert await survey.counted() == {"tokens": 1}


async def test_the_keyboard_is_enough(survey, page):
    await survey.open(page)
    for _ in range(10):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.id") == "value":
            break
    await page.keyboard.type(PRIVATE)
    for _ in range(10):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.id") == "send":
            break
    await page.keyboard.press("Enter")
    await counted(page)
    assert await page.evaluate("document.activeElement.id") == "receipt-title"


async def test_what_is_no_number_is_told_and_nothing_is_drawn(survey, page):
    await survey.open(page)
    for value in ("", "abc", "1,23,4", "1e400", "NaN", "--3"):
        await answer(page, value)
        assert await page.inner_text("#problem") == "Give a number, in dollar."
        await page.fill("#value", "1")
        assert await page.inner_text("#problem") == ""
    assert await survey.counted() == {"income": 0}


@pytest.mark.parametrize(
    ("locale", "text", "sent"), [("de-DE", "52.000", 52_000), ("en-US", "52.000", None)]
)
async def test_a_number_is_read_as_its_browser_writes_it_or_asked_about(
    survey, browser, locale, text, sent
):
    """A German 52.000 is 52,000, and in an English browser it may be either: nothing is sent."""
    context = await browser.new_context(locale=locale)
    page = await context.new_page()
    await survey.open(page)
    await page.fill("#value", text)
    told = await page.inner_text("#echo")
    assert ("(rund 52 Tausend)" in told) == (sent is not None)
    await page.click("#send")
    if sent is None:
        problem = await page.inner_text("#problem")
        assert "may be 52 (fifty-two), or 52,000 (fifty-two thousand)" in problem
        assert await survey.counted() == {"income": 0}
    else:
        await counted(page)
    await context.close()


@pytest.mark.parametrize(("text", "shown"), [("-5", "-5"), ("999999999999", "999,999,999,999")])
async def test_a_number_that_is_likely_a_slip_is_asked_about(survey, page, text, shown):
    await survey.open(page)
    await answer(page, text)
    question = f"You wrote {shown}. Is that your household income, in dollar?"
    assert await page.inner_text("#doubt") == question
    assert await page.inner_text("#send") == "Yes: perturb it and send"
    assert await axe(page) == []
    await page.fill("#value", "52,417")
    assert await page.inner_text("#doubt") == ""
    assert await page.inner_text("#send") == "Perturb and send"
    assert await survey.counted() == {"income": 0}
    await answer(page, text)
    await page.click("#send")
    await counted(page)
    assert await survey.counted() == {"income": 1}


async def test_a_number_beyond_the_range_of_the_campaign_is_asked_about(survey, page):
    income = Attribute(name="household income", unit="dollar", least=1_000, most=10_000_000)
    await survey.create(campaign_of("stated", attribute=income))
    await survey.open(page, "stated")
    expected = "at least 1,000 and at most 10,000,000"
    assert await page.inner_text("#asks") == f"Asks for: household income, in dollar, {expected}."
    await answer(page, "52")
    question = "You wrote 52. Is that your household income, in dollar?"
    assert await page.inner_text("#doubt") == f"{question} The survey expects {expected}."
    assert (await survey.counted())["stated"] == 0
    await page.click("#send")
    await counted(page)


async def test_the_bars_are_of_the_number_that_was_typed(survey, page):
    """Rounded to 1,234,570, the bars would claim of another number what is true of this one."""
    await survey.open(page)
    await page.fill("#value", "1234567.89")
    assert await page.locator("#odds p").all_inner_texts() != []
    for shown, other in zip(
        await page.locator("#odds p").all_inner_texts(),
        ("1,236,567.89", "1,242,567.89", "1,266,567.89"),
        strict=True,
    ):
        assert shown.startswith(f"1,234,567.89 dollar or {other} dollar: at most ")


async def test_the_bars_say_what_the_sentences_say(survey, page):
    """73.106 % is 73.2 % in both: 73 % would be a promise that is not kept."""
    await survey.open(page)
    bars = await page.locator("#odds svg").all()
    shown = [await bar.locator("text").all_text_contents() for bar in bars]
    assert shown == [["56.3 %", "43.7 %"], ["73.2 %", "26.8 %"], ["98.3 %"]]
    told = await page.inner_text("#odds-text")
    assert "right at most 73.2 %" in told
    assert "at most 55 to 1" in await page.inner_text("#odds")


async def test_several_numbers_are_asked_for(survey, page):
    query = TwoWayThreshold((100_000.0, 50_000.0), 24_000.0, "smoothstep")
    await survey.create(
        campaign_of(
            "two",
            questions=(Question("both", query),),
            mechanism=LipschitzLaplaceSpec(),
        )
    )
    await survey.open(page, "two")
    await page.fill("#value", "1")
    await page.click("#send")
    assert await page.inner_text("#problem") == "Give all the numbers, in dollar."
    await page.fill("#value-2", PRIVATE)
    assert await axe(page) == []
    await page.click("#send")
    await counted(page)
    assert (await survey.counted())["two"] == 1


async def test_titles_and_labels_are_text_whatever_they_hold(survey, page):
    forged = "<img src=x onerror=alert(1)>"
    await survey.create(
        campaign_of(
            "forged",
            title=f"{forged} title",
            attribute=Attribute(name=f"{forged} name", unit="<b>unit</b>"),
            privacy=GeoPrivacy(1.0, 8_000.0, "<b>unit</b>"),
            questions=(Question(f"{forged} label", Threshold(100_000, 24_000, "smoothstep")),),
        )
    )
    await survey.open(page, "forged")
    assert await page.inner_text("#title") == f"{forged} title"
    assert await page.locator("img, b").count() == 0
    await answer(page)
    await counted(page)
    assert await page.locator("img, b").count() == 0


async def test_without_a_connection_the_report_waits(survey, context):
    page = await context.new_page()
    await survey.open(page)
    async with survey.out_of_reach():
        await context.set_offline(True)
        await answer(page)
        await page.wait_for_selector("#receipt:not([hidden])")
        assert "Kept here" in await page.inner_text("#state")
        assert await survey.counted() == {"income": 0}
    await context.set_offline(False)
    await counted(page)
    assert await survey.counted() == {"income": 1}


async def test_a_page_is_loaded_again_without_a_connection(survey, context):
    """With its survey: it is answered, and the report is sent by the browser without the page."""
    page = await context.new_page()
    await survey.open(page)
    await page.evaluate("navigator.serviceWorker.ready.then(() => null)")
    async with survey.out_of_reach():
        await context.set_offline(True)
        await page.reload()
        await page.wait_for_selector("#survey:not([hidden])")
        assert await page.inner_text("#title") == "Household income"
        await answer(page)
        await page.wait_for_selector("#state:has-text('even if this page is closed')")
        await page.reload()
        await page.wait_for_selector("#state:has-text('Kept here')")
        await page.goto("about:blank")
        assert await survey.counted() == {"income": 0}
    await context.set_offline(False)
    for _ in range(60):
        if await survey.counted() == {"income": 1}:
            return
        # The browser's first try may be over, and its next one is minutes later.
        await try_again(page, f"http://{survey.gateway.address}")
        await asyncio.sleep(1)
    raise AssertionError("nothing was sent")


async def try_again(page: Page, origin: str) -> None:
    """Have the worker of an origin send what waits, as the browser does after a while."""
    session = await page.context.new_cdp_session(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def keep(seen: Any) -> None:
        for one in seen["registrations"]:
            if one["scopeURL"].startswith(origin) and not registered.done():
                registered.set_result(one["registrationId"])

    session.on("ServiceWorker.workerRegistrationUpdated", keep)
    await session.send("ServiceWorker.enable")
    event = {"tag": "geoveil", "lastChance": False, "registrationId": await registered}
    await session.send("ServiceWorker.dispatchSyncEvent", {"origin": origin, **event})
    await session.detach()


async def test_surveys_of_a_site_stop_at_a_lifetime_budget(survey, page):
    """A budget of 5 answers two surveys that cost 2, not the third, nor one that costs 6."""
    for name, epsilon in (("a", 2.0), ("b", 2.0), ("c", 2.0), ("d", 6.0)):
        await survey.create(campaign_of(name, privacy=GeoPrivacy(epsilon, 8_000.0, "dollar")))
    for name, before in (("a", 0), ("b", 2)):
        await survey.open(page, name)
        meter = page.locator("#spent meter")
        assert [await meter.get_attribute(one) for one in ("value", "max")] == [f"{before}", "5"]
        await answer(page)
        await counted(page)
    for name, left in (("c", "1"), ("d", "2")):
        await survey.open(page, name)
        spent = "in all surveys of this site; this survey may take ε ="
        assert f"{spent} {left} more" in await page.inner_text("#spent")
        assert "may learn about household income" in await page.inner_text("#problem")
        assert await page.is_disabled("#send")
    assert await axe(page) == []


async def test_a_closed_survey_has_its_title_and_the_receipt(survey, browser, page):
    await page.goto(survey.url())
    await answer(page)
    await counted(page)
    await survey.close("income")
    await page.reload()
    await counted(page)
    other = await browser.new_context()
    stranger = await other.new_page()
    await stranger.goto(survey.url())
    for each in (page, stranger):
        await each.wait_for_selector("#survey:not([hidden])")
        assert await each.inner_text("#title") == "Household income"
        assert "closed, and takes no more answers" in await each.inner_text("#asks")
        assert not await each.is_visible("#form")
        assert await axe(each) == []
    assert not await stranger.is_visible("#receipt")
    await other.close()


async def test_a_place_is_taken_from_the_map_and_needs_nothing_more_of_the_server(survey, context):
    centre = AzimuthalEquidistant(-0.12, 51.5, 20_000.0)
    await survey.create(
        campaign_of(
            "bus",
            attribute=Attribute(name="bus stop", unit="metre", coordinates=centre),
            privacy=GeoPrivacy(1.0, 1_000.0, "metre"),
            questions=(Question("near", Disc((500.0, 300.0), 3_000.0, 1_500.0, "smoothstep")),),
            mechanism=LipschitzLaplaceSpec(),
        )
    )
    page = await context.new_page()
    await page.goto(survey.url("bus"))
    await page.locator("#map").scroll_into_view_if_needed()  # where it is drawn
    await page.wait_for_selector(".place-map[data-ready]", timeout=60_000)
    assert await axe(page) == []
    await context.set_offline(True)
    await page.click("#map canvas")  # in its middle
    found = [float(await page.input_value(one)) for one in ("#longitude", "#latitude")]
    assert found == pytest.approx([-0.12, 51.5], abs=1e-3)
    # Paris is asked about, and so is what is typed with the latitude first.
    for longitude, latitude in (("2.35", "48.86"), ("51.5", "-0.12")):
        await page.fill("#longitude", longitude)
        await page.fill("#latitude", latitude)
        await page.click("#send")
        assert "outside the area of the survey" in await page.inner_text("#doubt")
        assert await page.is_visible("#form")
    for id_, number in zip(("#longitude", "#latitude"), found, strict=True):
        await page.fill(id_, f"{number}")
    assert await page.inner_text("#doubt") == ""
    await page.click("#send")
    await page.wait_for_selector("#receipt:not([hidden])")
    await context.set_offline(False)
    await counted(page)
    assert (await survey.counted())["bus"] == 1


async def test_a_map_has_the_coasts_that_there_are(survey, page):
    """Without WebGL, as the console draws them; each place of the page's lines is one of theirs."""
    await page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    bay = AzimuthalEquidistant(-122.3, 37.7, 80_000.0)
    fiji = AzimuthalEquidistant(179.0, -17.5, 300_000.0)  # it lies across the antimeridian
    known = np.array([place for line in lines_of(coastline()) for place in line])
    for name, centre in (("bay", bay), ("fiji", fiji)):
        attribute = Attribute(name="home", unit="metre", coordinates=centre)
        near = Question("near", Disc((0.0, 0.0), 9_000.0, 4_500.0, "smoothstep"))
        given = {"attribute": attribute, "privacy": GeoPrivacy(1.0, 2_000.0, "metre")}
        lipschitz = LipschitzLaplaceSpec()
        await survey.create(campaign_of(name, questions=(near,), mechanism=lipschitz, **given))
        await survey.open(page, name)
        await page.wait_for_selector(".coast polyline", state="attached")
        drawn = await page.evaluate(
            "[...document.querySelectorAll('.coast polyline')].map((one) => one.points.length)"
        )
        at = await page.evaluate(
            "[...document.querySelector('.coast polyline').points].map(({x, y}) => [x, y])"
        )
        scale = 0.92 * 400 / (2 * centre.radius_m)
        plane = np.array([((x - 200) / scale, (200 - y) / scale) for x, y in at])
        places = centre.unproject(plane)
        apart = np.abs(places[:, None] - known[None])
        apart[..., 0] = np.minimum(apart[..., 0], 360 - apart[..., 0])
        assert np.max(np.min(np.max(apart, axis=2), axis=1)) < 0.02
        assert sum(drawn) > 8
        assert "Natural Earth" in await page.inner_text("#outlines")
        assert await axe(page) == []


async def test_a_browser_takes_part_by_tls(browser, tmp_path):
    authority = new_authority("survey")
    certificate, key = written(for_server(authority), tmp_path, "server")
    settings = Settings(
        database=tmp_path / "reports.db",
        port=0,
        web="127.0.0.1:0",
        tls_certificate=certificate,
        tls_key=key,
    )
    secure = grpc.ssl_channel_credentials(authority.certificate)
    async with (
        Aggregator(settings) as aggregator,
        gateway_of(aggregator) as gateway,
        grpc.aio.secure_channel(aggregator.address, secure) as channel,
    ):
        survey = Survey(gateway, AnalystStub(channel))
        await survey.create(campaign_of("income"))
        context = await browser.new_context(ignore_https_errors=True)
        page = await context.new_page()
        await page.goto(survey.url().replace("http:", "https:"))
        await page.wait_for_selector("#survey:not([hidden])")
        await answer(page)
        await counted(page)
        spoken = await page.evaluate(
            """["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind))
              .map(({ name, nextHopProtocol }) => [name, nextHopProtocol])"""
        )
        await context.close()
        assert await survey.counted() == {"income": 1}
    assert len(spoken) > 6
    assert any(name.endswith("/SubmitReports") for name, _ in spoken)
    assert {protocol for _, protocol in spoken} == {"http/1.1"}


async def test_a_survey_that_there_is_not_is_told(survey, context):
    page = await context.new_page()
    await page.goto(survey.url("none"))
    await page.wait_for_selector("#trouble:not([hidden])")
    assert "no such survey" in await page.inner_text("#trouble-title")
    assert await axe(page) == []


async def test_what_no_page_can_answer_is_said_before_anything_is_asked(survey, page):
    operator, key = SigningKey.generate().public, IssuerKey.generate().public
    cases = (
        ("window", {"window": timedelta(hours=1)}, "leave at random times in a window"),
        ("relay", {"relay_operator": operator}, "through the relay or with the token"),
        ("token", {"token_key": key}, "through the relay or with the token"),
    )
    for name, changes, why in cases:
        await survey.create(campaign_of(name, **changes))
        await page.goto(survey.url(name))
        await page.wait_for_selector("#trouble:not([hidden])")
        said = await page.inner_text("#trouble")
        assert said.startswith("This page can't answer this survey, so it asks you nothing")
        assert why in said
        assert not await page.is_visible("#form")


async def test_two_tabs_draw_once(survey, context):
    sent = submitted(context)
    tabs = [await context.new_page() for _ in range(3)]
    for tab in tabs:
        await survey.open(tab)
        await tab.fill("#value", PRIVATE)
    await asyncio.gather(*(tab.click("#send", no_wait_after=True) for tab in tabs))
    await asyncio.gather(*(counted(tab) for tab in tabs))
    assert len({report_of(one) for one in sent}) == 1
    assert await survey.counted() == {"income": 1}


_APP = """async ([place, ids, value]) => {
  const { Client, IndexedDbStorage, Policy } = await import("/pages/geoveil-client.js");
  const dollars = (epsilon) => ({ epsilon, per: 8_000, unit: "dollar" });
  const epoch = { privacy: dollars(1), lengthMs: 365 * 86_400_000 };
  const limit = { campaign: dollars(1), lifetime: dollars(1), epoch };
  const kept = await IndexedDbStorage.open(place);
  const add = async (journal, entry) => {
    await globalThis.drawn?.();
    await journal.add(entry);
  };
  const storage = {
    persistent: false,
    exclusively: (work) => kept.exclusively((journal) =>
      work({ ...journal, add: (entry) => add(journal, entry) })),
  };
  const policy = new Policy({ limits: { "household income": limit } });
  const client = new Client({ server: location.origin, policy, storage, background: false });
  const told = await Promise.all(ids.map((id) => client.contribute(id, value)));
  await client.flush();
  const entries = await kept.exclusively((journal) => journal.entries());
  return {
    reports: told.map((one) => `${one.campaignId} ${one.reportId} ${one.epoch.getTime()}`).sort(),
    fresh: told.filter((one) => one.fresh).length,
    spent: (await client.budgets())[0].spent,
    readings: entries.filter((one) => one.reading).length,
    points: entries.flatMap((one) => one.points).length,
  };
}"""
_UNTIL_DRAWN = f"""(given) => new Promise((resolve) => {{
  globalThis.drawn = () => new Promise(() => resolve());
  void ({_APP})(given);
}})"""
_RACES = 3


@pytest.mark.deep(rest=0)
async def test_tabs_that_race_share_one_point_an_epoch(survey, context):
    """Each asks all campaigns at once; one more, killed between draw and write, leaves nothing."""
    ids = ["a", "b", "c"]
    for campaign_id, epsilon in zip(ids, (1.0, 0.5, 0.75), strict=True):
        privacy = GeoPrivacy(epsilon, 8_000.0, "dollar")
        await survey.create(campaign_of(campaign_id, privacy=privacy))
    tabs = [await context.new_page() for _ in range(2)]
    for race in range(_RACES):
        place = f"app {race}"
        killed = await context.new_page()
        for tab in (*tabs, killed):
            await tab.goto(survey.url())
        await killed.evaluate(_UNTIL_DRAWN, [place, ids[race:], 10_000.0])
        given = [[place, order, 60_000.0 + race] for order in (ids, ids[::-1])]
        racing = [tab.evaluate(_APP, one) for tab, one in zip(tabs, given, strict=True)]
        first, second, _ = await asyncio.gather(*racing, killed.close())
        assert first["reports"] == second["reports"]
        assert len({one.split()[2] for one in first["reports"]}) == 1
        assert first["fresh"] + second["fresh"] == len(ids)
        assert {one["spent"] for one in (first, second)} == {1.0}
        assert {(one["readings"], one["points"]) for one in (first, second)} == {(1, len(ids))}
    assert await survey.counted() == {"income": 0} | dict.fromkeys(ids, _RACES)


async def test_a_survey_that_reads_once_in_a_while_says_so(survey, page):
    readings = Readings(every=timedelta(days=2), extrapolated=True, cohorts=3)
    changes: dict[str, Any] = {"period": timedelta(hours=12), "readings": readings}
    await survey.create(campaign_of("daily", **changes))
    await survey.open(page, "daily")
    told = await page.inner_text("#sent")
    assert f"{readings} In all: ε = 3 per 8,000 dollar." in told
    assert readings.telling in told
    assert await axe(page) == []
    await answer(page)
    await counted(page)
    assert "once for all answers from the same reading" in await page.inner_text("#history")
    assert (await page.inner_text("#spent")).endswith("this survey may take ε = 2 more")
    assert (await survey.counted())["daily"] == 1


async def _killed_tabs(survey: Survey, context: BrowserContext, times: int, seed: int) -> None:
    """Close the tab at some time after the button, and come back until the answer is counted."""
    rng = Random(seed)
    sent = submitted(context)
    for number in range(times):
        campaign_id = f"killed-{number}"
        await survey.create(campaign_of(campaign_id))
        lost = number % 3
        page = await context.new_page()
        if lost == 1:  # the server counts, and its acknowledgement is lost
            await page.route(SUBMIT, lambda route: _unanswered(route.fetch, route.abort))
        elif lost == 2:  # the request never arrives
            await page.route(SUBMIT, lambda route: route.abort())
        await survey.open(page, campaign_id)
        await page.fill("#value", PRIVATE)
        with suppress(Error):
            await page.click("#send", no_wait_after=True)
        await asyncio.sleep(rng.random() * 0.1)
        await page.close()
        again = await context.new_page()
        await survey.open(again, campaign_id)
        if await again.is_visible("#form"):  # nothing was drawn
            await answer(again)
        await counted(again)
        await again.close()
    assert await survey.counted() == {"income": 0} | {f"killed-{n}": 1 for n in range(times)}
    reports: dict[str, set[bytes]] = {}
    for one in sent:
        name = SubmitReportsRequest.FromString(one).campaign_id
        reports.setdefault(name, set()).add(report_of(one))
    assert len(reports) == times
    assert all(len(drawn) == 1 for drawn in reports.values())


async def test_a_tab_that_is_killed_sends_the_same_bytes_later(survey, context):
    """GEOVEIL_KILLED_TABS=200 kills so many of them."""
    await _killed_tabs(survey, context, times=int(os.environ.get(_TIMES, "3")), seed=1)


async def test_a_browser_that_is_killed_sends_the_same_bytes_later(survey, tmp_path):
    folder = tmp_path / "profile"
    folder.mkdir()
    sent: list[bytes] = []

    async def visit(then: Callable[[Page], Awaitable[object]]) -> None:
        running = start_browser(folder)
        try:
            async with async_playwright() as playwright:
                browser: Browser = await playwright.chromium.connect_over_cdp(running.endpoint)
                context = browser.contexts[0]
                sent_now = submitted(context)
                page = await context.new_page()
                await page.goto(survey.url())
                await then(page)
                sent.extend(sent_now)
                running.kill()
                await browser.close()
        finally:
            running.kill()

    async def unsent(page: Page) -> None:
        await page.route(SUBMIT, lambda route: _unanswered(route.fetch, route.abort))
        await page.wait_for_selector("#survey:not([hidden])")
        await answer(page)
        await page.wait_for_selector("#receipt:not([hidden])")
        await asyncio.sleep(0.5)

    await visit(unsent)
    await visit(counted)
    assert await survey.counted() == {"income": 1}
    assert len({report_of(one) for one in sent}) == 1


async def _unanswered(fetch: Any, abort: Any) -> None:
    with suppress(Error):
        await fetch()
    with suppress(Error):
        await abort()
