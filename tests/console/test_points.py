"""Test the pages of points: equal to an analyst's client, with inert files."""

import asyncio
import csv
import io
import json
import os
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.analyst import STATISTICS, Districts, new_york_boroughs
from geoveil.analyst.campaigns import campaign_for_points
from geoveil.analyst.contamination import MEAN_MOVES
from geoveil.campaign import Attribute, Question
from geoveil.campaign.entry_points import added
from geoveil.console.layer import layer_in
from geoveil.console.point_choices import choices_of
from geoveil.console.survey import doubted
from geoveil.gp import Cap, GeoPrivacy, LogScale, ParameterError, Threshold
from tests.campaign.test_families import install
from tests.campaigns import NOW

from .served import Served, form_token, numbers, places, served, survey, uploaded

FORGED = "<img src=x onerror=alert(1)>\"'&"
SPOTS = "Times Square=-73.9855,40.758\nBattery=-74.017,40.703\nFlushing=-73.83,40.76"


@pytest.fixture
async def console(tmp_path):
    async with served(tmp_path) as made:
        yield made


async def ask(client: httpx.AsyncClient, campaign_id: str, **said: Any) -> str:
    answer = await client.get(f"/console/surveys/{campaign_id}/ask", params=said)
    assert answer.status_code == 200, answer.text
    return answer.text


def problem_in(page: str) -> str:
    found = re.search(r'class="problem" role="alert">([^<]*)<', page)
    return found[1] if found else ""


OF_NUMBERS = {
    "curve": "",
    "density": "",
    "histogram": "",
    "quantile": "0.5, 0.25",
    "threshold": "100000",
    "range": "50000, 100000",
    "mean": "",
    "gini": "",
    "top-share": "0.1",
}
OF_PLACES = {"map": "", "top": SPOTS, "nearest": SPOTS, "circle": "-73.97, 40.72, 3000"}


def code_in(page: str) -> list[str]:
    return [unescape(one) for one in re.findall(r"<pre[^>]*><code>(.*?)</code>", page, re.DOTALL)]


async def run(console: Served, code: str) -> Any:
    """Run Python that a page shows, and return what it found."""
    where = f'"{console.aggregator.address}"'
    names: dict[str, Any] = {}
    await asyncio.to_thread(exec, re.sub(r'"localhost:[0-9]+"', where, code), names)
    return names["found"]


@pytest.mark.deep(rest=4)
@pytest.mark.parametrize("what", [*OF_NUMBERS, *OF_PLACES])
async def test_a_statistic_has_a_page_and_its_python_makes_the_same(console, what):
    campaign = numbers() if what in OF_NUMBERS else places()
    await console.publish(campaign)
    await console.report(campaign, 1_000)
    async with console.signed_in() as client:
        said = (OF_NUMBERS | OF_PLACES)[what]
        page = await ask(client, campaign.campaign_id, what=what, said=said)
        assert problem_in(page) == ""
        assert "<table>" in page
        (code,) = code_in(page)
        link = re.search(r'href="([^"]*save=0.json)"', page)
        assert link is not None
        saved = await client.get(unescape(link[1]))
        made = await run(console, code)
        assert saved.json() == json.loads(json.dumps(made.to_dict()))
        assert "attachment" in saved.headers["content-disposition"]


def test_every_statistic_is_a_choice_by_its_declared_name():
    half = GeoPrivacy.per_factor(2.0, 2, "dollar")
    ratios = Attribute(name="income", unit=half.unit, scale=LogScale(1_000.0))
    offered = [
        {of.word: of.name for of in choices_of(campaign)}
        for campaign in (numbers(), numbers("ratios", attribute=ratios, privacy=half), places())
    ]
    for name, family in STATISTICS.built_in.items():
        assert {of[name] for of in offered if name in of} == {family.title}
    in_dollars, by_ratio, of_places = (STATISTICS.built_in.keys() & of.keys() for of in offered)
    assert in_dollars - by_ratio == {"density", "gini", "mean", "top-share"}
    assert by_ratio - in_dollars == {"geometric-mean"}
    assert of_places == {"map", "districts", "nearest"}
    assert [next(iter(of)) for of in (offered[0], offered[2])] == ["curve", "map"]


