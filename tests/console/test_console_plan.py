"""The pages of planning without a screen: fields, files, drafts, signatures, publishing."""

import base64
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import timedelta
from html import unescape
from typing import Any

import numpy as np
import pytest

from geoveil.aggregator.ops.tokens import Scope, TokenFile
from geoveil.analyst import PlanRequest, plan_for, questions_in
from geoveil.campaign import (
    Asker,
    Translation,
    decode,
    encode,
    of_any_two,
    open_envelope,
    seal,
    signer,
)
from geoveil.console import process
from geoveil.console.http import RefusedError
from geoveil.console.kept import Kept
from geoveil.console.planning.answers import Planner
from geoveil.console.planning.pages import _odds
from geoveil.console.planning.plan_form import PlanForm
from geoveil.console.process import ChildProcess, SupersededError
from geoveil.gp import LogScale, ParameterError
from geoveil.simulation.priors import public_prior

from .served import form_token, numbers, served, survey, uploaded

FORGED = "<img src=x onerror=alert(1)>\"'{{7*7}}"


@pytest.fixture
async def console(tmp_path):
    async with served(tmp_path, tokens=True) as made:
        yield made


def message(task: str, **changes: Any) -> dict[str, Any]:
    told = {"campaign_id": "made", "now": time.time()}
    return {"task": task, "form": asdict(PlanForm(**changes)), **told}


@pytest.mark.deep
async def test_a_signed_file_is_checked_and_published_as_it_is(console, caplog):
    caplog.set_level(logging.INFO, "geoveil")
    asker = Asker(organisation=FORGED, purpose="buses", contact="a@bergen.example")
    brought = survey("brought", title=FORGED, asker=asker)
    brought = replace(brought, delete_after=brought.closes)
    sealed = seal(encode(brought), console.key)
    async with console.signed_in() as client:
        token = form_token((await client.get("/console/publish")).text)
        sent = {"data": {"form_token": token} | await uploaded(client, "signed", sealed)}
        answer = await client.post("/console/publish", **sent)
        assert answer.status_code == 303
        where = answer.headers["location"]
        shown = (await client.get(where)).text
        assert FORGED not in shown
        assert FORGED in unescape(shown)
        assert str(console.key.public) in shown
        async with console.signed_in() as other:
            assert (await other.get(where)).status_code == 404
        answer = await client.post(where, data={"form_token": token})
        assert answer.headers["location"] == "/console/surveys/brought"
        shown = (await client.get("/console/surveys/brought")).text
        assert FORGED not in shown
        assert f"<dt>Who asks</dt><dd><bdi>{FORGED}</bdi>" in unescape(shown)
        assert f"deletes single answers after {brought.closes:%Y-%m-%d %H:%M} UTC" in shown
        (listed,) = await console.analyst(lambda analyst: [*analyst.campaigns()])
        assert listed.envelope.SerializeToString(deterministic=True) == sealed
        told = {"form_token": token}
        forged = await client.post("/console/surveys/brought/close", data={"form_token": "x"})
        assert forged.status_code == 403
        answer = await client.post("/console/surveys/brought/close", data=told)
        assert answer.status_code == 303
        assert "closed" in (await client.get("/console/surveys/brought")).text
    actions = [vars(one) for one in caplog.records if one.message == "console"]
    assert [one["action"] for one in actions if "sign" not in one["action"]] == ["publish", "close"]
    assert {one["signer"] for one in actions if "signer" in one} == {str(console.key.public)}


@pytest.mark.deep
async def test_files_that_are_no_signed_campaign_are_refused(console):
    sealed = seal(encode(survey("brought")), console.key)
    changed = sealed.replace(b"Household", b"Neighbour")
    async with console.signed_in() as client:
        token = form_token((await client.get("/console/publish")).text)
        for content in (b"rubbish", seal(encode(survey())), changed, sealed[:-1], sealed + b"\x00"):
            sent = {"data": {"form_token": token} | await uploaded(client, "signed", content)}
            answer = await client.post("/console/publish", **sent)
            assert answer.status_code == 200
            assert 'class="problem"' in answer.text
        answer = await client.post("/console/publish", data={"form_token": token})
        assert 'class="problem"' in answer.text or answer.status_code == 415


