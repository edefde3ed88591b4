"""The page on which people take part, in a real browser, against a real server."""

import math
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest
from playwright.async_api import Page, Request

from geoveil.aggregator import Aggregator, Settings
from geoveil.campaign import (
    Asker,
    Attribute,
    Campaign,
    LipschitzLaplaceSpec,
    PlanarLaplaceSpec,
    Question,
    SigningKey,
    ValueCampaign,
)
from geoveil.gp import Cap, GeoPrivacy, LogScale, Threshold, TwoWayThreshold
from geoveil.proto.v1.analyst_pb2_grpc import AnalystStub
from geoveil.relay import InvitationCodes, IssuerKey
from tests.aggregator.tls_files import for_server, new_authority, written
from tests.campaigns import NOW, above_100k
from tests.gateways import gateway_of
from tests.relay.conftest import issuing

from .surveys import Survey, axe, counted, running

pytestmark = pytest.mark.deep
PRIVATE = "52417"


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


async def test_the_picture_knows_the_cap(survey, page):
    """Control: without a cap the same price has no limit that matters at 8,000 dollar."""
    strong: dict[str, Any] = {
        "privacy": GeoPrivacy(20.0, 8_000.0, "dollar"),
        "questions": (Question("above", Threshold(100_000.0, 2_400.0, "smoothstep")),),
    }
    await survey.create(campaign_of("capped", cap=Cap(3.0, 3.5), **strong))
    await survey.create(campaign_of("free", **strong))
    for name, said in (("capped", "at most 670 to 1"), ("free", "at most no limit that matters")):
        await survey.open(page, name)
        await page.fill("#value", "52,000")
        assert f"52,000 dollar or 60,000 dollar: {said}" in await page.inner_text("#odds")


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
