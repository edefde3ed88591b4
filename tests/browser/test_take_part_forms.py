"""Forms on the page on which people take part, in a real browser, against a real server."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Page

from geoveil.campaign import (
    Attribute,
    ChoiceField,
    Condition,
    Field,
    FormCampaign,
    MultipleField,
    NumberField,
    OrdinalField,
    PlaceField,
    Wording,
    what_a_form_tells,
)
from geoveil.gp import GeoPrivacy
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1.report_pb2 import Report

from .surveys import Survey, axe, counted, report_of, submitted

pytestmark = pytest.mark.deep
NOW = datetime.now(UTC)
HARLEM = AzimuthalEquidistant(-73.94, 40.8, 30e3)
RENTERS = Condition(field="rents", options=("yes",))
GERMAN = Wording(language="de", text="Wohnen Sie zur Miete?", options=("ja", "nein"))
RENTS = ChoiceField(
    name="rents",
    options=("yes", "no"),
    epsilon=2.0,
    wordings=(Wording(text="Do you rent your home?"), GERMAN),
)
SIDE = ChoiceField(name="side", options=("left", "right"))


def number(name: str, least: float, most: float, per: float, **more: Any) -> NumberField:
    attribute = Attribute(name=name, unit="dollar", least=least, most=most)
    return NumberField(attribute=attribute, privacy=GeoPrivacy(1, per, "dollar"), **more)


FIELDS: Sequence[Field] = (
    RENTS,
    number(
        "rent", 0, 5_000, 1_000, applies=RENTERS, wordings=(Wording(text="What is your rent?"),)
    ),
    number("household income", 0, 500_000, 8_000),
    PlaceField(
        attribute=Attribute(name="home", unit="metre", coordinates=HARLEM),
        privacy=GeoPrivacy(1, 500, "metre"),
    ),
    OrdinalField(name="mood", options=("bad", "fair", "good"), epsilon=1.0),
    MultipleField(name="travel", options=("bus", "train", "foot"), epsilon=1.0, most=2),
    SIDE,
)
INCOME = 2


def form_of(campaign_id: str, fields: Sequence[Field] = FIELDS) -> FormCampaign:
    return FormCampaign(
        campaign_id=campaign_id,
        title="Household survey",
        fields=tuple(fields),
        opens=NOW - timedelta(hours=1),
        closes=NOW + timedelta(days=3),
    )


async def begun(survey: Survey, page: Page, fields: Sequence[Field] = FIELDS) -> None:
    await survey.create(form_of("household", fields))
    await survey.open(page, "household")
    assert await axe(page) == []


async def following(page: Page, title: str) -> None:
    """Go on, which shows a screen of this title, sound and as wide as the window."""
    await page.click("#send")
    assert await page.inner_text("#problem") == await page.inner_text("#doubt") == ""
    assert await page.inner_text("#form-title") == title
    assert await page.evaluate("document.activeElement.id") == "form-title"
    assert await axe(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


async def titled(page: Page, title: str) -> None:
    """Wait until a screen of this title is shown: going back takes the browser a moment."""
    await page.locator("#form-title", has_text=title).wait_for()


async def all_answered(page: Page, rents: str = "yes") -> None:
    await following(page, "Question 1 of 7")
    await page.click(f".option >> text={rents}")
    if rents == "yes":
        await following(page, "Question 2 of 7")
        await page.fill("#value", "1250")
    await following(page, "Question 3 of 7")
    await page.fill("#value", "$52,417")
    await following(page, "Question 4 of 7")
    await page.click("#map canvas")
    await following(page, "Question 5 of 7")
    await page.click(".option >> text=good")
    await following(page, "Question 6 of 7")
    await page.click(".option >> text=bus")
    await page.click(".option >> text=foot")
    await following(page, "Question 7 of 7")
    await page.click(".option >> text=left")
    await following(page, "All your answers")


@pytest.mark.parametrize(("width", "scheme"), [(320, "dark"), (390, "light")])
async def test_a_form_is_answered_screen_by_screen(survey, page, width, scheme):
    await page.set_viewport_size({"width": width, "height": 844})
    await page.emulate_media(color_scheme=scheme)
    sent = submitted(page.context)
    await begun(survey, page)
    assert "Each answer is perturbed separately on this device, except “side”: sent as it is." in (
        await page.inner_text("#asks")
    )
    told = what_a_form_tells(form_of("household"))
    await all_answered(page)
    summary = await page.text_content("#summary") or ""
    assert (await page.locator("#summary").bounding_box() or {})["height"] < 1_600
    for shown in (
        "Do you rent your home?",
        "1,250 (one thousand two hundred fifty) dollar",
        "52,417 (fifty-two thousand four hundred seventeen) dollar",
        "nobody can tell 52,417 from 60,417 dollar better than 73.2 to 26.8",
        "The option that is sent is yours 88.1 % of the time.",
        "bus, foot",
        "Your answer is sent as it is.",
        told[-1],
    ):
        assert shown in summary
    for one in told[:-1]:  # letter for letter, but for the name and its case
        assert one.partition(": ")[2][1:] in summary
    assert await survey.counted() == {"household": 0}
    await page.click("#send")
    await counted(page)
    assert await page.evaluate("document.activeElement.id") == "receipt-title"
    assert await axe(page) == []
    assert await survey.counted() == {"household": 1}
    assert len({report_of(one) for one in sent}) == 1
    receipt = await page.inner_text("#answers")
    assert "of the centre" in receipt
    assert "left" in receipt
    assert "52,417" not in receipt
    left = await page.evaluate("document.documentElement.outerHTML")
    assert "52,417" not in left
    assert "52417" not in left
    # Again: the receipt, and nothing is asked. The list of surveys leads there.
    await page.goto(survey.url(""))
    await page.click("text=Household survey")
    await counted(page)
    assert not await page.is_visible("#form")
    assert (await page.inner_text("#spent")).startswith("on 6 attributes")
    assert "ε = 4.5 per 1 option on rents" in await page.inner_text("#each")


async def test_what_does_not_apply_is_left_out_and_sent_all_the_same(survey, page):
    sent = submitted(page.context)
    await begun(survey, page)
    await page.click("#send")
    await page.click(".option >> text=no")
    await page.click("#send")
    assert await page.inner_text("#form-title") == "Question 3 of 7"
    skipped = await page.inner_text("#skipped")
    assert "Question 2 (“What is your rent?”): It does not apply to you." in skipped
    assert "a random answer is sent in its place" in skipped
    await page.go_back()
    await titled(page, "Question 1 of 7")
    await page.click("#back")
    await titled(page, "Before you begin")
    await all_answered(page, "no")
    assert "It does not apply to you." in await page.inner_text("#summary")
    # Who changes that answer is asked what now applies, then is back at all answers.
    await page.click("[aria-label='Change: Do you rent your home?']")
    await page.click(".option >> text=yes")
    await page.click("#send")
    assert await page.inner_text("#form-title") == "Question 2 of 7"
    note = await page.inner_text("#inputs")
    assert "Only for those who answer “yes” to “Do you rent your home?”" in note
    await page.fill("#value", "800")
    await page.click("#send")
    assert await page.inner_text("#form-title") == "All your answers"
    await page.click("[aria-label='Change: Do you rent your home?']")
    await page.click(".option >> text=no")
    await page.click("#send")
    await page.click("#send")
    await counted(page)
    (report,) = {report_of(one) for one in sent}
    assert len(Report.FromString(report).answers) == form_of("household").columns


async def test_the_keyboard_is_enough_for_a_form(survey, page):
    fields = (RENTS, FIELDS[INCOME], FIELDS[5])
    await begun(survey, page, fields)
    await page.focus("#send")
    await page.keyboard.press("Enter")
    for keys in (
        ("Tab", "Space"),  # the first of the buttons of a group takes the focus
        ("Tab", *PRIVATE_KEYS),
        ("Tab", "Space", "Tab", "Tab", "Space"),
    ):
        assert await page.evaluate("document.activeElement.id") == "form-title"
        for key in keys:
            await page.keyboard.press(key)
        await page.keyboard.press("Enter")
    assert await page.inner_text("#form-title") == "All your answers"
    for _ in range(12):
        await page.keyboard.press("Tab")
        if await page.evaluate("document.activeElement.id") == "send":
            break
    summary = await page.inner_text("#summary")
    assert "yes" in summary
    assert "52,417" in summary
    assert "bus, foot" in summary
    await page.keyboard.press("Enter")
    await counted(page)


PRIVATE_KEYS = tuple("52417")


SLIPS = (
    ("52.000", "may be 52 (fifty-two), or 52,000 (fifty-two thousand)", ""),
    ("52000,5", "may be 52,000.5 (fifty-two thousand point five)", ""),
    ("-5", "", "You wrote -5. Is that your household income, in dollar?"),
    ("999999999999", "", "You wrote 999,999,999,999. Is that your household income"),
    ("52k", "", ""),
)


async def test_an_answer_of_a_form_that_may_be_a_slip_is_asked_about(survey, page):
    await begun(survey, page, (FIELDS[INCOME], SIDE))
    await page.click("#send")
    for typed, problem, doubt in SLIPS:
        await page.fill("#value", typed)
        await page.click("#send")
        assert problem in await page.inner_text("#problem")
        assert doubt in await page.inner_text("#doubt")
        if doubt:
            expected = "The survey expects at least 0 and at most 500,000."
            assert expected in await page.inner_text("#doubt")
            assert await page.inner_text("#send") == "Yes: next"
            await page.click("#send")
        if not problem:
            assert await page.inner_text("#form-title") == "Question 2 of 2"
            await page.click("#back")
        await titled(page, "Question 1 of 2")


async def test_a_form_of_one_field_is_one_screen(survey, page):
    await begun(survey, page, (RENTS,))
    assert not await page.is_visible("#back")
    await page.click("#send")
    assert await page.inner_text("#problem") == "Choose one of the answers."
    await page.click(".option >> text=yes")
    assert await axe(page) == []
    await page.click("#send")
    await counted(page)


async def test_a_form_is_asked_in_a_language_of_the_browser(survey, browser):
    context = await browser.new_context(locale="de-AT")
    page = await context.new_page()
    await begun(survey, page, (RENTS, SIDE))
    await page.click("#send")
    assert await page.inner_text("#inputs legend") == "Wohnen Sie zur Miete?"
    assert await page.get_attribute("#inputs fieldset", "lang") == "de"
    await page.click(".option >> text=ja")
    await page.click("#send")
    await page.click(".option >> text=left")
    await page.click("#send")
    assert "ja" in await page.inner_text("#summary")
    await page.click("#send")
    await counted(page)
    await context.close()


async def test_titles_and_options_of_a_form_are_text(survey, page):
    forged = "<img src=x onerror=alert(1)>"
    wording = Wording(text=forged, options=(f"{forged} a", f"{forged} b"))
    choice = ChoiceField(name="__proto__", options=("toString", "b"), epsilon=1.0)
    fields = (choice, ChoiceField(name="f", options=("a", "b"), epsilon=1.0, wordings=(wording,)))
    await begun(survey, page, fields)
    await page.click("#send")
    await page.click("#option-0")
    await page.click("#send")
    await page.click("#option-1")
    await page.click("#send")
    assert f"{forged} b" in await page.inner_text("#summary")
    assert await page.locator("img").count() == 0
    await page.click("#send")
    await counted(page)


@pytest.mark.deep(rest=0)
async def test_tabs_that_race_draw_a_form_once(survey, context):
    await survey.create(form_of("household", (RENTS, FIELDS[1], SIDE)))
    sent = submitted(context)
    tabs = [await context.new_page() for _ in range(2)]
    for tab, rents in zip(tabs, ("yes", "no"), strict=True):
        await survey.open(tab, "household")
        await tab.click("#send")
        await tab.click(f".option >> text={rents}")
        await tab.click("#send")
        if rents == "yes":
            await tab.fill("#value", "900")
            await tab.click("#send")
        await tab.click(".option >> text=left")
        await tab.click("#send")
    await asyncio.gather(*(tab.click("#send", no_wait_after=True) for tab in tabs))
    await asyncio.gather(*(counted(tab) for tab in tabs))
    assert len({report_of(one) for one in sent}) == 1
    assert await survey.counted() == {"household": 1}
