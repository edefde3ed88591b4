"""Exported reports add up to the aggregator's own bits, on one process and on Dask."""

import json
import os
import shutil
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import distributed
import numpy as np
import pyarrow.parquet as parquet
import pytest

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.domain.layout import Layout
from geoveil.aggregator.domain.reports import Report
from geoveil.aggregator.store import CampaignRecord, Submission
from geoveil.aggregator.store.schema import VERSION
from geoveil.campaign import (
    Allocation,
    Question,
    Readings,
    SmoothSpec,
    digest,
    encode,
    seal,
)
from geoveil.client import Limit, Policy, ReportBuilder
from geoveil.gp import GeoPrivacy, ParameterError, Threshold
from geoveil.proto.v1 import report_pb2
from geoveil.simulation import household_incomes
from geoveil.simulation.scale import ExportError, computer, export_reports, exported, total
from tests.campaigns import above_100k, asked_for_points

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRIVACY = GeoPrivacy(1.0, 8_000.0, "dollar")


def campaign(name, queries, allocation=Allocation.PARTITION):
    asked = tuple(
        Question(f"above {t}", Threshold(1_000.0 * t, 24_000, "smoothstep"))
        for t in range(50, 50 + 25 * queries, 25)
    )
    return above_100k(
        name, questions=asked, allocation=allocation, opens=NOW, closes=NOW + timedelta(days=1)
    )


CAMPAIGNS = [
    campaign("one", 1),
    campaign("parted", 3),
    campaign("split", 2, Allocation.SPLIT),
    campaign("silent", 2),
]
REPORTS = {"one": 1_500, "parted": 700, "split": 400, "silent": 0}


COHORTS = Readings(every=timedelta(days=91), cohorts=2)


def packed(accepted, value, period=0, cohort=0):
    made = BUILDER.draw(accepted, BUILDER.point(accepted, value), period, cohort)
    report = report_pb2.Report.FromString(made.report)
    answers = [(answer.query_index, answer.value) for answer in report.answers]
    layout = Layout.of(accepted.campaign)
    return layout.pack([Report(report.report_id, answers, report.period)])[0]


BUILDER = ReportBuilder(policy=Policy({"household income": Limit(campaign=PRIVACY, cohorts=2)}))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """A real aggregator's database, with real reports, some sent twice."""
    path = tmp_path_factory.mktemp("aggregator") / "a.db"
    rng = np.random.default_rng(4)
    with SQLiteStore(path) as store:
        for asked in CAMPAIGNS:
            name, published = asked.campaign_id, seal(encode(asked))
            queries = Layout.of(asked).sums
            store.create_campaign(
                CampaignRecord(campaign_id=name, published=published, queries=queries)
            )
            accepted = BUILDER.accept(name, published)
            incomes = household_incomes().sample(REPORTS[name], rng).tolist()
            reports = [packed(accepted, income) for income in incomes]
            if reports:
                store.commit([Submission(name, reports, True), Submission(name, reports[:9], True)])
    return path


@pytest.fixture
def folder(database, tmp_path):
    assert export_reports(database, tmp_path / "export", rows=128) == sum(REPORTS.values())
    return tmp_path / "export"


def totals(database):
    with SQLiteStore(database) as store:
        return {asked.campaign_id: store.totals(asked.campaign_id) for asked in CAMPAIGNS}


def test_the_bulk_estimate_has_the_bits_of_the_aggregator(database, folder):
    works = exported(folder)
    assert [work.campaign for work in works] == CAMPAIGNS
    for work in works:
        sums = total(work)
        assert sums == totals(database)[work.campaign.campaign_id]
        work.check(sums)
    assert sum(s.n for s in total(works[2])) == 800  # everybody answers both


def test_dask_gives_the_same_bits(database, folder):
    with (
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        computer(cluster.scheduler_address, None) as compute,
    ):
        for work in exported(folder):
            expected = totals(database)[work.campaign.campaign_id]
            assert total(work, compute, group_size=2) == expected


