"""Simulations of many people, and their command."""

import json
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import typer
from scipy import stats
from typer.testing import CliRunner

from geoveil.aggregator import SQLiteStore
from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Submission
from geoveil.campaign import Allocation, Attribute, Question, StatisticCampaign, encode, seal
from geoveil.cli.simulate import bulk, export, scale
from geoveil.gp import GeoPrivacy, ParameterError, TwoWayThreshold
from geoveil.gp.estimation import Accumulator, estimate, sums_of
from geoveil.simulation import collisions, computing, household_incomes, incomes_and_debts
from geoveil.simulation.demo import experiments
from geoveil.simulation.scale import (
    BlockedWork,
    ClusterError,
    ExportError,
    FinishedFileError,
    computer,
    in_this_process,
    simulated,
    total,
)
from geoveil.simulation.scale.simulated import integers
from tests.campaigns import above_100k

OPENS = datetime(2026, 1, 1, tzinfo=UTC)
INCOMES, PLACES = experiments(OPENS)
SMALL = {"seed": 7, "block_size": 1_000}


def incomes(devices=40_500, **changes):
    return simulated(INCOMES.campaign, household_incomes(), devices, **(SMALL | changes))


@pytest.fixture(scope="module", params=[1, 2])
def workers(request):
    with computer(None, request.param) as compute:
        yield compute


@pytest.mark.deep(keep=0)
def test_one_worker_two_workers_and_a_loop_give_the_same_bits(workers):
    """41 blocks, in groups of 1, 7 and 64; devices that answer one query of four too."""
    for work in (incomes(), simulated(PLACES.campaign, collisions(), 9_300, **SMALL)):
        plain = [Accumulator()] * work.queries
        for number in reversed(range(work.blocks)):
            plain = [a + b for a, b in zip(plain, work.block(number), strict=True)]
        assert sum(sums.n for sums in plain) == work.devices
        for group_size in (1, 7, 64):
            assert total(work, workers, group_size=group_size) == plain
            assert total(work, group_size=group_size) == plain


@pytest.mark.deep
@pytest.mark.parametrize("workers", [2], indirect=True)
def test_an_error_of_a_worker_arrives(workers):
    class Broken(Numbers):
        def block(self, number):
            raise ParameterError("number", number, "never asked for")

    with pytest.raises(ParameterError, match="never asked for"):
        total(Broken(3), workers)


@pytest.mark.deep
@pytest.mark.parametrize("workers", [2], indirect=True)
def test_the_death_of_workers_changes_nothing(workers, tmp_path):
    """Each of two workers dies in turn, so that what it alone held must be made again."""

    class Deadly(Numbers):
        def block(self, number):
            if number % 8 == 4 and not (died := tmp_path / f"died{number}").exists():
                died.touch()
                os._exit(1)
            return super().block(number)

    assert total(Deadly(16), workers, group_size=1) == [Accumulator.of(range(16))]
    assert len(list(tmp_path.iterdir())) == 2


def test_seed_block_size_and_number_of_the_block_each_change_the_draws():
    work = incomes(3_000)
    blocks = [work.block(i)[0] for i in range(3)]
    assert len({b.total for b in blocks}) == 3
    assert incomes(3_000, seed=8).block(0)[0] != blocks[0]
    assert total(incomes(3_000, block_size=1_500)) != total(work)
    assert work.block(0)[0] == blocks[0]


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("experiment", [INCOMES, PLACES], ids=["incomes", "places"])
def test_estimates_agree_with_the_exact_truth_and_the_predicted_error(experiment):
    """200,000 devices: |z| < 4.9 (alpha = 1e-6); 1.3 times the predicted error is not seen."""
    sums = total(simulated(experiment.campaign, experiment.population, 200_000, seed=3))
    rows = zip(sums, experiment.truths, experiment.predictions(), strict=True)
    for of_query, truth, predicted in rows:
        got = estimate(of_query, experiment.campaign.grid_exponent)
        ran = predicted["DebiasedLaplace"]
        error = math.sqrt((ran.noise + ran.varied) / of_query.n)
        assert abs(got.value - truth) < 4.9 * error
        assert got.standard_error == pytest.approx(error, rel=0.1)
        assert got.standard_error != pytest.approx(1.3 * error, rel=0.1)


