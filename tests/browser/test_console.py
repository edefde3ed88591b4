"""The console in a real browser, which reaches its own machine alone, against a real server."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, Page

from tests.console.served import Served, served, survey

pytestmark = pytest.mark.deep
WIDTHS = (390, 820, 1440)
_FOLDER = "GEOVEIL_CONSOLE_PICTURES"
"""Where to keep screenshots of every page, at three widths; nothing is kept otherwise."""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as made:
        yield made


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A page that fails the test if it complains, or asks any other server."""
    made = await context.new_page()
    complaints: list[str] = []
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    hosts: set[str] = set()
    made.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    yield made
    assert complaints == []
    assert len(hosts - {""}) == 1


async def sound(page: Page, name: str) -> None:
    """Check what a page shows, in light and in dark, and keep pictures of it if they are wanted."""
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # two of its words
        assert await _axe(page) == [], (name, scheme)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        wide = await page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{name} is {wide} pixels wide at {width}"
        folder = os.environ.get(_FOLDER)
        if folder:
            await page.screenshot(path=Path(folder) / f"{name}-{width}.png", full_page=True)


async def _axe(page: Page) -> list[str]:
    """Return what the rules of accessibility find, of any weight."""
    await page.evaluate((resources.files("axe_playwright_python") / "axe.min.js").read_text())
    found = await page.evaluate("axe.run()")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


async def test_numbers_are_those_of_the_command_to_the_digit_while_reports_come(
    console: Served, page: Page
) -> None:
    campaign = survey(minimum_participants=50)
    await console.publish(campaign)
    await page.goto(f"{console.base}/console/")
    assert "0 % of the 50 answers" in await page.inner_text(".survey")
    await sound(page, "surveys")
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
