"""Test that a beginner's mistakes give no traceback, and that the error names the option.

In this process, as the command itself would do it: errors are turned into lines by `main`.
"""

import io
import shlex
import sys

import pytest

from geoveil.cli.console import err, out

INCOME = "--attribute income --unit dollar --epsilon 1 --per 8000"
PLAN = "plan --threshold 100000 --participants 5000 --epsilon 1 --per 8000 --prior incomes"
OF_FILE = "plan --participants 5000 --epsilon 1 --per 8000 --unit dollar --threshold 60000"
NEAR = "plan --participants 5000 --epsilon 1 --per 500 --prior collisions"
CREATE = f"campaign create X {INCOME} --threshold 100000"
PLACES = "campaign create X --points --attribute location --epsilon 1 --per 200"
REHEARSE = "rehearse people.csv --value income --unit dollar --per 8000"
MISTAKES = {
    "estimat numbers": "Did you mean 'estimate'",
    "campagin list": "Did you mean 'campaign'",
    "campaign creat X": "Did you mean 'create'",
    "plan --treshold 100000": "--threshold",
    "serve --prot 1": "--port",
    f"{PLAN} --epsilon -1": "--epsilon",
    f"{PLAN} --per 0": "--per",
    f"{PLAN} --participants 20,000": "--participants",
    f"{PLAN} --threshold abc": "--threshold",
    f"{PLAN} --unit euro": "--unit",
    f"{PLAN} --target-error 0.00001": "--target-error",
    f"{PLAN} --allocation half": "--allocation",
    f"{PLAN} --bandwidth 100": "--bandwidth",
    f"{PLAN} --width 100": "--width",
    f"{PLAN} --heap 100000": "--heap",
    f"{PLAN} --scenario x": "--scenario",
    f"{PLAN} --contamination 2": "--contamination",
    f"{PLAN} --out missing/plan.toml": "--out",
    f"{PLAN} --figure plan.txt": "--figure",
    f"{PLAN} --quantile 50": "--quantile",
    f"{PLAN} --range 9,5": "--range",
    f"{PLAN} --query nosuch:at=1": "(--query)",
    f"{PLAN} --prior-column income": "--prior-column",
    f"{OF_FILE} --prior incoms": "--prior",
    f"{OF_FILE} --prior missing.csv --prior-column a": "--prior",
    f"{OF_FILE} --prior people.csv": "--prior-column",
    f"{OF_FILE} --prior people.csv --prior-column incme": "name, income, weight (--prior",
    f"{OF_FILE} --prior people.csv --prior-column income --prior-weights wieght": "(--prior",
    f"{NEAR} --place -73.98,40.75 --center 40,-73": "--center",
    f"{NEAR} --place -73.98,40.75 --center x": "--center",
    f"{NEAR} --place -73.98,40.75 --radius -1": "--radius",
    f"{NEAR} --place 73.98": "--place",
    f"{NEAR} --circle -73.98,40.75": "--circle",
    f"{NEAR} --region missing.geojson": "--region",
    f"{NEAR} --region broken.geojson": "--region",
    f"{CREATE} --days 0": "--days",
    f"{CREATE} --every 5x": "--every",
    f"{CREATE} --cohorts 13": "--cohorts",
    f"{CREATE} --sign-key missing.pem": "--sign-key",
    f"{CREATE} --sign-key hello.txt": "--sign-key",
    f"{CREATE} --id 'a b'": "--id",
    f"{CREATE} --mechanism nosuch": "--mechanism",
    f"{CREATE} --mechanism smooth:foo=1": "(--mechanism)",
    f"{CREATE} --bandwidth 5": "--bandwidth",
    f"{CREATE} --radius 5": "--radius",
    f"{CREATE} --dimension 2": "--dimension",
    "campaign create X --plan missing.toml": "--plan",
    "campaign create X --plan hello.txt": "--plan",
    f"campaign create X {INCOME} --attribute '' --threshold 5": "--attribute",
    f"campaign create X {INCOME} --threshold 5 --place 1,2": "--unit",
    f"{PLACES} --center=95,95": "--center",
    f"{PLACES} --center=-74,40.7 --dimension 3": "--dimension",
    "campaign export numbers --out x.csv": "--out",
    "campaign list --server localhost": "--server must be HOST:PORT",
    "campaign list --server http://127.0.0.1:7717": "--server",
    "campaign list --server 127.0.0.1:1": "--server",
    "campaign list --tls-roots missing.pem": "--tls-roots",
    "campaign list --tls-client-certificate hello.txt": "--tls-client-key",
    "contribute numbers --yes --state-dir hello.txt": "(--state-dir)",
    "contribute numbers --yes --state-dir s --read-every 5x": "--read-every",
    "client history --state-dir missing": "--state-dir",
    "estimate people.csv --curve": "campaign must be the id of a campaign, a file",
    "estimate share --period 99": "(--period)",
    "estimate share --by nosuch": "--by",
    "estimate share --plan missing.toml": "--plan",
    "estimate share --plan hello.txt --against other": "--plan",
    "estimate share --label x": "--label",
    "estimate numbers --quantile half": "--quantile",
    "estimate numbers --top 3": "--top",
    "estimate numbers --curve --csv --json": "--csv",
    "estimate places --districts missing.geojson": "--districts",
    "estimate places --districts one.geojson --name-property nme": "--districts",
    "estimate places --nearest A": "--nearest",
    "rehearse missing.csv --value a --unit dollar --per 8000 --curve": "people",
    "rehearse people.csv --unit dollar --per 8000 --curve": "--value",
    f"{REHEARSE} --value incme --curve": "--value",
    f"{REHEARSE} --weight wieght --curve": "name, income, weight (--weight)",
    f"{REHEARSE} --curve --seed -1": "--seed",
    "serve --config missing.toml": "--config",
    "serve --config bad.toml --check": "perhaps port in 'bad.toml', got setting='prot' (--config)",
    "serve --port {port}": "--port",
    "serve --port 99999": "--port",
    "serve --web 127.0.0.1:{port} --port 0": "--web",
    "serve --database hello.txt --port 0": "(--database)",
    "serve --tls-certificate missing.pem --tls-key missing.pem": "--tls-certificate",
    "serve --tokens-file hello.txt --port 0": "--tokens-file",
    "serve --metrics-port {port} --port 0": "--metrics-port",
    "db check --database missing.db": "--database",
    "token list --file missing.json": "--file",
    "certificate authority --folder hello.txt": "(--folder)",
    "certificate server a.example --folder missing": "--folder",
    "audit --mechanism nosuch": "--mechanism",
    "simulate scale --population nosuch": "--population",
    "compare --participants 0": "--participants",
}
"""What is typed → what has to be in the one sentence that is said."""