@pytest.mark.deep(keep=0)
async def test_a_statistic_of_another_package_has_its_form_and_picture(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "statistic.md").read_text()
    module = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert module is not None
    entries = {"share-among": "among:FAMILY", "gone": "among:NOTHING"}
    install(tmp_path, "among", module[1], statistics=entries)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    added.cache_clear()
    async with served(tmp_path) as console:
        await console.publish(numbers(), places())
        await console.report(numbers(), 1_000)
        async with console.signed_in() as client:
            word, said = "statistic.share-among", "low=50000, high=100000, width=24000"
            empty = await ask(client, "incomes", what=word)
            assert (
                "Name=value for low (the lower value), high (the higher value), width (of the band"
                " of both thresholds), with commas"
            ) in empty
            assert "<table>" not in empty
            shown = await ask(client, "incomes", what=word, said=said)
            assert problem_in(shown) == ""
            assert "<svg" in shown
            (code,) = code_in(shown)
            made = await run(console, code)
            link = re.search(r'href="([^"]*save=0.json)"', shown)
            assert link is not None
            saved = await client.get(unescape(link[1]))
            assert saved.json() == json.loads(json.dumps(made.to_dict()))
            broken = await ask(client, "incomes", what="statistic.gone")
            assert "among:NOTHING" in unescape(problem_in(broken))
            wrong = await ask(client, "incomes", what=word, said="low=2, high=1, width=1")
            assert "greater than low=2" in unescape(problem_in(wrong))
            assert "share-among" not in await ask(client, "places", what="circle")
    added.cache_clear()


@pytest.mark.deep(keep=0, rest=1)
async def test_values_compared_by_ratio_have_no_mean_and_answers_in_dollars(console):
    scale, half = LogScale(1_000.0), GeoPrivacy.per_factor(2.0, 2, "dollar")
    attribute = Attribute(name="household income", unit=half.unit, scale=scale)
    campaign = numbers("ratios", attribute=attribute, privacy=half)
    words = {choice.word for choice in choices_of(campaign)}
    assert words.isdisjoint({"mean", "density", "gini", "top-share", "changes-mean"})
    await console.publish(campaign)
    await console.report(campaign, 1_500)
    async with console.signed_in() as client:
        for what, said in (("histogram", ""), ("geometric-mean", ""), ("threshold", "60000")):
            assert what in words
            page = await ask(client, "ratios", what=what, said=said)
            assert problem_in(page) == "", what
            (code,) = code_in(page)
            found = await run(console, code)
            assert found.rows()
        page = await ask(client, "ratios", what="threshold", said="900")
        assert "above 1,000" in unescape(problem_in(page))


@pytest.mark.deep(rest=0)
async def test_periods_and_doubts_are_asked_too(console):
    campaign = numbers(opens=NOW - timedelta(days=15), period=timedelta(days=7))
    await console.publish(campaign)
    for period in (0, 1):
        await console.report(campaign, 400, period=period)
    async with console.signed_in() as client:
        for more in (
            {"what": "quantile", "period": 1},
            {"what": "histogram", "said": "50000", "contamination": "0.01", "period": 1},
            {"what": "threshold", "said": "50000", "contamination": "0.02"},
            {"what": "changes", "said": "50000, 90000", "people": "different"},
            {"what": "changes-range", "said": "50000, 90000"},
            {"what": "changes-mean"},
            {"what": "changes-quantile", "said": "0.5", "people": "different"},
            {"what": "changes-curve"},
        ):
            page = await ask(client, "incomes", **more)
            assert problem_in(page) == "", more
            for code in code_in(page):
                (await run(console, code)).rows()