async def test_a_token_publishes_and_closes_what_it_may(console, tmp_path):
    await console.publish(survey())
    bob = TokenFile(tmp_path / "tokens.json").create("bob", [Scope.LIST, Scope.ESTIMATE], None)
    sealed = seal(encode(survey("brought")), console.key)
    async with console.signed_in(bob) as client:
        token = form_token((await client.get("/console/publish")).text)
        sent = {"data": {"form_token": token} | await uploaded(client, "signed", sealed)}
        where = (await client.post("/console/publish", **sent)).headers["location"]
        assert (await client.post(where, data={"form_token": token})).status_code == 403
        told = {"form_token": token}
        assert (await client.post("/console/surveys/income/close", data=told)).status_code == 403
        TokenFile(tmp_path / "tokens.json").revoke("bob")
        assert (await client.get("/console/plan")).status_code == 401


async def test_fields_that_hold_rubbish_are_named(console):
    async with console.signed_in() as client:
        token = form_token((await client.get("/console/publish")).text)
        for field, value, said in (
            ("threshold", "abc", "Threshold must be a number"),
            ("epsilon", "", "ε must be given"),
            ("participants", "1.5", "Participants must be a whole number"),
            ("participants", "-5", "Participants must be"),
            ("ask", FORGED, "Ask must be one of"),
            ("people", "/etc/passwd", "People must be one of"),
            ("days", "1e9", "Days must be"),
            ("delete_after", "-1", "The days until deletion must be"),
            ("delete_after", "1.5", "The days until deletion must be a whole number"),
            ("purpose", "x" * 501, "Purpose must be at most 500 letters"),
            ("title", "x" * 300, "Title must be at most 200 letters"),
            ("texts", "x" * 50_001, "Texts must be at most 50,000 letters"),
            ("people", "file", "File must be chosen"),
        ):
            told = {"form_token": token, field: value}
            answer = await client.post("/console/plan", data=told)
            assert answer.status_code == 200
            assert said in unescape(answer.text), field
            assert FORGED not in answer.text


def test_what_is_kept_is_bounded_and_its_owners():
    kept = Kept()
    key = kept.keep("alice", b"hers")
    assert kept.find("alice", key) == b"hers"
    assert kept.find("bob", key) is None
    for number in range(300):
        kept.keep("bob", b"%d" % number + bytes(300_000))
    assert kept.find("alice", key) is None
    assert kept._size <= 48 << 20


@pytest.mark.parametrize(
    "changes",
    [{"region": "{"}, {"region": "[" * 100_000}, {"region": '{"type":"FeatureCollection"}'}],
)
def test_a_district_is_one_polygon(changes):
    with pytest.raises(ParameterError) as caught:
        PlanForm(ask="region", **changes).asked()  # type: ignore[arg-type]  # texts alone
    assert caught.value.name == "region"


def test_what_is_known_of_a_file_is_never_repeated():
    planner = Planner()

    def told(content: bytes, **changes: Any) -> dict[str, Any]:
        people = {"key": str(hash(content)), "content": base64.b64encode(content).decode()}
        form = {"people": "file", "columns": "income", **changes}
        return planner.answer(message("forecast", **form) | {"people": people})

    rows = b"income\n" + b"\n".join(b"%d" % one for one in range(50_000, 150_000, 50))
    assert told(rows)["told"]["prior"]["name"] == "the uploaded file"
    for content, changes in (
        (b"income\n12\nsecret-7\n", {}),
        (b"secret-7\n12\n", {}),
        (b"income\n" + b"1\n" * 300_000, {}),
        (b"PAR1 secret-7", {}),
        (rows, {"columns": ""}),
        (rows, {"columns": "a,b"}),
        (b"\x00\xff\xfe", {}),
    ):
        refused = told(content, **changes)["refused"]
        assert "secret" not in str(refused)
        assert "/tmp" not in str(refused)
    assert "column" in told(b"income\n12\nsecret-7\n")["refused"]["expected"]


