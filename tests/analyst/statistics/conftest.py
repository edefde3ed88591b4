"""Fixtures of tests of statistics."""

import pytest

from geoveil.analyst import simultaneous


@pytest.fixture
def few_draws(monkeypatch):
    """8,192 draws of the critical value: it moves coverage by 0.25 % (one standard error)."""
    monkeypatch.setattr(simultaneous, "DRAWS", 1 << 13)
