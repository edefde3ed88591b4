"""Every part's `__all__` is sorted as the linter sorts it, exists, and is complete."""

import importlib
import types

import pytest

PARTS = ["gp", "campaign", "client", "aggregator", "simulation", "cli"]


@pytest.mark.parametrize("part", PARTS)
def test_all_names_every_public_member(part):
    module = importlib.import_module(f"geoveil.{part}")
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert set(module.__all__) == public