@pytest.mark.deep
def test_a_small_file_that_unpacks_to_much_is_refused():
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"income": np.zeros(10_000_000)}), sink, compression="zstd")
    content = sink.getvalue().to_pybytes()
    assert len(content) < 1 << 20
    people = {"key": "bomb", "content": base64.b64encode(content).decode()}
    form = {"people": "file", "columns": "income"}
    answer = Planner().answer(message("forecast", **form) | {"people": people})
    assert "at most 200,000 rows" in answer["refused"]["expected"]


@pytest.mark.deep
async def test_the_page_says_what_the_command_does_and_makes_its_campaign(console):
    asked, source = questions_in({"threshold": ["100000"]}), public_prior("lognormal:98000,0.83")
    request = PlanRequest.of(
        asked, source=source, participants=20_000, unit="dollar", epsilon=1.0, per=8_000.0
    )
    planned = plan_for(request)
    targets = planned.report()["targets"]
    fields = {"people": "lognormal", "median": "98000", "sigma": "0.83", "participants": "20000"}
    said = {"organisation": "City of <b>Bergen</b>", "purpose": "buses", "delete_after": "90"}
    async with console.signed_in() as client:
        token = form_token((await client.get("/console/plan")).text)
        for then in ("forecast", "settle", ""):
            told = {"form_token": token, "then": then} | fields | said
            answer = await client.post("/console/plan", data=told, timeout=60)
            shown = unescape(answer.text)
            assert f'value="{targets["hard_question"]["error_95"]}"' in shown
            headline = "for what is asked of the population, with 95 % confidence"
            assert headline in shown
            assert headline in planned.report()["reason"]
            assert f"±{targets['population']['error_95']:.3g}" in shown
            assert "geoveil plan --threshold=100000" in shown
            assert "--organisation 'City of <b>Bergen</b>' \\\n    --purpose buses" in shown
            assert "--purpose buses \\\n    --delete-after 90" in shown
        told = {"form_token": token, "title": "It's “above”", "days": "2"} | fields | said
        answer = await client.post("/console/plan/campaign", data=told, timeout=60)
        assert "The contact must be 1 to 200 visible characters" in unescape(answer.text)
        told |= {"contact": "a@bergen.example", "notice": "https://bergen.example/n"}
        refused = {"texts": '[de]\ntitle = "a\\u202eb"'}
        answer = await client.post("/console/plan/campaign", data=told | refused, timeout=60)
        assert "[de] translation.title must be 1 to 200 visible characters" in unescape(answer.text)
        told["texts"] = 'language = "en"\r\n[de]\r\ntitle = "Über <b>"\r\npurpose = "Busse"'
        answer = await client.post("/console/plan/campaign", data=told, timeout=60)
        where = answer.headers["location"]
        said = unescape((await client.get(where)).text)
        assert "It's “above”" in said
        assert "City of <b>Bergen</b>" in said
        assert "<b>Bergen" not in (await client.get(where)).text
        assert 'href="https://bergen.example/n"' in said
        assert '<bdi lang="de">Über <b>; City of <b>Bergen</b>; Busse; a@bergen.example' in said
        file = (await client.get(where.replace("/sign/", "/campaign/"))).content
        envelope = open_envelope(file)
        assert signer(envelope) is None
        made = decode(envelope.campaign)
        asker = Asker(
            organisation="City of <b>Bergen</b>", purpose="buses", contact="a@bergen.example",
            notice="https://bergen.example/n",
        )  # fmt: skip
        own = planned.campaign(
            campaign_id=made.campaign_id, title=made.title, opens=made.opens, closes=made.closes,
            minimum_participants=100, delete_after=made.closes + timedelta(days=90),
            asker=asker, language="en",
            translations=(
                Translation(language="de", title="Über <b>", asker=replace(asker, purpose="Busse")),
            ),
        )  # fmt: skip
        assert f"deletes single answers after {made.delete_after:%Y-%m-%d %H:%M} UTC" in said
        assert made == own
        assert (made.closes - made.opens).days == 2


