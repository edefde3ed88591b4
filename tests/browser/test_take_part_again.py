"""Test that a browser draws once, in two tabs, without a connection and after it was killed."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from playwright.async_api import Browser, BrowserContext, Error, Page, async_playwright

from geoveil.campaign import Readings
from geoveil.gp import GeoPrivacy
from geoveil.proto.v1.collector_pb2 import SubmitReportsRequest

from .conftest import start_browser
from .surveys import Survey, axe, counted, report_of, submitted
from .test_take_part import PRIVATE, answer, campaign_of

pytestmark = pytest.mark.deep
SUBMIT = "**/geoveil.proto.v1.Collector/SubmitReports"
_TIMES = "GEOVEIL_KILLED_TABS"


@pytest.fixture
async def survey(survey):
    await survey.create(campaign_of("income"))
    return survey


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