def two_way(allocation, thresholds=(100_000.0, 150_000.0)):
    return StatisticCampaign(
        campaign_id="two",
        title="Both above",
        attribute=Attribute(name="income and debt", unit="dollar"),
        privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        questions=tuple(
            Question(f"{t:g}", TwoWayThreshold((t, t), 24_000, "smoothstep")) for t in thresholds
        ),
        allocation=allocation,
        opens=OPENS,
        closes=OPENS + timedelta(days=1),
    )


@pytest.mark.deep
@pytest.mark.parametrize("allocation", [Allocation.SPLIT, Allocation.REPEAT])
def test_split_and_repeat_campaigns_get_every_device_to_answer_every_query(allocation):
    people, campaign = incomes_and_debts(), two_way(allocation)
    sums = total(simulated(campaign, people, 200_000, seed=1))
    assert [s.n for s in sums] == [200_000] * 2
    for question, s in zip(campaign.questions, sums, strict=True):
        got = estimate(s, campaign.grid_exponent)
        assert abs(got.value - people.mean(question.query.value)) < 4.9 * got.standard_error


def test_partitioned_devices_answer_queries_uniformly():
    """20,000 devices, two queries: binomial at alpha = 1e-6; a 45:55 share would be noticed."""
    first, second = total(
        simulated(two_way(Allocation.PARTITION), incomes_and_debts(), 20_000, seed=2)
    )
    low, high = stats.binom.interval(1 - 1e-6, 20_000, 0.5)
    assert first.n + second.n == 20_000
    assert low <= first.n <= high
    assert not low <= 0.45 * 20_000 <= high


class Numbers(BlockedWork):
    """Block i holds the integer i; counts how often it is asked."""

    queries = 1
    blocks = 0

    def __init__(self, blocks, name="numbers"):
        self.blocks = blocks
        self.name = name
        self.asked = []

    def block(self, number):
        self.asked.append(number)
        return [Accumulator.of([number])]

    def fingerprint(self):
        return f"{self.name} {self.blocks}"


def interrupted_after(groups):
    def compute(work, waiting):
        for i, result in enumerate(in_this_process(work, waiting)):
            if i == groups:
                raise KeyboardInterrupt
            yield result

    return compute


def test_an_interrupted_run_goes_on_from_its_finished_groups(tmp_path):
    path, work, seen = tmp_path / "done", Numbers(20), []
    with pytest.raises(KeyboardInterrupt):
        total(work, interrupted_after(3), group_size=3, path=path)
    work.asked.clear()
    got = total(work, group_size=4, path=path, on_progress=lambda *done: seen.append(done))
    assert got == [Accumulator.of(range(20))]
    assert work.asked == list(range(9, 20))
    assert seen == [(9, 20), (13, 20), (17, 20), (20, 20)]
    work.asked.clear()
    assert total(work, path=path) == got
    assert work.asked == []


def test_groups_may_finish_in_any_order(tmp_path):
    def backwards(work, waiting):
        return in_this_process(work, waiting[::-1])

    def some(work, waiting):
        yield from [*backwards(work, waiting)][:2]
        raise KeyboardInterrupt

    path, work = tmp_path / "done", Numbers(10)
    with pytest.raises(KeyboardInterrupt):
        total(work, some, group_size=2, path=path)
    assert total(work, backwards, group_size=3, path=path) == [Accumulator.of(range(10))]
    assert sorted(work.asked[-6:]) == list(range(6))


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_a_line_that_a_crash_cut_short_is_computed_again(tmp_path, cut):
    path, work = tmp_path / "done", Numbers(4)
    total(work, group_size=1, path=path)
    path.write_bytes(path.read_bytes()[:-cut])
    work.asked.clear()
    assert total(work, path=path) == [Accumulator.of(range(4))]
    assert work.asked == [3]
    assert total(work, path=path) == [Accumulator.of(range(4))]


