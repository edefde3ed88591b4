"""Which tests run: `--tier quick`, those that a change is likely to break; `rest`; or `all`.

A test that is marked `deep` takes long. `keep` of its cases are quick, spread evenly over all of
them. A test that is named on the command line is run whole.
"""

from itertools import groupby

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the tests."""
    parser.addoption(
        "--tier",
        choices=["quick", "rest", "all"],
        default="quick",
        help="which tests run: those that are quick (the default), the rest, or all",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier."""
    tier = config.getoption("tier")
    if tier == "all" or any("::" in argument for argument in config.args):
        return
    chosen: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for _, group in groupby(items, key=_function):
        cases = list(group)
        deep = [case for case in cases if case.get_closest_marker("deep")]
        left = set(deep) - _spread(deep)
        for case in cases:
            chosen[case not in left].append(case)
    items[:] = chosen[tier == "quick"]
    config.hook.pytest_deselected(items=chosen[tier != "quick"])


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _spread(deep: list[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of a test that are quick."""
    marker = deep[0].get_closest_marker("deep") if deep else None
    keep = marker.kwargs.get("keep", 0) if marker else 0
    return {deep[index * len(deep) // keep] for index in range(min(keep, len(deep)))}