@pytest.mark.deep
async def test_a_pilot_on_this_server_is_what_a_plan_goes_by(console):
    pilot = numbers("pilot")
    await console.publish(pilot)
    await console.report(pilot, 2_000)
    async with console.signed_in() as client:
        page = (await client.get("/console/plan")).text
        assert '<option value="pilot"' in page
        told = {"form_token": form_token(page), "people": "pilot", "pilot": "pilot"}
        told |= {"threshold": "60000", "then": "forecast"}
        answer = await client.post("/console/plan", data=told, timeout=60)
        assert "A pilot sees no heap" in answer.text
        assert 'class="big"' in answer.text
        told["pilot"] = "nothing"
        answer = await client.post("/console/plan", data=told, timeout=60)
        assert answer.status_code == 404


@pytest.mark.deep
def test_only_the_last_of_somebodys_questions_counts():
    running = ChildProcess("geoveil.console.planning")
    try:
        running.ask("anybody", message("forecast"))  # begun
        with ThreadPoolExecutor(20) as threads:
            busy = threads.submit(running.ask, "alice", message("forecast", ask="circle"))
            time.sleep(0.05)
            asked = []
            for step in range(8):
                told = message("forecast", epsilon=1 + step / 10)
                asked.append(threads.submit(running.ask, "bob", told))
                time.sleep(0.02)
            found = [one.exception() for one in asked]
            assert busy.result()["told"]
        assert found[-1] is None
        assert SupersededError in {type(one) for one in found}
        assert {type(one) for one in found} <= {SupersededError, type(None)}
    finally:
        running.close()
    with pytest.raises(RefusedError, match="stopping"):
        running.ask("alice", message("forecast"))


def _plan_for_ever(running: ChildProcess) -> None:
    for step in range(200):
        running.ask("alice", message("plan", ask="range", epsilon=1 + step / 1_000))


@pytest.mark.deep
def test_a_process_that_ends_or_hangs_is_begun_again(monkeypatch):
    running = ChildProcess("geoveil.console.planning")
    try:
        running.ask("alice", message("forecast"))
        first = running._process
        assert first is not None
        threading.Timer(0.01, first.kill).start()
        with pytest.raises(RefusedError, match="interrupted"):
            _plan_for_ever(running)
        assert running.ask("alice", message("forecast"))["told"]
        monkeypatch.setattr(process, "LONGEST_S", 0.001)
        with pytest.raises(RefusedError, match="too long"):
            running.ask("alice", message("plan", ask="circle"))
        monkeypatch.setattr(process, "LONGEST_S", 60.0)
        assert running.ask("alice", message("forecast"))["told"]
    finally:
        running.close()


@pytest.mark.deep(keep=0, rest=1)
def test_numbers_are_planned_by_ratio_too():
    """The page and the command say the same factor; the campaign has the scale."""
    wish = {"compare": "ratio", "factor": 2.0, "ratios_from": 1_000.0, "epsilon": 2.0}
    found = Planner().answer(message("plan", **wish))["told"]
    request = PlanRequest.of(
        questions_in({"threshold": ["100000"]}), source=public_prior("incomes"), epsilon=2.0,
        per=2.0, participants=50_000, scale=LogScale(1_000.0),
    )  # fmt: skip
    assert found["targets"] == plan_for(request).report()["targets"]
    assert found["by_ratio"]
    assert [words for words, *_ in _odds(found["privacy"])][1] == "half or twice as much"
    made = Planner().answer(message("campaign", **wish))
    campaign = decode(open_envelope(base64.b64decode(made["envelope"])).campaign)
    assert campaign.attribute.scale == LogScale(1_000.0)
    written = PlanForm(**wish)  # type: ignore[arg-type]  # of several kinds
    assert "--per 2 \\\n    --participants 50000" in written.commands()
    assert "--ratios-from 1000" in written.commands()


@pytest.mark.deep(keep=0, rest=1)
def test_a_cap_is_that_of_the_plan_or_none():
    """The page and the command make the same campaign."""
    for said, capped in ((PlanForm().cap, True), ("none", False)):
        made = Planner().answer(message("campaign", cap=said, participants=200_000))
        campaign = decode(open_envelope(base64.b64decode(made["envelope"])).campaign)
        assert (of_any_two(campaign) == ", any two values 967.8 to 1") is capped
        written = PlanForm(cap=said)
        assert ("--cap none" in written.commands()) is not capped