def test_finished_blocks_of_other_work_are_refused_and_left_alone(tmp_path):
    path = tmp_path / "done"
    total(Numbers(4), path=path)
    before = path.read_bytes()
    for other in (Numbers(5), Numbers(4, "others")):
        with pytest.raises(FinishedFileError, match="from other work"):
            total(other, path=path)
    assert path.read_bytes() == before
    works = [incomes(), incomes(seed=8), incomes(40_501), incomes(block_size=999)]
    works.append(replace(incomes(), people=collisions().mapped(lambda v: v[:, 0], "degree")))
    assert len({work.fingerprint() for work in works}) == len(works)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"my only copy of a letter",
        lambda data: data + data.splitlines(keepends=True)[1],
        lambda data: data.replace(b'"end": 2', b'"end": 9'),
        lambda data: data.replace(b'[2, "1", "1"]', b'[2, "9", "1"]'),
    ],
)
def test_damaged_files_are_refused_and_left_alone(tmp_path, spoil):
    path = tmp_path / "done"
    total(Numbers(4), group_size=2, path=path)
    path.write_bytes(spoil(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(FinishedFileError, match="finished blocks"):
        total(Numbers(4), path=path)
    assert path.read_bytes() == before


def test_two_runs_do_not_share_a_file(tmp_path):
    path = tmp_path / "done"

    def meanwhile(work, waiting):
        with pytest.raises(FinishedFileError, match="another run"):
            total(Numbers(4), path=path)
        return in_this_process(work, waiting)

    assert total(Numbers(4), meanwhile, path=path) == [Accumulator.of(range(4))]


@pytest.mark.parametrize("extreme", [-(2**63), 2**63 - 1])
def test_sums_do_not_overflow_at_the_extremes(extreme):
    """Over as many as are summed at a time, all at the worst end."""
    n = 1 << 18
    expected = Accumulator(n, n * extreme, n * extreme**2)
    assert [*sums_of(np.full(n, extreme, np.int64), np.array([0]))] == [expected]


def test_integers_round_and_saturate_as_releases_do():
    reports = np.array(
        [0.5, 1.5, -0.5, 2.0**62, -(2.0**63), 2.0**63, -1e300, np.nextafter(2.0**63, 0)]
    )
    low, high = -(2**63), 2**63 - 1
    assert integers(reports, 0).tolist() == [0, 2, 0, 2**62, low, high, low, 2**63 - 1024]
    assert integers(np.array([0.75]), -2).tolist() == [3]


@pytest.mark.parametrize(
    ("name", "value"),
    [("devices", 0), ("devices", 1.0), ("seed", -1), ("block_size", 1 << 25)],
)
def test_numbers_out_of_range_are_refused(name, value):
    with pytest.raises(ParameterError, match=name):
        incomes(**{name: value})


def test_people_who_do_not_fit_the_campaign_are_refused():
    with pytest.raises(ParameterError, match="numbers that each member holds"):
        simulated(INCOMES.campaign, collisions(), 10, seed=1)
    with pytest.raises(ParameterError, match="Population of places"):
        simulated(PLACES.campaign, incomes_and_debts(), 10, seed=1)


def test_bad_ways_to_compute_are_refused():
    for arguments in [("tcp://127.0.0.1:9", 2), (None, 0), (None, True), (None, 1.5)]:
        with pytest.raises(ParameterError, match="workers"), computer(*arguments):
            pass
    with pytest.raises(ParameterError, match="group_size"):
        total(Numbers(3), group_size=0)


def test_a_scheduler_that_is_not_there_is_reported(monkeypatch):
    monkeypatch.setattr(computing, "_CONNECT_S", 0.3)
    with (
        pytest.raises(ClusterError, match="no Dask scheduler answers"),
        computer("tcp://127.0.0.1:9", None),
    ):
        pass


@pytest.mark.deep
def test_workers_without_work_are_killed_and_not_waited_for(monkeypatch):
    """On a busy machine, waiting ended in an error after all results had come."""
    real, killed = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, by: (killed.append((pid, by)), real(pid, by)))
    with computer(None, 1) as compute:
        ((_, worker),) = compute(lambda _: os.getpid(), [0])
        assert killed == []
    assert (worker, signal.SIGKILL) in killed


def test_any_scheduler_address_will_do():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address="127.0.0.1:0"
        ) as elsewhere,
        computer(elsewhere.scheduler_address, None) as compute,
    ):
        assert elsewhere.scheduler_address.startswith("inproc://")
        assert total(incomes(5_000), compute, group_size=2) == total(incomes(5_000))


