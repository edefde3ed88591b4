"""A live server for clients that know nothing but the .proto files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geoveil.simulation.local_server import local_server

EXPECTED = {
    "statuses": ["REPORT_STATUS_ACCEPTED"] * 3 + ["REPORT_STATUS_DUPLICATE"] * 3,
    "refused": "FAILED_PRECONDITION",
    "n": 3,
    "sum": str(7 - 3 + 2**33),
    "value": (7 - 3 + 2**33) / 3 / 2**30,
}
"""What both clients are told of reports with the integers 7, -3 and 2^33 on a grid of 2^-30."""


@pytest.fixture
def expected() -> dict[str, object]:
    return EXPECTED


@pytest.fixture
def protos() -> Path:
    """The folder with the wire contract, and nothing else of use."""
    return Path(__file__).parents[2] / "proto"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with local_server(tmp_path / "reports.sqlite") as address:
        yield address
