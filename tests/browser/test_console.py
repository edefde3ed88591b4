"""The console in a real browser, which reaches its own machine alone, against a real server."""

import asyncio
import io
import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from PIL import Image
from playwright.async_api import Page

from geoveil.analyst import DistributionFunction, new_york_boroughs
from geoveil.analyst.results import cell_text
from geoveil.campaign import Attribute, Question
from geoveil.gp import GeoPrivacy, Threshold
from tests.campaigns import NOW
from tests.console.served import numbers, places, served, survey
from tests.console.test_public import chosen

from .surveys import axe

pytestmark = pytest.mark.deep
WIDTHS = (390, 820, 1440)
_FOLDER = "GEOVEIL_CONSOLE_PICTURES"
"""Where to keep screenshots of every page, at three widths; nothing is kept otherwise."""


async def sound(page: Page, name: str) -> None:
    """Check what a page shows, in light and in dark, and keep pictures of it if they are wanted."""
    await page.emulate_media(color_scheme="dark")
    assert await axe(page, "color-contrast") == [], name  # of the rules the others see no colour
    await page.emulate_media(color_scheme="light")
    assert await axe(page) == [], name
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide at {width}"
        folder = os.environ.get(_FOLDER)
        if folder:
            height = await page.evaluate("document.documentElement.scrollHeight")
            # Without a scroll bar, in place of which a part of the page would be cut off.
            await page.set_viewport_size({"width": width, "height": max(900, height)})
            image = Image.open(io.BytesIO(await page.screenshot()))
            image = image.crop((0, 0, image.width, min(image.height, 2_000)))
            image.save(Path(folder) / f"{name}-{width}.webp", quality=30, method=6)


async def test_numbers_are_those_of_the_command_to_the_digit_while_reports_come(console, page):
    campaign = survey(minimum_participants=50)
    await console.publish(campaign)
    await page.goto(f"{console.base}/console/")
    assert "Nobody has taken part yet." in await page.inner_text(".survey")
    await sound(page, "surveys-one")
    await page.click("text=Household income")
    await page.wait_for_selector(".promise")
    await sound(page, "survey-with-too-few")
    for _ in range(10):
        await console.report(campaign, 200)
        await asyncio.sleep(0.15)
    await page.wait_for_selector("text=Live: as of 2,000 reports.")
    told = await console.analyst(lambda analyst: analyst.estimate("income").to_dict())
    assert json.loads(await page.text_content("[data-json]") or "") == told
    of_one = told["estimates"][0]
    exact = await page.get_attribute(".answer .big data", "value")
    assert exact == repr(of_one["estimate"])
    assert of_one["n"] == 2_000
    cells = page.locator("[data-live] td data")
    shown = [await cells.nth(index).get_attribute("value") for index in range(await cells.count())]
    assert {repr(of_one["estimate"]), repr(of_one["standard_error"]), "2000"} <= set(shown)
    await sound(page, "survey")
    await page.reload()
    async with page.expect_download() as saving:
        await page.click('section[aria-labelledby="says"] [data-png]')
    assert (await (await saving.value).path()).read_bytes().startswith(b"\x89PNG")


async def test_points_are_asked_dragged_and_saved(console, page):
    incomes = numbers()
    await console.publish(incomes)
    await console.report(incomes, 1_000)
    await page.goto(f"{console.base}/console/surveys/incomes")
    await page.click("a.button")
    await page.wait_for_selector("[data-moved]:not(:empty)")
    curve = await console.analyst(lambda one: one.ask("incomes", DistributionFunction()))
    median = curve.quantiles([0.5])
    ends = (median.values, median.low, median.high)
    value, low, high = (cell_text(float(end[0])) for end in ends)
    told = await page.inner_text("[data-moved]")
    assert told == f"50 % of the people have at most {value} ({low} to {high})."
    await page.focus("#level")
    for _ in range(20):
        await page.keyboard.press("ArrowLeft")
    assert (await page.inner_text("[data-moved]")).startswith("30 % of the people")
    await sound(page, "points-curve")
    async with page.expect_download() as saving:
        await page.click("[data-png]")
    png = await (await saving.value).path()
    assert png.read_bytes().startswith(b"\x89PNG")
    assert png.stat().st_size > 5_000
    async with page.expect_download() as saving:
        await page.click("text=CSV")
    rows = (await (await saving.value).path()).read_text().splitlines()
    assert len(rows) == 102
    await page.click("text=Histogram")
    await page.wait_for_selector("svg rect.one")
    await sound(page, "points-histogram")