@pytest.mark.deep(keep=0)
def test_importing_the_package_loads_no_cluster_and_no_parquet():
    code = (
        "import sys, geoveil.simulation, geoveil.simulation.scale\n"
        "print(*{'dask', 'distributed', 'pyarrow', 'pandas', 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


APP = typer.Typer()
for command in (scale, export, bulk):
    APP.command(command.__name__)(command)


@pytest.fixture(autouse=True)
def without_processes(monkeypatch):
    """Starting workers is tested elsewhere."""

    class Here:
        def __enter__(self):
            return in_this_process

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("geoveil.cli.simulate.computer", lambda scheduler, workers: Here())


def run(*arguments):
    return CliRunner().invoke(APP, [str(a) for a in arguments], env={"COLUMNS": "80"})


def rows(*arguments):
    result = run(*arguments, "--json")
    assert result.exit_code == 0
    return json.loads(result.stdout)


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("population", ["incomes", "places"])
def test_the_table_fits_and_shows_two_digits_of_each_error(population):
    result = run("scale", "--devices", 300_000, "--population", population)
    assert result.exit_code == 0
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    (row, *_) = rows("scale", "--devices", 300_000, "--population", population)
    assert f"{row['standard_error']:.5f}" in result.stdout


def test_files_of_people_take_part(tmp_path):
    """Two kinds of people, 3:1 by weight, far from the threshold on either side."""
    path = tmp_path / "people.csv"
    path.write_text("pay,debt,count\n10,10,3\n900,800,1\n")
    options = ("--threshold", 300, "--epsilon", 1, "--per", 30, "--devices", 50_000)
    (row,) = rows("scale", "--population", path, "--value", "pay", "--weight", "count", *options)
    assert row["truth"] == 0.25
    assert abs(row["estimate"] - 0.25) < 4.9 * row["standard_error"]
    (row,) = rows("scale", "--population", path, "--value", "pay", "--value", "debt", *options)
    assert row["truth"] == 0.5


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--population", "nobody"], "population"),
        (["--population", "people.csv"], "value"),
        (["--population", "incomes", "--value", "a"], "population"),
        (["--epsilon", "0"], "epsilon"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, name):
    error = run("scale", *arguments).exception
    assert isinstance(error, ParameterError)
    assert name in error.name


def test_export_and_bulk_give_the_sums_of_the_aggregator(tmp_path):
    campaign = above_100k("incomes")
    values = [(-1) ** i * i * 10_001 for i in range(500)]
    with SQLiteStore(tmp_path / "a.db") as store:
        record = CampaignRecord(campaign_id="incomes", published=seal(encode(campaign)), queries=1)
        store.create_campaign(record)
        reports = [PackedReport(i.to_bytes(16), pack([(0, v)])) for i, v in enumerate(values)]
        store.commit([Submission("incomes", reports, True)])
    result = run("export", tmp_path / "a.db", tmp_path / "out")
    assert result.exit_code == 0
    assert result.stdout.startswith("500 reports in ")
    (row,) = rows("bulk", tmp_path / "out", "--confidence", 0.9)
    limits = campaign.limits[0]
    expected = estimate(Accumulator.of(values), campaign.grid_exponent, 0.9, limits)
    assert (row["uncut"], row["standard_error"]) == (expected.value, expected.standard_error)
    assert (row["ci_low"], row["ci_high"], row["n"]) == (expected.ci_low, expected.ci_high, 500)
    assert row["truth"] is None
    assert "90 % interval" in run("bulk", tmp_path / "out", "--confidence", 0.9).stdout
    assert isinstance(run("bulk", tmp_path).exception, ExportError)
    again = run("export", tmp_path / "a.db", tmp_path / "out")
    assert isinstance(again.exception, ExportError)
