import math
from pathlib import Path

import pytest

from geoveil.aggregator import Settings
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