def test_the_files_hold_answers_and_nothing_else(folder):
    """No id of a report; answers of `parted` in several files and row groups."""
    files = sorted(folder.rglob("*.parquet"))
    assert {file.parent.name for file in files} == {
        f"campaign={digest(encode(asked)).hex()}" for asked in CAMPAIGNS if asked != CAMPAIGNS[3]
    }
    for file in files:
        schema = parquet.read_schema(file)
        assert [(f.name, str(f.type)) for f in schema] == [
            ("period", "uint32"),
            ("query_index", "uint32"),
            ("value", "int64"),
        ]
        assert not schema.metadata
    assert len(exported(folder)[0].row_groups) == 12


def test_a_dataset_reader_finds_campaigns_as_a_column(folder):
    """The layout is the usual one: pyarrow's own reader, not ours, groups by campaign."""
    import pyarrow.dataset as dataset

    table = dataset.dataset(folder, format="parquet", partitioning="hive").to_table()
    counts = table.group_by("campaign").aggregate([("value", "count"), ("value", "sum")])
    found = {row["campaign"]: row for row in counts.to_pylist()}
    work = exported(folder)[0]
    row = found[digest(encode(work.campaign)).hex()]
    assert (row["value_count"], row["value_sum"]) == (1_500, work.aggregator[0].total)


def test_some_campaigns_only(database, tmp_path):
    seen = []
    count = export_reports(
        database,
        tmp_path / "x",
        campaign_ids=["split"],
        on_progress=lambda *done: seen.append(done),
    )
    assert count == 400
    assert seen[-1] == (400, 400)
    assert [work.campaign.campaign_id for work in exported(tmp_path / "x")] == ["split"]


def test_the_export_is_of_one_moment_and_changes_nothing(database, tmp_path):
    """Reports that come while it runs are left out of rows and sums alike."""
    database = shutil.copy(database, tmp_path / "copy.db")
    before = totals(database)
    name = "parted"
    asked = CAMPAIGNS[1]
    accepted = BUILDER.accept(name, seal(encode(asked)))
    came = []

    def meanwhile(done, of):
        if not came:
            with SQLiteStore(database) as store:
                came.extend(store.commit([Submission(name, [packed(accepted, 1e5)], True)]))

    export_reports(database, tmp_path / "export", on_progress=meanwhile)
    assert came
    for work in exported(tmp_path / "export"):
        sums = total(work)
        work.check(sums)
        assert sums == before[work.campaign.campaign_id]
    after = totals(database)[name]
    assert sum(s.n for s in after) == sum(s.n for s in before[name]) + 1


def largest(folder):
    return max(folder.rglob("*.parquet"), key=lambda file: file.stat().st_size)


def swap(folder):
    """Put another campaign's file in the place of one."""
    first, second = (work.row_groups[0][0] for work in exported(folder)[:2])
    os.replace(folder / second, folder / first)


def rewrite(folder):
    """Change one answer, and write a sound file of the same shape."""
    file = folder / exported(folder)[0].row_groups[0][0]
    table = parquet.read_table(file)
    values = table.column("value").to_numpy().copy()
    values[5] += 1
    parquet.write_table(
        table.set_column(2, table.schema.field(2), [values]), file, row_group_size=128
    )


@pytest.mark.parametrize("spoil", [lambda folder: largest(folder).unlink(), swap, rewrite])
def test_lost_and_changed_files_are_noticed(folder, spoil):
    spoil(folder)
    with pytest.raises(ExportError):
        [work.check(total(work)) for work in exported(folder)]


@pytest.mark.deep
def test_no_flipped_bit_changes_a_sum(folder):
    """At 150 places of a file; some bits, of statistics for example, matter to nobody."""
    (work,) = [work for work in exported(folder) if len(work.row_groups) == 12]
    file = folder / work.row_groups[0][0]
    good = file.read_bytes()
    noticed = 0
    for place in np.linspace(0, len(good) - 1, 150).astype(int):
        bad = bytearray(good)
        bad[place] ^= 1 << int(place % 8)
        file.write_bytes(bad)
        try:
            work.check(total(work))
        except ExportError:
            noticed += 1
    assert noticed > 75


def test_what_is_no_finished_export_is_refused(folder, tmp_path):
    with pytest.raises(ExportError, match="not a finished export"):
        exported(tmp_path)
    manifest = folder / "_manifest.json"
    good = json.loads(manifest.read_text())
    for bad in ("{", "[]", json.dumps(good | {"campaigns": [{}]})):
        manifest.write_text(bad)
        with pytest.raises(ExportError, match="damaged"):
            exported(folder)
    manifest.write_text(json.dumps(good | {"format": "geoveil reports 9"}))
    with pytest.raises(ExportError, match="another version"):
        exported(folder)


