"""Settings: their values, and where they come from: file, environment and flags."""

import math
from dataclasses import fields
from pathlib import Path

import pytest

from geoveil.aggregator import Settings
from geoveil.aggregator.ops.settings_sources import KNOWN, TYPES, Effective, load
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.gp import ParameterError

DATABASE = Path("reports.sqlite")


@pytest.mark.parametrize(
    ("name", "least", "most", "beyond"),
    [
        ("max_message_bytes", 1024, 64 << 20, (1023, (64 << 20) + 1)),
        ("commit_latency_s", 0, 10, (-0.001, 10.001)),
    ],
)
def test_numbers_have_ends(name, least, most, beyond):
    for value in (least, most):
        assert getattr(Settings(**{"database": DATABASE, name: value}), name) == value
    for wrong in (*beyond, math.nan, math.inf, True, "7", None):
        with pytest.raises(ParameterError) as caught:
            Settings(**{"database": DATABASE, name: wrong})
        assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("database", "reports.sqlite"),
        ("database", Path(":memory:")),
        ("database", Path()),
        ("host", ""),
        ("host", "a\nb"),
        ("host", 7),
        ("tls_key", "key.pem"),
    ],
)
def test_names_and_files(name, wrong):
    with pytest.raises(ParameterError) as caught:
        Settings(**{"database": DATABASE, name: wrong})
    assert caught.value.name == name


def test_certificate_and_key_come_together():
    pem = Path("x.pem")
    assert Settings(database=DATABASE, tls_certificate=pem, tls_key=pem).tls_key == pem
    with pytest.raises(ParameterError, match="tls_key"):
        Settings(database=DATABASE, tls_certificate=pem)
    with pytest.raises(ParameterError, match="tls_certificate"):
        Settings(database=DATABASE, tls_key=pem)


ROOT = Path(__file__).parents[2]
SAMPLES = sorted((ROOT / "docs" / "samples").glob("*.toml"))
URL = "postgresql://geoveil:hunter2@db.example:5432/reports?sslrootcert=x&password=hunter3"
KEY = "ed25519:" + 32 * "0a"


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "geoveil.toml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def read_sample(write, tmp_path):
    """Returns the settings of a sample, whose secret is not there, with one that is."""

    def read(sample: Path) -> Effective:
        (tmp_path / "url").write_text(URL)
        text = sample.read_text().replace("/run/secrets/geoveil-database-url", "url")
        effective = load(write(text))
        origins = {n: o if o == "default" else "sample" for n, o in effective.origins.items()}
        return Effective(effective.settings, origins)

    return read


def test_nothing_given_is_the_defaults():
    effective = load()
    assert effective.settings == Settings()
    assert set(effective.origins.values()) == {"default"}
    assert set(TYPES) == {field.name for field in fields(Settings)}


def test_flags_beat_the_environment_beats_the_file_beats_defaults(write):
    file = write("port = 1\ngrace_s = 1\nqueue_limit = 1\n")
    environment = {"GEOVEIL_PORT": "2", "GEOVEIL_GRACE_S": "2.5", "PORT": "9", "GEOVEIL_HOST": ""}
    effective = load(file, environment, {"port": 3, "host": None})
    assert (effective.settings.port, effective.settings.grace_s) == (3, 2.5)
    assert (effective.settings.queue_limit, effective.settings.host) == (1, "127.0.0.1")
    found = [effective.origins[name] for name in ("port", "grace_s", "queue_limit", "host")]
    assert found == ["--port", "GEOVEIL_GRACE_S", str(file), "default"]


@pytest.mark.parametrize(
    ("wrong", "near"),
    [("prot", "port"), ("tls_certifcate", "tls_certificate")],
)
def test_unknown_names_are_refused_with_the_nearest(write, wrong, near):
    with pytest.raises(ParameterError, match=f"perhaps {near}"):
        load(write(f"{wrong} = 1"))
    with pytest.raises(ParameterError, match=f"perhaps GEOVEIL_{near.upper()}"):
        load(None, {f"GEOVEIL_{wrong.upper()}": "1"})
    with pytest.raises(ParameterError, match=f"perhaps {near}"):
        load(None, {}, {wrong: 1})


def test_a_name_that_is_near_none_is_refused_with_all():
    with pytest.raises(ParameterError, match=r"one of .*GEOVEIL_PORT"):
        load(None, {"GEOVEIL_ZZZZZZZZZZZZZZ": "1"})


def test_variables_of_other_commands_are_let_be():
    assert load(None, {"GEOVEIL_TOKEN": "x"}, others={"GEOVEIL_TOKEN"}).settings == Settings()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('port = "7717"', "port"),
        ("port = true", "port"),
        ("reflection = 1", "reflection"),
        ("database = 5", "database"),
        ('trusted_keys = "x"', "."),
        ("trusted_keys = [5]", "trusted_keys"),
        ("port = \n", r"config must be TOML \(line 1 is not\)"),
        ("[server]\nport = 1", "setting must be"),
        ('database = ""', "^database must be .*, got database=''"),
        ('database_url_file = ""', "^database_url_file must be a file, got database_url_file=''"),
    ],
)
def test_wrong_values_in_a_file_are_named(write, text, named):
    with pytest.raises(ParameterError, match=named):
        load(write(text))


