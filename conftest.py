"""Which tests run: `--tier quick`, those that a change is likely to break; `rest`; or `all`.

A test that is marked `deep` takes long. `keep` of its cases are quick, spread evenly over all of
them; of a test without quick cases one, or of any test as many others as `rest` says, are of the
tier `rest`, and all are of `all`. A test whose examples Hypothesis draws has 30 of them in the
quick tier and 100 in `all`. A test that is named on the command line is run whole.
"""

import gc
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure can be repeated; and no example fails for having
# waited for a busy machine.
settings.register_profile("all", deadline=None, derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("all"), max_examples=30)
settings.register_profile("rest", settings.get_profile("quick"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses the tests."""
    parser.addoption(
        "--tier",
        choices=["quick", "rest", "all"],
        default="quick",
        help="which tests run: those that are quick (the default), the rest, or all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples Hypothesis draws."""
    settings.load_profile(_tier(config))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep modules and tests, half a million objects that stay, from the garbage collector.

    To look through them takes a third of a second, which each device or server that a test starts
    would pay again.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without deep tests unread, docstrings among them, where no others run."""
    if _tier(config) != "rest" or collection_path.suffix != ".py":
        return None
    return b"mark.deep" not in collection_path.read_bytes() or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier."""
    tier = _tier(config)
    if tier == "all":
        return
    left_out = []
    for _, group in groupby(list(items), key=_function):
        cases = list(group)
        deep = [case for case in cases if case.get_closest_marker("deep")]
        quick = _spread(deep, "keep")
        rest = [case for case in deep if case not in quick]
        if tier == "quick":
            left_out += rest
        else:
            sample = _spread(rest, "rest")
            left_out += [case for case in cases if case not in sample]
    gone = set(left_out)
    items[:] = [case for case in items if case not in gone]
    config.hook.pytest_deselected(items=left_out)


def _tier(config: pytest.Config) -> str:
    named = any("::" in argument for argument in config.args)
    return "all" if named else str(config.getoption("tier"))


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _spread(cases: list[pytest.Item], name: str) -> set[pytest.Item]:
    """Return as many cases of a deep test as its mark says by that name, evenly."""
    count = 0
    if cases and (marker := cases[0].get_closest_marker("deep")):
        said = {"keep": 0, "rest": 0 if marker.kwargs.get("keep") else 1} | marker.kwargs
        count = min(said[name], len(cases))
    return {cases[index * len(cases) // count] for index in range(count)}
