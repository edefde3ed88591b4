"""Test the comparison with other packages: errors against formulas, audits, missing packages."""

import json
import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from geoveil.audit import NoisyAnswer
from geoveil.cli.app import app
from geoveil.gp import GeoPrivacy, Laplace, ParameterError, Query, Threshold
from geoveil.simulation import household_incomes, peers as who
from geoveil.simulation.peers import (
    AT,
    PACKAGES,
    PRIVACY,
    compare_peers,
    contestants,
    peers_page,
)

PAGE = Path(__file__).parents[2] / "docs" / "peers.md"


@pytest.fixture
def alone(monkeypatch):
    """Have no package installed."""
    monkeypatch.setattr(who, "version_of", lambda _: None)


def lap(factor: float):  # type: ignore[no-untyped-def]  # a function as users write it
    """Return a mechanism with so many times the noise that the promise takes."""

    def make(query: Query, privacy: GeoPrivacy) -> NoisyAnswer:
        return NoisyAnswer(query, privacy, Laplace(), factor * query.lipschitz / privacy.rate)

    return make


@pytest.mark.deep(keep=0)
@pytest.mark.usefixtures("alone")
def test_errors_are_those_of_the_formulas():
    """400 repetitions: bias² + variance/n, to four standard errors of a sum of squares."""
    n, repetitions = 200, 400
    own = {"once": lap(1.0), "twice": lap(2.0)}
    once, twice = islice(compare_peers(n, repetitions, 1_000, seed=3, own=own), 2)
    ramp = Threshold(AT, 16_000.0)
    incomes = household_incomes().sample(n, np.random.default_rng(3))
    bias = float(ramp.value(incomes).mean() - (incomes > AT).mean())
    for row, factor in ((once, 1.0), (twice, 2.0)):
        variance = 2 * (factor * ramp.lipschitz / PRIVACY.rate) ** 2 / n
        known = bias**2 + variance
        spread = math.sqrt((2 * variance**2 + 4 * bias**2 * variance) / repetitions)
        assert abs(row.rmse**2 - known) < 4 * spread
        assert abs(row.bias - bias) < 4 * math.sqrt(variance / repetitions)
    # The control: the other's formula is far off.
    assert abs(twice.rmse**2 - once.rmse**2) > 0.5 * twice.rmse**2


@pytest.mark.usefixtures("alone")
def test_a_promise_that_is_not_kept_is_refuted():
    own = {"sound": lap(1.0), "broken": lap(0.5)}
    sound, broken = islice(compare_peers(100, 2, 20_000, own=own), 2)
    assert 0.5 < sound.proven <= 1 < broken.proven < 2


@pytest.mark.deep
@pytest.mark.parametrize("packages", ["none", pytest.param("installed", marks=pytest.mark.deep)])
def test_every_contestant_estimates_the_share(packages, monkeypatch):
    """Every estimate of a share of 0.25 among n = 8,000 is within 0.12, nobody near the threshold.

    The noisiest, unary encoding at ε = 1, has a standard error of 0.023, of which 0.12 are 5.2:
    α = 2e-7 for packages, which draw from the system's randomness. They take seconds to be loaded,
    and are tried if they are installed.
    """
    if packages == "none":
        monkeypatch.setattr(who, "version_of", lambda _: None)
    rng = np.random.default_rng(1)
    incomes = np.repeat([20_000.0, 180_000.0], [6_000, 2_000])
    installed = {name for name in PACKAGES if who.version_of(name)}
    seen = set()
    for peer in contestants(rng):
        share = peer.share(peer.draw_for(AT)(incomes), AT)
        assert abs(share - 0.25) < 0.12, peer.name
        if peer.of_ranges is not None:  # of nobody's range between, and at most 6 errors of 0.025
            draw, read = peer.of_ranges
            assert abs(read(draw(incomes), who.MANY[5]) - 0.25) < 0.15, peer.name
        seen.add(peer.package)
    assert seen - {None} == installed


