"""Test geoveil audit: the table, its status, and that it can fail."""

import json
import re
from dataclasses import replace

import pytest

from geoveil import audit as auditor
from geoveil.audit import attacks
from geoveil.gp import ParameterError


@pytest.fixture
def run(geoveil):
    return lambda *arguments: geoveil("audit", *arguments, to_server=False)


def test_the_table_of_one_mechanism(run):
    result = run("--mechanism", "LipschitzMechanism", "--samples", "2000")
    assert result.exit_code == 0
    assert "ε = 1 per 8000 dollar" in result.output
    assert result.output.count("keeps") == 3
    assert "3 of 3 keep their promise" in result.output
    assert "2,000 reports" in result.output
    assert "1e-06" in result.output
    assert "PlanarLaplace" not in result.output


@pytest.mark.deep(rest=0)
def test_json_holds_every_row_and_how_it_was_made(run):
    result = run("--json", "--samples", "1000", "--seed", "5")
    assert result.exit_code == 0
    shown = json.loads(result.output)
    rows = shown.pop("rows")
    cases = auditor.catalogue()
    assert shown == {
        "faults": False,
        "samples": 1000,
        "seed": 5,
        "pairs": auditor.pair_count(cases),
        "failure_probability": 1e-6,
    }
    assert [row["mechanism"] for row in rows] == [case.name for case in cases]
    for row in rows:
        assert row["keeps"]
        assert re.match(r"ε = (1 |\d+ between any two values)", row["privacy"])
        assert 0 <= row["black_box"]["fraction"] <= 1
        assert row["exact"]["fraction"] <= 1 + 1e-6
        assert row["exact"]["x"] != row["exact"]["other"]
        assert row["exact"]["y"]


@pytest.mark.deep
def test_faults_are_caught_and_that_is_status_0(run, monkeypatch):
    """A fifth of them; all are counted where the audit's own tests are."""
    part = auditor.faults()[2::5]
    monkeypatch.setattr("geoveil.audit.report.faults", lambda: part)
    result = run("--faults")
    assert result.exit_code == 0
    assert len(re.findall(r" caught +\n", result.output)) == len(part) == 7
    assert "|∇f| for B" in result.output
    shown = " ".join(result.output.split())
    assert "7 of 7 faulty mechanisms were caught, 4 from their reports alone and 2 from" in shown
    assert "Seed: 1." in shown
    assert "random numbers of 24 bits: " in shown


@pytest.mark.deep
def test_a_fault_that_is_missed_is_status_1(run, monkeypatch):
    """A mechanism that keeps its promise is one that no audit can catch."""
    honest = auditor.named(auditor.catalogue(), "LipschitzMechanism")[:1]
    monkeypatch.setattr("geoveil.audit.report.faults", lambda: honest)
    result = run("--faults", "--samples", "1000")
    assert result.exit_code == 1
    assert "missed" in result.output
    assert "0 of 1 faulty mechanisms" in " ".join(result.output.split())


def test_a_broken_promise_is_status_1_with_its_witness(run, monkeypatch):
    monkeypatch.setattr(
        "geoveil.audit.report.catalogue", lambda name: auditor.named(auditor.faults(), name)[:1]
    )
    result = run("--mechanism", "LipschitzMechanism")
    assert result.exit_code == 1
    assert "exceeds" in result.output
    assert "0 of 1 keep their promise" in result.output
    assert re.search(
        r"look at output -?[\d.]+ for \(-?[\d.]+, 0\) and \(-?[\d.]+, 0\)", result.output
    )
    assert run("--mechanism", "LipschitzMechanism", "--json").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--mechanism", "Magic"], "one of 'SmoothMechanism', 'LipschitzMechanism'"),
        (
            ["--faults", "--mechanism", "RandomizedResponse"],
            "'SubsetResponse', 'FormCampaign', got",
        ),
        (
            ["--mechanism", "LipschitzMechanism", "--samples", "999"],
            "samples must be an integer in",
        ),
        (["--mechanism", "LipschitzMechanism", "--seed", "-1"], "seed must be an integer in"),
        (["--attack", "--faults"], "alone, without"),
    ],
)
def test_what_can_not_be_audited_is_named(run, arguments, named):
    with pytest.raises(ParameterError, match=named):
        run(*arguments)