@pytest.mark.deep(rest=0)
async def test_places_are_mapped_and_counted_in_districts(console, page):
    homes = places()
    await console.publish(homes)
    await console.report(homes, 3_000)
    await page.goto(f"{console.base}/console/surveys/places/ask")
    await page.wait_for_selector("svg")
    await sound(page, "points-map")
    await page.click("text=Shares of districts")
    boroughs = json.dumps(new_york_boroughs()).encode()
    file = {"name": "boroughs.geojson", "mimeType": "application/geo+json", "buffer": boroughs}
    await page.set_input_files("#file", file)
    await page.click("#asking button")
    await page.wait_for_selector("text=Brooklyn")
    await sound(page, "points-districts")


async def test_the_keyboard_is_enough_from_signing_in_to_a_file(tmp_path, page):
    async with served(tmp_path, tokens=True) as console:
        campaign = survey()
        await console.publish(campaign)
        await console.report(campaign, 300)
        await page.goto(f"{console.base}/console/surveys/income")
        assert await page.evaluate("document.activeElement.id") == "token"
        await sound(page, "sign-in")
        await page.keyboard.type(console.token or "")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".answer")
        assert "/console/surveys/income" in page.url
        seen = []
        for _ in range(40):
            await page.keyboard.press("Tab")
            seen.append(await page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
            if await page.evaluate("document.activeElement.textContent") == "CSV":
                break
        else:
            raise AssertionError(seen)
        async with page.expect_download() as saving:
            await page.keyboard.press("Enter")
        assert (await (await saving.value).path()).read_text().startswith("answer,query,")
        for _ in range(40):
            await page.keyboard.press("Tab")
            if await page.evaluate("document.activeElement.id") == "contamination":
                break
        before = await page.inner_text("#doubted")
        await page.keyboard.press("End")
        await page.wait_for_function("before => doubted.innerText !== before", arg=before)
        assert await page.inner_text('output[for="contamination"]') == "20 %"
        text = await page.inner_text("#doubted")
        found = await console.analyst(lambda one: one.estimate("income"))
        widened = found.estimates[0].contaminated(0.2)
        assert widened.ci_low is not None
        assert f"{widened.ci_low:.2f}" in text


async def test_a_survey_that_recurs(console, page):
    campaign = survey(
        "weekly",
        title="Every week: income",
        opens=NOW - timedelta(days=26),
        period=timedelta(days=7),
    )
    await console.publish(campaign)
    for period, share in enumerate((0.3, 0.35, 0.42, 0.5)):
        await console.report(campaign, 900, period=period, around=share)
    await console.publish(
        survey(),
        places(),
        survey("ages", title="Ages of those who cycle", minimum_participants=2_000),
        survey("soon", opens=NOW + timedelta(days=3), title="Rents of 2027"),
        survey("ends", closes=NOW + timedelta(hours=9), minimum_participants=5_000),
    )
    await console.report(
        survey("ages", minimum_participants=2_000, title="Ages of those who cycle"), 800
    )
    await page.goto(f"{console.base}/console/")
    await sound(page, "surveys")
    box = await page.locator("tr.survey").first.bounding_box()
    assert box is not None
    assert box["y"] + 20 * box["height"] <= 900, "20 surveys are on a screen"
    await page.fill("#q", "rents")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**q=rents*")
    assert await page.locator(".survey").count() == 1
    await page.goto(f"{console.base}/console/surveys/weekly")
    assert "What changed" in await page.inner_text("main")
    await sound(page, "survey-that-recurs")
    await page.click("text=Operators")
    await page.wait_for_selector("text=How the server is doing")
    assert "4,400" in await page.inner_text("#operators")
    await sound(page, "operators")


async def test_titles_are_text_whatever_they_hold(console, page):
    forged = "<img src=x onerror=alert(1)><script>alert(1)</script>'\"{{7*7}}"
    campaign = survey(
        "forged",
        title=forged,
        attribute=Attribute(name=forged[:64], unit="<b>unit</b>"),
        privacy=GeoPrivacy(1.0, 8_000.0, "<b>unit</b>"),
        questions=(Question(forged[:64], Threshold(100_000, 24_000, "smoothstep")),),
    )
    await console.publish(campaign)
    await console.report(campaign, 60)
    for path in ("", "surveys/forged"):
        await page.goto(f"{console.base}/console/{path}")
        await page.wait_for_selector(f"text={forged[:20]}")
        assert await page.locator("main img, main b:has-text('unit'), main script").count() == 0
    await page.wait_for_selector("text=Live: as of")
    assert await page.locator("main img, main script").count() == 0
    assert "{{7*7}}" in await page.inner_text("h1")


async def test_results_are_read_by_anybody(tmp_path, page):
    async with served(tmp_path, **chosen(tmp_path, "income")) as console:
        await console.publish(survey())
        await console.report(survey(), 2_000)
        await page.goto(f"{console.base}/results/income")
        assert "of people have a household income" in await page.inner_text("main")
        await sound(page, "public")
        async with page.expect_download() as saving:
            await page.click("[data-png]")
        assert (await (await saving.value).path()).read_bytes().startswith(b"\x89PNG")