def test_ten_thresholds_are_read_off_ranges():
    """k-ary response and unary bits of 40,000 people, ε = 2: 6 errors of at most 0.0068 and 0.0134.

    Reports that are read as if nobody had lied, the control, are off by more.
    """
    rng, local = np.random.default_rng(3), PRIVACY.local(16_000.0)
    ranges, odds = len(who.MANY) + 1, math.exp(2)
    incomes = household_incomes().sample(40_000, rng)

    def k_ary(cell: int) -> int:
        kept = rng.random() < odds / (odds + ranges - 1)
        return cell if kept else int((cell + rng.integers(1, ranges)) % ranges)

    def unary(cell: int) -> np.ndarray:
        on = np.where(np.arange(ranges) == cell, 0.5, 1 / (odds + 1))
        return (rng.random(ranges) < on).astype(int)

    oracle = who.unary_encoding(local)
    asked = (who._k_ary(k_ary, local), 0.041), (who._unary(unary, oracle), 0.08)
    for (draw, share), most in asked:
        reports = draw(incomes)
        off = [abs(share(reports, at) - (incomes > at).mean()) for at in who.MANY]
        assert max(off) < most
    reports = who._k_ary(k_ary, local)[0](incomes)
    trusted = [(reports >= i + 1).mean() - (incomes > at).mean() for i, at in enumerate(who.MANY)]
    assert max(map(abs, trusted)) > 0.06


@pytest.mark.deep(keep=0)
@pytest.mark.usefixtures("alone")
def test_the_command_names_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("geoveil.cli.simulate_experiments.version_of", lambda _: None)
    (tmp_path / "own.py").write_text(
        "from geoveil.audit import NoisyAnswer\nfrom geoveil.gp import Laplace\n"
        "def wide(query, privacy):\n    scale = 1.1 * query.lipschitz / privacy.rate\n"
        "    print('made')\n    return NoisyAnswer(query, privacy, Laplace(), scale)\n"
    )
    command = ["compare", "--quick", "--module", str(tmp_path / "own.py"), "--out", str(tmp_path)]
    ran = CliRunner().invoke(app, [*command, "--json"])
    assert ran.exit_code == 0, ran.output
    assert all(name in ran.stderr for name in (*PACKAGES, "geoveil[peers]"))
    rows = json.loads(ran.stdout)
    assert [row["name"] for row in rows][:2] == ["wide", "geoveil, value campaign"]
    assert "| wide | ε = 1 per 8000 dollar |" in (tmp_path / "peers.md").read_text()


def test_the_table_has_errors_of_errors_and_the_bias(monkeypatch):
    row = who.PeerRow(
        name="ours",
        version="1",
        promise="ε = 1",
        drawn="exact",
        called="array",
        rmse=0.0123,
        rmse_error=0.0045,
        bias=-0.0067,
        rmse_many=0.0321,
        micros=123.4,
        proven=0.85,
    )
    monkeypatch.setattr("geoveil.cli.simulate_experiments.compare_peers", lambda **_: [row])
    monkeypatch.setattr("geoveil.cli.console.out.width", 160)
    ran = CliRunner().invoke(app, ["compare"])
    cells = "ours ε = 1 0.0123 ± 0.0045 -0.0067 0.0321 123.4, array exact 0.85"
    assert cells in " ".join(ran.stdout.split())
    assert "±: its standard error" in " ".join(ran.stdout.split())


@pytest.mark.parametrize("wrong", [{"n": 99}, {"repetitions": 1}, {"samples": 999}])
def test_too_little_is_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        next(compare_peers(**wrong))


def test_the_page_is_made_by_the_command():
    shown = PAGE.read_text(encoding="utf-8")
    assert shown.startswith(peers_page([], "").split("\n| contestant")[0])
    for name in PACKAGES:
        assert f"{name} " in shown.rpartition("Packages:")[2]
