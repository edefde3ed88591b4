"""Planning in a real browser: as a new user would, from the empty console to an estimate."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page
from typer.testing import CliRunner

from geoveil.cli.app import app
from tests.console.served import Served, served

from .test_console import page as page  # the same promises: no complaint, no other host
from .test_console import sound

pytestmark = pytest.mark.deep
SETTLED = "#forecast:not([data-then]):not([aria-busy])"


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as made:
        yield made


def geoveil(*arguments: str) -> str:
    """Run the command as in a terminal, and return what it says."""
    return CliRunner().invoke(app, [*arguments], catch_exceptions=False).output


async def forecast(page: Page) -> str:
    """Return the exact error that a page has come to."""
    await page.wait_for_selector(f"{SETTLED} .big", timeout=60_000)
    return await page.get_attribute("#forecast .big data", "value") or ""


async def test_from_an_empty_console_to_an_estimate_in_under_five_minutes(
    console: Served, page: Page, tmp_path: Path
) -> None:
    began = time.monotonic()
    key, own = str(tmp_path / "key.pem"), tmp_path / "income-above-100k.campaign"
    await asyncio.to_thread(geoveil, "campaign", "keygen", key)
    await page.goto(f"{console.base}/console/")
    await page.click("text=plan a survey")

    first = await forecast(page)  # without a click
    await sound(page, "plan")
    # A slider, by the keyboard alone.
    await page.focus("[data-logarithm-of=participants]")
    await page.keyboard.press("ArrowLeft")
    await page.wait_for_function(
        "was => document.querySelector('#forecast .big data').value !== was", arg=first
    )
    assert float(await forecast(page)) > float(first)
    # What cannot be had is offered as what can.
    await page.click("text=An error that you need")
    await page.fill("#target_error", "0.003")
    await page.click(".ways >> text=people", timeout=60_000)
    assert float(await forecast(page)) <= 0.003
    assert int(await page.input_value("#participants")) > 60_000

    await page.fill("#title", "Income above 100k")
    await page.fill("#minimum_participants", "2")
    await page.focus("text=Make the campaign to sign")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("text=Sign it on your machine", timeout=60_000)
    await sound(page, "sign")
    async with page.expect_download() as saved:
        await page.click("text=Save income-above-100k.campaign")
    await (await saved.value).save_as(own)
    said = await asyncio.to_thread(geoveil, "campaign", "sign", str(own), "--sign-key", key)
    assert "Income above 100k" in said
    await page.set_input_files("#signed", own.with_suffix(".signed.campaign"))
    await page.click("text=Check it")
    await page.wait_for_selector("text=The signature is valid")
    await sound(page, "publish")
    await page.click("button:text-is('Publish')")

    await page.wait_for_selector("[data-reports]")
    await page.click("text=the page for participants")
    await page.fill("#value", "87500")
    await page.click("#send")
    await page.wait_for_selector("#state.good", timeout=60_000)
    await page.goto(f"{console.base}/console/surveys/income-above-100k")
    campaign = await console.analyst(lambda analyst: analyst.campaign("income-above-100k"))
    await console.report(campaign, 1_999)
    await page.wait_for_selector("text=Live: as of 2,000 reports.", timeout=30_000)
    assert await page.locator(".answer .big").count() == 1
    assert time.monotonic() - began < 300

    await page.click("summary:has-text('Close it')")
    await page.click("text=Close this survey")
    await page.wait_for_selector(".chip.closed")


async def test_each_question_has_its_fields_and_its_forecast(console: Served, page: Page) -> None:
    await page.goto(f"{console.base}/console/plan")
    await forecast(page)
    for ask, shown, hidden in (
        ("range", "#low", "#threshold"),
        ("circle", "#radius", "#per"),
        ("place", "#bandwidth", "#radius"),
    ):
        was = await page.inner_text("#forecast")
        await page.check(f"[data-ask={ask}]")
        assert await page.is_visible(shown)
        assert not await page.is_visible(hidden)
        await page.wait_for_function(
            "was => document.querySelector('#forecast').innerText !== was", arg=was, timeout=60_000
        )
        await forecast(page)
        assert "apart" in await page.inner_text("[data-odds]")
    await page.check("[data-ask=threshold]")
    await page.fill("#threshold", "-5e9")
    await page.wait_for_selector("#forecast .problem", timeout=60_000)
    assert "everybody" in await page.inner_text("#forecast")
