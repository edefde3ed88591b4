"""A form from its TOML to its reports: a real server, 200 devices, an export, and the command."""

import asyncio
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from geoveil.analyst import Analyst, Shares, fields_of_toml, form_reports_of, reports_of
from geoveil.campaign import FormCampaign
from geoveil.client import AsyncClient, Policy
from geoveil.gp import ParameterError
from geoveil.simulation.local_server import local_server
from geoveil.simulation.scale import write_reports

PEOPLE = 200
FORM = """
[[field]]
kind = "number"
name = "income"
unit = "dollar"
least = 0
most = 500000
epsilon = 1
per = 8000
text = "What did your household earn last year?"
[[field]]
kind = "place"
name = "home"
epsilon = 1
per = 500
area = { longitude_deg = 2.35, latitude_deg = 48.86, radius_m = 15000 }
[[field]]
kind = "choice"
name = "rents"
options = ["yes", "no"]
epsilon = 2
[[field]]
kind = "number"
name = "rent"
unit = "dollar"
least = 0
most = 5000
epsilon = 1
per = 1000
applies = { field = "rents", options = ["yes"] }
[[field]]
kind = "multiple"
name = "ways"
options = ["bus", "train", "car"]
epsilon = 1
[[field]]
kind = "choice"
name = "region"
options = ["north", "south"]
epsilon = "open"
"""
LINES = "income=52321\nhome=2.361234,48.851234\nrents=yes\nrent=912\nways=bus,car\nregion=south\n"


def form(campaign_id, **more):
    now = datetime.now(UTC)
    return FormCampaign(
        campaign_id=campaign_id,
        title="Household",
        fields=fields_of_toml(FORM),
        opens=now - timedelta(hours=1),
        closes=now + timedelta(days=1),
        **more,
    )


def answers_of(person):
    answers = {
        "income": 400.0 * person,
        "home": (2.3 + person / 4000, 48.86),
        "rents": "no" if person % 3 else "yes",
        "ways": ["bus", "car"][: person % 3],
        "region": ("north", "south")[person % 2],
    }
    return answers if person % 3 else answers | {"rent": 5.0 * person}


async def answered(address, campaign):
    """Return what left all devices: row after row."""

    async def one(person):
        policy = Policy.permitting(campaign)
        async with AsyncClient(address, policy=policy, background=False) as client:
            await client.fetch(campaign.campaign_id)
            receipt = await client.contribute(campaign.campaign_id, answers_of(person))
            assert (await client.flush()).acknowledged == 1
        return [answer.value for answer in receipt.answers]

    rows = []
    for first in range(0, PEOPLE, 20):
        rows += await asyncio.gather(*(one(i) for i in range(first, first + 20)))
    return rows


@pytest.mark.deep(keep=0)
def test_what_200_devices_sent_is_what_the_analyst_reads(tmp_path):
    campaign = form("household", minimum_participants=PEOPLE)
    with local_server(tmp_path / "form.db") as address, Analyst(address) as analyst:
        analyst.create(campaign)
        assert analyst.published("household") == campaign
        sent = asyncio.run(answered(address, campaign))
        counted = sorted([campaign.counted(i, k) for i, k in enumerate(row)] for row in sent)
        reports = form_reports_of(analyst.export("household"))
        assert reports.columns.tolist() == counted
        assert write_reports(analyst.export("household"), tmp_path / "form.parquet") == PEOPLE
        assert next(iter(analyst.campaigns())).campaign == campaign
    read = form_reports_of(tmp_path / "form.parquet")
    assert read.campaign == campaign
    assert np.array_equal(read.columns, reports.columns)
    shares = read.ask(Shares("region"))
    assert "north" in str(shares)
    with pytest.raises(ParameterError, match="form"):
        form_reports_of([])


def test_a_campaign_of_another_kind_is_no_form():
    from tests.client.test_forms import form as other

    with pytest.raises(ParameterError, match="period"):
        form_reports_of([other(period=timedelta(days=9)).encoded])
    with pytest.raises(Exception, match="form of several fields"):
        reports_of([other().encoded])


@pytest.mark.deep(keep=0)
def test_the_command_asks_shows_answers_and_exports(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from geoveil.cli.app import app
    from geoveil.cli.console import err, out

    for console in (out, err):
        monkeypatch.setattr(console, "width", 160)
    (tmp_path / "form.toml").write_text(FORM)
    with local_server(tmp_path / "form.db") as address:

        def run(*arguments, stdin=None):
            return CliRunner().invoke(app, [*arguments, "--server", address], input=stdin)

        create = ("campaign", "create", "Household", "--form", str(tmp_path / "form.toml"))
        made = run(*create, "--id", "household")
        assert made.exit_code == 0, made.output
        refused = run(*create, "--attribute", "income")
        assert refused.exit_code != 0
        shown = run("campaign", "show", "household").output
        for words in ("region: sent as it is", "rents: ε = 4.5 per 1 option", "adds up"):
            assert words in shown
        assert '"any_two_epsilon": 4.5' in run("campaign", "show", "household", "--json").output
        assert "rents: ε = 4.5" in run("campaign", "list").output
        take_part = ("contribute", "household", "--yes", "--state-dir")
        for wrong in (LINES.replace("yes", "83715"), LINES.replace("52321", "83715x"), "debt=83715",
                      LINES.replace("region=south\n", "")):  # fmt: skip
            failed = run(*take_part, str(tmp_path / "none"), stdin=wrong)
            assert failed.exit_code != 0
            assert "83715" not in failed.output + repr(failed.exception)
        for person in ("one", "two"):
            done = run(*take_part, str(tmp_path / person), stdin=LINES)
            assert "counted: report" in done.output
            assert "52321" not in done.output
        exported = run("campaign", "export", "household", "--out", str(tmp_path / "r.parquet"))
        assert "2 rows" in exported.output
        asked = run("estimate", "household")
        assert asked.exit_code != 0
    assert form_reports_of(tmp_path / "r.parquet").n == 2