@pytest.mark.deep(rest=0)
def test_the_help_explains_and_its_examples_run(run):
    shown = run("--help")
    assert shown.exit_code == 0
    text = " ".join(shown.output.partition("Options")[0].split())
    assert "Status 0" in text
    examples = re.findall(r"geoveil audit(?: --[a-z]+(?: [A-Z]\w+)?)*", text)
    assert "geoveil audit" in examples
    assert len(examples) >= 3
    for example in examples:
        # Above, with fewer samples; and that of a file, which `--module` reads, in its own test.
        if example not in ("geoveil audit", "geoveil audit --attack", "geoveil audit --module"):
            assert run(*example.split()[2:]).exit_code == 0


@pytest.fixture
def canned(monkeypatch):
    """Replace the attacks by rows of our own; return the two of outputs."""
    floats, exact = (
        attacks.OutputAttack("precision", "M", path, path == "simulate", 0.1, guesses, 0.5)
        for path, guesses in (
            ("simulate", attacks.Guesses(500, 0, 1000, 1e-6)),
            ("release", attacks.Guesses(500, 490, 1000, 1e-6)),
        )
    )
    leak = attacks.TimingAttack("M", 400, None, 1e-30, 1e-9, {"0": 2e-5, "10": 3e-5})
    hidden = replace(leak, floor=9e-5, p_value=0.2)

    def use(*rows, times=(leak, hidden)):
        monkeypatch.setattr(attacks, "attack_outputs", lambda **_: rows)
        monkeypatch.setattr(attacks, "attack_times", lambda **_: times)

    use(floats, exact)
    return use, floats, exact, hidden


def test_the_table_of_attacks(run, canned):
    result = run("--attack")
    assert result.exit_code == 0
    assert "succeeds, as it must" in result.output
    assert "succeeds: pace it" in result.output
    assert "medians from 20.0 to 30.0 µs" in result.output
    assert "75.0% of guesses" in result.output
    assert "52.5% are permitted" in result.output
    assert "4 of 4 attacks ended as they must" in result.output


def test_an_attack_that_ends_otherwise_is_status_1(run, canned):
    use, floats, exact, hidden = canned
    use(floats, replace(exact, guesses=floats.guesses))
    assert run("--attack").exit_code == 1
    assert "3 of 4" in run("--attack").output
    use(replace(floats, guesses=exact.guesses), exact)
    assert run("--attack").exit_code == 1
    use(floats, exact, times=(replace(hidden, p_value=1e-20),))
    assert run("--attack", "--json").exit_code == 1


OWN = """
import numpy as np
from geoveil.audit import NoisyAnswer
from geoveil.gp import Laplace


class Wider(Laplace):
    def sample(self, rng, size):
        return {factor} * super().sample(rng, size)


def mine(query, privacy):
    return NoisyAnswer(query, privacy, Wider(), query.lipschitz / privacy.rate)
"""


@pytest.fixture
def own(run, tmp_path):
    """Return an audit of a user's mechanism whose draws are wider than its density by a factor."""

    def audited(factor, *options):
        file = tmp_path / "mine.py"
        file.write_text(OWN.format(factor=factor))
        return run("--module", file, "--samples", "20000", *options)

    return audited


@pytest.mark.deep
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_draws_that_are_not_of_the_density_are_told(own, factor):
    found = own(factor)
    assert found.exit_code == 1
    said = " ".join(found.output.split())
    assert "mine, Threshold, linear: its reports are not drawn from its density: at " in said
    assert "0 of 3 keep their promise." in said
    assert "rely on neither number" in said


@pytest.mark.deep
def test_draws_of_the_density_are_not(own):
    found = own(1.0, "--json")
    assert found.exit_code == 0
    (compared, *_) = json.loads(found.output)["compared"]
    assert compared["difference"] == ""
    assert compared["skipped"] < compared["points"] / 10


@pytest.mark.deep
def test_where_it_shows_is_for_programs_too(own):
    first = json.loads(own(0.5, "--json").output)["compared"][0]
    assert first["mechanism"] == "mine"
    assert "% of reports are from" in first["difference"]
