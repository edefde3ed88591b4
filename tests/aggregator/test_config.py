import dataclasses
import math
from pathlib import Path

import pytest

from geoveil.aggregator import Settings
from geoveil.gp import ParameterError

DATABASE = Path("reports.sqlite")


def test_defaults_listen_on_this_machine_only():
    settings = Settings(database=DATABASE)
    assert settings.host == "127.0.0.1"
    assert settings.max_batch == 10_000
    assert settings.max_message_bytes == 4 * 1024 * 1024


def test_settings_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings(database=DATABASE).port = 1  # type: ignore[misc]  # what is tested


@pytest.mark.parametrize(
    ("name", "least", "most", "beyond"),
    [
        ("port", 0, 65_535, (-1, 65_536)),
        ("max_batch", 1, 10_000, (0, 10_001)),
        ("max_message_bytes", 1024, 64 << 20, (1023, (64 << 20) + 1)),
        ("queue_limit", 1, 100_000_000, (0, 100_000_001)),
        ("commit_limit", 1, 1_000_000, (0, 1_000_001)),
        ("commit_latency_s", 0, 10, (-0.001, 10.001)),
        ("busy_timeout_s", 0, 600, (-1, 601)),
        ("grace_s", 0, 3600, (-1, 3601)),
        ("clock_skew_s", 0, 86_400, (-1, 86_401)),
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