@pytest.mark.parametrize(
    ("variable", "text"),
    [("PORT", "x"), ("REFLECTION", "yes"), ("GRACE_S", "soon"), ("TRUSTED_KEYS", "ed25519:zz")],
)
def test_wrong_values_in_the_environment_are_refused(variable, text):
    with pytest.raises(ParameterError):
        load(None, {f"GEOVEIL_{variable}": text})


def test_a_value_out_of_range_is_named_as_it_was_given(write):
    file = write("grace_s = -1.0\nport = 1")
    with pytest.raises(ParameterError, match=r"^grace_s must be"):
        load(file)
    file = write("port = 1")
    with pytest.raises(ParameterError, match=r"^GEOVEIL_PORT must be an integer from 0 to 65,535"):
        load(file, {"GEOVEIL_PORT": "70000"})
    with pytest.raises(ParameterError, match=r"^--grace-s must be a number in"):
        load(file, {"GEOVEIL_GRACE_S": "2"}, {"grace_s": -1.0})
    with pytest.raises(ParameterError, match=r"^--database must be .*, got --database=''"):
        load(file, {}, {"database": ""})
    with pytest.raises(
        ParameterError, match=r"^tls_key must be given together with tls_certificate"
    ):
        load(file, {}, {"tls_certificate": "chain.pem"})


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="config must be a file to read"):
        load(tmp_path / "absent.toml")


def test_a_url_may_stand_in_a_file_of_its_own(tmp_path, write):
    secret = tmp_path / "url"
    secret.write_text(URL + "\n")
    expected = DatabaseURL(URL)
    assert load(write('database_url_file = "url"')).settings.database == expected
    environment = {"GEOVEIL_DATABASE_URL_FILE": str(secret)}
    assert load(None, environment, {"database": "a.db"}).settings.database == Path("a.db")
    with pytest.raises(ParameterError, match="absent, as database is given"):
        load(None, {**environment, "GEOVEIL_DATABASE": "a.db"})
    with pytest.raises(ParameterError, match="database_url_file must be a file to read"):
        load(None, {"GEOVEIL_DATABASE_URL_FILE": str(tmp_path / "absent")})


def test_passwords_are_shown_nowhere(tmp_path, write):
    effective = load(write(f'database = "{URL}"'))
    shown = [repr(effective), effective.to_toml(), str(effective.settings)]
    for wrong in (f'database = "{URL}', f'database = "mysql{URL[10:]}"', f'database = ["{URL}"]'):
        with pytest.raises(ParameterError) as caught:
            load(write(wrong))
        shown += [str(caught.value), repr(caught.value)]
    with pytest.raises(ParameterError, match="without a password") as caught:
        load(None, {}, {"database": URL})
    shown += [str(caught.value), repr(caught.value)]
    for text in shown:
        assert "hunter" not in text
    assert "postgresql://geoveil:***@db.example:5432/reports?***" in effective.to_toml()
    assert isinstance(effective.settings.database, DatabaseURL)
    assert effective.settings.database.reveal() == URL


def test_a_url_without_a_password_may_be_a_flag():
    url = "postgresql:///reports?host=/run/postgresql"
    assert load(None, {}, {"database": url}).settings.database == DatabaseURL(url)


def test_what_is_printed_can_be_read_again(write):
    flags = {
        "port": 5,
        "trusted_keys": [KEY],
        "tokens_file": Path("/t.json"),
        "peer_rate": 2.5,
        "database": "/a.db",
    }
    effective = load(None, {}, flags)
    assert load(write(effective.to_toml())).settings == effective.settings


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_samples_are_sound(sample, read_sample):
    assert set(read_sample(sample).origins.values()) == {"default", "sample"}


def test_there_are_a_basic_and_an_advanced_sample(read_sample):
    assert [path.name for path in SAMPLES] == ["advanced.toml", "basic.toml"]
    advanced = read_sample(SAMPLES[0])
    unset = {name for name, origin in advanced.origins.items() if origin == "default"}
    assert unset == {"insecure_open_analyst"}, "the advanced sample shows every setting"


def test_every_setting_is_documented_with_its_default():
    rows = {}
    for line in (ROOT / "docs" / "operating.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].startswith("`"):
            # Checks and events have names of settings, in tables that follow.
            rows.setdefault(cells[1].strip("`"), cells[2].strip("`"))
    assert set(KNOWN) <= set(rows)
    printed = dict(
        line.split(" = ", 1) for line in load().to_toml().splitlines() if not line.startswith("#")
    )
    for name in TYPES:
        assert rows[name] == printed.get(name, "–").strip('"'), name