@pytest.mark.deep(rest=0)
async def test_two_surveys_are_compared_as_softly_as_the_noisier_needs(console):
    noisy = GeoPrivacy(1.0, per=16_000.0, unit="dollar")
    both = numbers(), numbers("again", privacy=noisy)
    await console.publish(*both)
    for campaign, around in zip(both, ([60_000.0], [90_000.0]), strict=True):
        await console.report(campaign, 600, around=around)
    async with console.signed_in() as client:
        assert problem_in(await ask(client, "again", what="changes-mean")) == ""  # says what next
        for more in (
            {"what": "changes", "said": "75000"},
            {"what": "changes-mean"},
            {"what": "changes-quantile", "said": "0.5"},
            {"what": "changes-curve"},
        ):
            page = await ask(client, "again", against="incomes", people="different", **more)
            assert problem_in(page) == "", more
            assert "again − incomes" in page
            (code,) = code_in(page)
            found = await run(console, code)
            assert (found.low > 0).any() or (found.high < 0).any()
            link = re.search(r'href="([^"]*save=0.json)"', page)
            assert link is not None
            saved = (await client.get(unescape(link[1]))).json()
            assert saved == json.loads(json.dumps(found.to_dict()))
        none = await client.get(
            "/console/surveys/again/ask", params={"what": "changes-mean", "against": "nowhere"}
        )
        assert problem_in(none.text)


NOT_TO_BE_ASKED = (
    {"what": "histogram", "said": "a, b"},
    {"what": "histogram", "said": "2, 1"},
    {"what": "quantile", "said": "1.5"},
    {"what": "quantile", "said": "1e999"},
    {"what": "threshold", "said": "nan"},
    {"what": "range", "said": "1"},
    {"what": "range", "said": "5, 1"},
    {"what": "curve", "contamination": "7"},
    {"what": "curve", "contamination": FORGED},
    {"what": "threshold", "said": FORGED},
    {"what": "threshold", "said": "/etc/passwd"},
)


@pytest.mark.deep(keep=0)
async def test_what_can_t_be_asked_is_told_and_inert(console):
    campaign = numbers()
    await console.publish(campaign)
    await console.report(campaign, 50)
    async with console.signed_in() as client:
        for said in NOT_TO_BE_ASKED:
            answer = await client.get("/console/surveys/incomes/ask", params=said)
            assert answer.status_code in (200, 400), said
            assert 'class="problem"' in answer.text, said
            assert "<img" not in answer.text, said
            asked = said | {"save": "0.csv"}
            saved = await client.get("/console/surveys/incomes/ask", params=asked)
            assert saved.status_code in (400, 404), said


@pytest.mark.deep(rest=0)
async def test_districts_come_from_a_file_and_are_not_kept(console):
    campaign = places()
    await console.publish(campaign)
    await console.report(campaign, 500)
    boroughs = new_york_boroughs()
    boroughs["features"] = [
        feature
        for feature in boroughs["features"]
        if feature["properties"]["name"] in ("Brooklyn", "Bronx")
    ]
    for feature in boroughs["features"]:
        feature["properties"]["name"] = f"={feature['properties']['name']} {FORGED}"
    async with console.signed_in() as client:
        page = await ask(client, "places", what="districts")
        told = {"what": "districts", "form_token": form_token(page)}
        told |= await uploaded(client, "file", json.dumps(boroughs).encode())
        path = "/console/surveys/places/ask"
        answer = await client.post(path, data=told)
        assert problem_in(answer.text) == ""
        assert "<img" not in answer.text
        assert "Brooklyn" in answer.text
        assert f'value="{told["upload:file"]}"' in answer.text
        saved = await client.post(path, data=told | {"save": "0.csv"})
        rows = [*csv.DictReader(io.StringIO(saved.text))]
        assert all(row["name"].startswith("'=") or row["name"] == "elsewhere" for row in rows)
        found = await console.analyst(lambda one: one.ask("places", Districts(boroughs)).rows())
        assert [float(row["estimate"]) for row in rows] == [row["estimate"] for row in found]
        saved = await client.post(path, data=told | {"save": "0.geojson"})
        assert len(saved.json()["features"]) == len(boroughs["features"])
        saved = await client.post(path, data=told | {"save": "0.svg"})
        assert saved.text.startswith("<svg")
        assert "<img" not in saved.text
        for rubbish in (
            b"{}", b"[]", b"[" * 100_000, b"\xff\xfe", b'{"type": "FeatureCollection"}',
            b'{"type": "Polygon", "coordinates": [[[NaN, 1], [2, 3], [4, 5], [NaN, 1]]]}',
            b'{"type": "Polygon", "coordinates": [[[1e400, 1], [2, 3], [4, 5], [1e400, 1]]]}',
            b'{"type": "Feature", "geometry": null, "properties": {"name": {}}}',
        ):  # fmt: skip
            answer = await client.post(path, data=told | await uploaded(client, "file", rubbish))
            assert (answer.status_code, problem_in(answer.text) != "") == (200, True), rubbish[:60]
        headers = {"content-type": "application/octet-stream", "x-form-token": form_token(page)}
        much = b" " * ((1 << 20) + 1)
        answer = await client.post("/console/uploads", content=much, headers=headers)
        assert answer.status_code == 413


