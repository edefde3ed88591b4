"""Test that a file that can't be written completely is absent or unchanged."""

import resource
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from geoveil.analyst.campaigns import campaign_asking, campaign_for_points
from geoveil.analyst.questions import ShareAbove
from geoveil.analyst.statistics.report_files import ReportRows
from geoveil.analyst.whole_file import whole_file
from geoveil.campaign import encode, seal
from geoveil.gp import GeoPrivacy, ParameterError
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.simulation.scale import write_reports

PLANE = AzimuthalEquidistant(-73.98, 40.75, radius_m=10_000)
PLAN = (
    *("plan", "--threshold", "98000", "--participants", "20000", "--epsilon", "1", "--per", "8000"),
    *("--prior", "lognormal:98000,0.83", "--unit", "dollar"),
)
DATES = {"opens": datetime.now(UTC), "closes": datetime.now(UTC) + timedelta(days=1)}


@contextmanager
def full_disk():
    """Let no file grow beyond 40 bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refused_whole(geoveil, folder, option, *arguments):
    """Run a command on a full disk: it says so, and the folder is as it was."""
    before = {file: file.read_bytes() for file in folder.iterdir()}
    with full_disk(), pytest.raises(ParameterError, match=f"^{option} must .*File too large"):
        geoveil(*map(str, arguments), to_server=False)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Places of 500 simulated people, perturbed, as a server exports them."""
    campaign = campaign_for_points(
        attribute="location", privacy=GeoPrivacy(1.0, per=200.0, unit="metre"), plane=PLANE,
        campaign_id="where", title="Where", **DATES,
    )  # fmt: skip
    rng = np.random.default_rng(4)
    sent = campaign.point_mechanism.simulate(rng.normal(0.0, 600.0, (500, 2)), rng)
    columns = tuple(np.rint(sent / campaign.point_mechanism.step).astype(np.int64).T)
    file = tmp_path_factory.mktemp("export") / "places.parquet"
    write_reports(
        iter([encode(campaign), ReportRows(np.zeros(500, np.uint32), None, columns)]), file
    )
    return file


@pytest.fixture(params=[False, True], ids=["new", "over another"])
def there(request):
    """Write a file where a command is to write one, in every other test."""
    return lambda file: file.write_text("what was there") if request.param else None


@pytest.mark.deep(keep=1)
@pytest.mark.parametrize("name", ["out.toml", "figure.svg"])
def test_a_plan(geoveil, tmp_path, there, name):
    there(file := tmp_path / name)
    option = f"--{file.stem}"
    refused_whole(geoveil, tmp_path, option, *PLAN, option, file)


@pytest.mark.deep(keep=2)
@pytest.mark.parametrize("name", ["parquet.parquet", "plot.png", "map.geojson"])
def test_estimates(geoveil, tmp_path, exported, there, name):
    there(file := tmp_path / name)
    asked = [] if file.stem == "map" else ["--circle=-73.98,40.75,800"]
    option = f"--{file.stem}"
    refused_whole(geoveil, tmp_path, option, "estimate", exported, *asked, option, file)


def test_keys_and_certificates(geoveil, tmp_path):
    refused_whole(geoveil, tmp_path, "file", "campaign", "keygen", tmp_path / "key.pem")
    refused_whole(geoveil, tmp_path, "file", "certificate", "authority", "a", "--folder", tmp_path)


def test_no_key_is_left_without_its_certificate(geoveil, tmp_path, monkeypatch):
    written = []

    def only_one(file, *arguments, **how):
        if written:
            raise ParameterError("file", str(file), "a file to write (No space left on device)")
        written.append(file)
        file.write_bytes(b"key")

    monkeypatch.setattr("geoveil.cli.credentials.write_new", only_one)
    with pytest.raises(ParameterError, match="No space left"):
        geoveil("certificate", "authority", "a", "--folder", str(tmp_path), to_server=False)
    assert written == [tmp_path / "ca-key.pem"]
    assert not list(tmp_path.iterdir())


def test_a_signed_campaign(geoveil, tmp_path):
    geoveil("campaign", "keygen", str(tmp_path / "key.pem"), to_server=False)
    campaign = campaign_asking(
        [ShareAbove(100_000)], attribute="income", privacy=GeoPrivacy(1.0, 8_000.0, "dollar"),
        campaign_id="a", title="A", **DATES,
    )  # fmt: skip
    file = tmp_path / "a.campaign"
    file.write_bytes(seal(encode(campaign)))
    signing = ("campaign", "sign", file, "--sign-key", tmp_path / "key.pem")
    refused_whole(geoveil, tmp_path, "file", *signing)


def test_an_interrupted_write_leaves_what_was_there(tmp_path):
    file = tmp_path / "shares.csv"
    file.write_text("before")

    def write():
        with whole_file("out", file) as beside:
            beside.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert [one.read_text() for one in tmp_path.iterdir()] == ["before"]


def test_a_link_still_leads_to_the_file_and_the_file_keeps_its_mode(tmp_path):
    file, link = tmp_path / "shares.csv", tmp_path / "link.csv"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to(file)
    with whole_file("out", link) as beside:
        beside.write_text("after")
    assert link.is_symlink()
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("after", 0o640)


def test_a_device_is_written_as_it_is():
    null = Path("/dev/null")
    with whole_file("out", null) as there:
        assert there == null


def test_what_is_no_file_is_refused(tmp_path):
    for file in (tmp_path, tmp_path / "absent" / "a.csv"):
        refused = pytest.raises(ParameterError, match="out must be a file to write")
        with refused, whole_file("out", file) as beside:
            beside.write_text("a")