@pytest.fixture(scope="module")
def folder(server, tmp_path_factory):
    """A folder with some files, whose server has four campaigns."""
    path = tmp_path_factory.mktemp("mistakes")
    (path / "people.csv").write_text("name,income,weight\na,50000,1\nb,120000,2\n")
    (path / "broken.geojson").write_text("{")
    corners = [[-74, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74, 40.8], [-74, 40.7]]
    square = f'{{"type": "Polygon", "coordinates": [{corners}]}}'
    (path / "one.geojson").write_text(square)
    (path / "hello.txt").write_text("hello")
    (path / "bad.toml").write_text("prot = 1\n")
    (path / "census.csv").write_text("region,people\nnorth,1\n")
    return path


@pytest.fixture
def said(server, folder, monkeypatch, capfd, without_settings, status_of):
    """Run a command in the folder; return its status and what it says on standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("geoveil.cli.serve.configure", lambda *_: None)
    for console in (out, err):
        monkeypatch.setattr(console, "width", 400)
    monkeypatch.setenv("GEOVEIL_SERVER", server)
    monkeypatch.setenv("COLUMNS", "400")

    def run(line):
        monkeypatch.setattr(sys, "stdin", io.StringIO("52000\n"))
        return status_of(*shlex.split(line)), capfd.readouterr().err

    return run


@pytest.fixture
def campaigns(said):
    for line in (
        f"campaign create Numbers --points {INCOME}",
        f"campaign create Share {INCOME} --threshold 100000",
        "campaign create Places --points --attribute a --epsilon 1 --per 200 --center=-74,40.7",
    ):
        said(line)  # those that are there already stay


@pytest.mark.deep(keep=12)
@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_told_by_what_was_typed(said, campaigns, server, typed):
    status, told = said(typed.format(port=server.rpartition(":")[2]))
    assert status in (1, 2), told
    assert "Traceback" not in told
    assert MISTAKES[typed] in " ".join(told.replace("│", " ").split())


@pytest.mark.parametrize("number", ["52000", "USD 52,000", "$52k", "-5 (est.)", "ca. 52 k"])
def test_a_row_of_a_file_without_a_header_is_not_shown(said, folder, number):
    (folder / "rows.csv").write_text(f'Ada,"{number}"\nBob,61000\n')
    status, told = said(f"{OF_FILE} --prior rows.csv --prior-column income")
    assert status == 1
    assert "52" not in told
    assert "Ada" not in told


def test_names_of_columns_are_shown_with_their_units_and_signs(said, folder):
    (folder / "own.csv").write_text("id,Monthly rent ($),Größe/m²\n1,900,50\n")
    status, told = said(f"{OF_FILE} --prior own.csv --prior-column rent")
    assert status == 1
    assert "it has id, Monthly rent ($), Größe/m²" in " ".join(told.replace("│", " ").split())