@pytest.mark.deep(rest=0)
async def test_files_are_ranked_compared_and_drawn_on_the_map(console):
    campaign = places(opens=NOW - timedelta(days=15), period=timedelta(days=7))
    await console.publish(campaign)
    for period in (0, 1):
        await console.report(campaign, 400, period=period)
    boroughs = new_york_boroughs()
    spots = {
        "type": "FeatureCollection",
        "features": [
            *boroughs["features"],
            {
                "type": "Feature",
                "properties": {"name": f"Battery {FORGED}"},
                "geometry": {"type": "Point", "coordinates": [-74.017, 40.703]},
            },
        ],
    }
    async with console.signed_in() as client:
        token = form_token(await ask(client, "places", what="map"))
        path = "/console/surveys/places/ask"
        for what, content in (
            ("top-districts", boroughs), ("changes-districts", boroughs), ("map", spots)
        ):  # fmt: skip
            told = {"what": what, "form_token": token, "count": "2", "period": "0"}
            told |= await uploaded(client, "file", json.dumps(content).encode())
            page = (await client.post(path, data=told)).text
            assert problem_in(page) == "", what
            assert "<img" not in page
            (code,) = code_in(page)
            text = "json.loads(boroughs)"
            code = code.replace('json.load(open("districts.geojson"))', text)
            code = code.replace(
                "import json\n", f"import json\nboroughs = {json.dumps(boroughs)!r}\n"
            )
            made = await run(console, code)
            saved = await client.post(path, data=told | {"save": "0.json"})
            assert saved.json() == json.loads(json.dumps(made.to_dict())), what
            svg = (await client.post(path, data=told | {"save": "0.svg"})).text
            assert ("Battery &lt;img" in svg) == (what == "map")
        page = await ask(client, "places", what="changes-places", said=SPOTS)
        assert problem_in(page) == ""
        (code,) = code_in(page)
        assert len((await run(console, code)).rows()) == 3


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"type": "Point"},
        {"type": "Point", "coordinates": [1.0]},
        {"type": "Point", "coordinates": [1.0, 91.0]},
        {"type": "Point", "coordinates": [10**400, 1]},
        {"type": "Point", "coordinates": [float("nan"), 1.0]},
        {"type": "Polygon", "coordinates": [[[[1.0, 1.0]]]]},
        {"type": "MultiPoint", "coordinates": [[1.0, 1.0]] * 2_001},
    ],
)
def test_a_layer_that_is_none_is_refused(content):
    with pytest.raises(ParameterError, match="file"):
        layer_in(content)


def test_collections_without_end_are_refused():
    content: dict[str, Any] = {"type": "Point", "coordinates": [1.0, 1.0]}
    for _ in range(20):
        content = {"type": "GeometryCollection", "geometries": [content]}
    with pytest.raises(ParameterError, match="file"):
        layer_in(content)