def test_what_cannot_be_exported_is_refused_and_writes_nothing(database, tmp_path):
    target = tmp_path / "x"
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    newer = tmp_path / "newer.db"
    with sqlite3.connect(newer) as connection:
        connection.execute(f"CREATE TABLE {VERSION.name} (version_num TEXT)")
        connection.execute(f"INSERT INTO {VERSION.name} VALUES ('0099')")
    connection.close()
    text = tmp_path / "text.db"
    text.write_text("not a database, " * 100)
    for path in (tmp_path / "absent.db", other, newer, text):
        with pytest.raises(ExportError, match=path.name) as caught:
            export_reports(path, target)
        assert "send again" not in str(caught.value)
    with pytest.raises(ExportError, match="no campaign 'nobody'"):
        export_reports(database, target, campaign_ids=["nobody"])
    with pytest.raises(ParameterError, match="rows"):
        export_reports(database, target, rows=0)
    assert not target.exists()
    assert not (tmp_path / "absent.db").exists()
    target.mkdir()
    with pytest.raises(ExportError, match="exists already"):
        export_reports(database, target)


@pytest.fixture(scope="module")
def other_kinds(tmp_path_factory):
    """Points, a recurring campaign, and noise so heavy-tailed that its sums are kept in blocks."""
    path = tmp_path_factory.mktemp("other") / "a.db"
    rng = np.random.default_rng(5)
    asked = [
        asked_for_points(campaign("points", 1), 1),
        replace(campaign("weekly", 2), closes=NOW + timedelta(days=21), period=timedelta(days=7)),
        replace(campaign("heavy", 2), mechanism=SmoothSpec(0.3), step_exponent=None),
        replace(campaign("cohorts", 2), readings=COHORTS),
        asked_for_points(campaign("placed", 1), 1, readings=COHORTS),
    ]  # fmt: skip
    with SQLiteStore(path) as store:
        for one in asked:
            name = one.campaign_id
            published, sums = seal(encode(one)), Layout.of(one).sums
            store.create_campaign(
                CampaignRecord(campaign_id=name, published=published, queries=sums)
            )
            accepted = BUILDER.accept(name, published)
            incomes = household_incomes().sample(300, rng).tolist()
            reports = [
                packed(accepted, income, number % one.periods, number % one.cohorts)
                for number, income in enumerate(incomes)
            ]
            store.commit([Submission(name, reports, True)])
    return path


def test_every_kind_of_campaign_is_exported_and_adds_up(other_kinds, tmp_path):
    export_reports(other_kinds, tmp_path / "export", rows=64)
    works = points, weekly, heavy, cohorts, placed = exported(tmp_path / "export")
    assert [len(total(work)) for work in works] == [1, 6, 2, 4, 2]
    for work in works:
        work.check(total(work))
        assert sum(s.n for s in total(work)) == 300
    assert points.labels == ("x",)
    assert weekly.labels[:3] == ("above 50 (0)", "above 75 (0)", "above 50 (1)")
    assert cohorts.labels[1:3] == ("above 75, cohort 0", "above 50, cohort 1")
    assert [s.n for s in total(placed)] == [150, 150]
    with SQLiteStore(other_kinds) as store:
        blocks = store.totals("heavy")
    assert len(blocks) == 64
    assert total(heavy)[1].total == sum(block.total for block in blocks[32:])


def test_points_are_rows_of_coordinates_in_their_order(other_kinds, tmp_path):
    export_reports(other_kinds, tmp_path / "export", campaign_ids=["points"])
    (file,) = (tmp_path / "export").rglob("*.parquet")
    schema = parquet.read_schema(file)
    assert [(f.name, str(f.type)) for f in schema] == [("period", "uint32"), ("x", "int64")]
    with SQLiteStore(other_kinds) as store:
        (sums,) = store.totals("points")
    values = parquet.read_table(file).column("x").to_pylist()
    assert sum(values) == sums.total
    assert values == sorted(values)
