"""Test that differences by command equal Python's, to the digit."""

import json
from dataclasses import replace
from datetime import timedelta
from functools import partial

import numpy as np
import pytest

from geoveil.analyst import (
    Analyst,
    DistributionFunction,
    MeanValue,
    Quantiles,
    ReportRows,
    ask_changes,
    compare,
    reports_of,
)
from geoveil.campaign import encode
from geoveil.gp import ParameterError
from geoveil.simulation.scale import write_reports
from tests.campaigns import DAY, NOW, perturbed_incomes

from .test_statistics import of
from .test_values import send

N = 500


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The points of two periods in a file, and of another campaign in another."""
    campaign = perturbed_incomes("monthly", opens=NOW - 60 * DAY, period=30 * DAY)
    rng = np.random.default_rng(8)
    found = []
    once = {"period": None, "campaign_id": "once", "closes": NOW + DAY}
    for made, periods in ((campaign, 2), (replace(campaign, **once), 1)):
        incomes = rng.lognormal(11.3, 0.5, N * periods)
        incomes[N:] *= 0.7
        noisy = incomes + rng.laplace(0.0, 8_000.0, len(incomes))  # not private: made up
        points = np.rint(noisy / made.point_mechanism.step).astype(np.int64)
        which = np.repeat(np.arange(periods, dtype=np.uint32), N)
        path = tmp_path_factory.mktemp("export") / f"{made.campaign_id}.parquet"
        write_reports(iter([encode(made), ReportRows(which, None, (points,))]), path)
        found.append(path)
    return found


@pytest.mark.deep
def test_a_change_between_periods_is_that_of_python(geoveil, files):
    monthly = reports_of(files[0])
    asking = [partial(monthly.ask, confidence=0.9, period=period) for period in (0, 1)]
    opens, both = monthly.campaign.opens, [monthly.campaign] * 2
    names = [f"{opens + n * timedelta(days=30):%Y-%m-%d}" for n in (0, 1)]
    asked = ["--quantile", "0.5", "--confidence", "0.9", "--change", "0,1"]
    told = json.loads(of(geoveil, files[0], *asked, "--people", "different", "--json").stdout)
    median = Quantiles(levels=[0.5])
    made = ask_changes(asking, median, both, people="different", names=names)
    assert told == made.to_dict()
    (median,) = told["rows"]
    assert median["ci_high"] < 0
    (same,) = json.loads(of(geoveil, files[0], *asked[:2], *asked[-2:], "--json").stdout)["rows"]
    assert same["standard_error"] > median["standard_error"]
    table = of(geoveil, files[0], "--threshold", "80000", *asked[-2:]).stdout
    assert f"{names[1]} − {names[0]}: above 80,000" in " ".join(table.split())


def test_another_campaign_is_compared_with(geoveil, files):
    told = of(
        geoveil, files[1], "--threshold", "60000", "--against", str(files[1]), "--json"
    ).stdout
    (row,) = json.loads(told)["rows"]
    assert (row["name"], row["estimate"], row["p"]) == ("once − once: above 60,000", 0, 1)


@pytest.mark.deep
def test_what_goes_not_together_is_refused(geoveil, files):
    refused = {
        "FIRST,LAST": ["--mean", "--change", "1"],
        "left out with --against": ["--mean", "--change", "0,1", "--against", "another"],
        "which names two": ["--mean", "--change", "0,1", "--period", "0"],
        "at least one": ["--change", "0,1"],
        "with --change and a question": ["--mean", "--people", "same"],
        "over-time": ["--label", "above", "--change", "0,1"],
        "estimates": ["--density", "--change", "0,1"],
        "different periods": ["--mean", "--change", "1,1"],
    }
    for expected, asked in refused.items():
        with pytest.raises(ParameterError, match=expected):
            of(geoveil, files[0], *asked)
    with pytest.raises(ParameterError, match="does not recur"):
        of(geoveil, files[1], "--mean", "--change", "0,1")


@pytest.mark.deep
def test_a_server_is_asked_alike_and_for_fixed_questions(geoveil, server):
    made = ["--attribute", "income", "--unit", "dollar", "--epsilon", "1", "--per", "8000"]
    incomes = np.random.default_rng(8).lognormal(11.3, 0.5, 300)
    for number, name in enumerate(("early", "late")):
        geoveil("campaign", "create", name, *made, "--points", "--id", name)
        geoveil("campaign", "create", name, *made, "--threshold", "80000", "--id", f"{name}-fixed")
        for one in (name, f"{name}-fixed"):
            send(server, one, (incomes * (1 - 0.5 * number)).tolist())
    with Analyst(server) as analyst:
        campaigns = [analyst.campaign(name) for name in ("early", "late")]
        asking = [partial(analyst.ask, name) for name in ("early", "late")]
        points = [
            ask_changes(asking, one, campaigns, people="same", names=["early", "late"]).to_dict()
            for one in (MeanValue(), DistributionFunction())
        ]
        joints = [analyst.estimate(f"{name}-fixed").joint() for name in ("early", "late")]
        fixed = compare(*joints, people="different", names=["early-fixed", "late-fixed"])
    told = of(geoveil, "late", "--mean", "--curve", "--against", "early", "--json").stdout
    assert json.loads(told)["results"] == points
    asked = ["--against", "early-fixed", "--people", "different", "--json"]
    assert json.loads(of(geoveil, "late-fixed", *asked).stdout) == fixed.to_dict()