@pytest.mark.deep(keep=0)
async def test_labels_that_are_formulas_or_markup_do_nothing(console):
    for sign in "=+-@":
        campaign = survey(
            f"forged{ord(sign)}",
            title=f"{sign}{FORGED}",
            attribute=Attribute(name=FORGED, unit="<b>unit</b>"),
            privacy=GeoPrivacy(1.0, 8_000.0, "<b>unit</b>"),
            questions=(Question(f"{sign}1+1 {FORGED}", Threshold(1e5, 24_000, "smoothstep")),),
            cap=Cap(4.0, 4.0),
        )
        await console.publish(campaign)
        await console.report(campaign, 20)
        async with console.signed_in() as client:
            path = f"/console/surveys/{campaign.campaign_id}"
            for page in ("/console/", path, f"{path}/estimate.svg"):
                text = (await client.get(page)).text
                assert "<img" not in text
                assert "<b>unit" not in text
            assert "If 20 honest reports reach the analyst" in (await client.get(path)).text
            saved = (await client.get(f"{path}/estimate.csv")).text
            (row,) = csv.DictReader(io.StringIO(saved))
            assert row["query"].startswith(f"'{sign}1+1")
            assert float(row["estimate"]) == pytest.approx(0.4, abs=1.5)


@pytest.mark.deep(keep=0)
async def test_a_survey_without_enough_answers_shows_none_of_its_points(console):
    campaign = numbers(minimum_participants=500)
    await console.publish(campaign)
    await console.report(campaign, 100)
    async with console.signed_in() as client:
        page = (await client.get("/console/surveys/incomes")).text
        assert "Nothing is shown yet" in page
        assert "<svg" not in page.partition("How it fills")[0]
        assert page.count("<svg") == 1  # how many reports there are is no secret
        asked = await ask(client, "incomes", what="curve")
        assert "500" in problem_in(asked)
        assert "<svg" not in asked
        for kind in ("csv", "json", "svg"):
            saved = await client.get(f"/console/surveys/incomes/estimate.{kind}")
            assert saved.status_code == 409


async def test_parts_of_estimates_are_saved_and_made_by_their_python(console):
    campaign = survey(
        opens=NOW - timedelta(days=15),
        period=timedelta(days=7),
    )
    await console.publish(campaign)
    for period in (0, 1):
        await console.report(campaign, 300, period=period)
    async with console.signed_in() as client:
        page = (await client.get("/console/surveys/income")).text
        links = [unescape(one) for one in re.findall(r'href="([^"]*/parts/[^"]*json[^"]*)"', page)]
        codes = [one for one in code_in(page) if "compare" in one]
        assert len(links) == len(codes) == 1
        for link, code in zip(links, codes, strict=True):
            saved = (await client.get(link)).json()
            assert saved == json.loads(json.dumps((await run(console, code)).to_dict()))
        for wrong in ("parts/none.csv", "parts/change0.exe", "parts/change0.csv?people=all"):
            answer = await client.get(f"/console/surveys/income/{wrong}")
            assert answer.status_code in (400, 404)


@pytest.mark.deep
async def test_the_process_of_statistics_knows_no_token_and_is_begun_again(tmp_path):
    async with served(tmp_path, tokens=True) as console:
        campaign = numbers()
        await console.publish(campaign)
        await console.report(campaign, 100)
        async with console.signed_in() as client:
            page = await ask(client, "incomes", what="mean")
            assert "token=TOKEN" in page
            running = console.console._asking._process
            first = running._process
            assert first is not None
            with open(f"/proc/{first.pid}/environ", "rb") as environment:  # noqa: ASYNC230
                told = environment.read()
            assert (console.token or "").encode() not in told
            first.kill()
            first.wait()
            assert "<table>" in await ask(client, "incomes", what="mean")
            assert running._process is not first
        only = TokenFile(tmp_path / "tokens.json").create("reader", [Scope.LIST], None)
        async with console.signed_in(only) as client:
            answer = await client.get("/console/surveys/incomes/ask", params={"what": "mean"})
            assert answer.status_code == 403
            assert "permit" in answer.text
            answer = await client.get("/console/surveys/none/ask")
            assert answer.status_code == 404


def test_no_number_bounds_what_false_answers_do_to_the_mean_of_points():
    now = datetime.now(UTC)
    campaign = campaign_for_points(
        attribute="debt",
        privacy=GeoPrivacy(1.0, per=5_000.0, unit="euro"),
        plane=None,
        campaign_id="debts",
        title="Debts",
        opens=now,
        closes=now + timedelta(days=1),
    )
    told = doubted(SimpleNamespace(campaign=campaign, estimates=()), 0.01)
    assert told == MEAN_MOVES
