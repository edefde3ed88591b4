"""Test the public types as a type checker of an app's code sees them."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PUBLIC = HERE / "typing_public_api.py"


def checked(path: Path, cache: Path) -> tuple[str, int]:
    """Return what mypy says of a file under the settings of this project, and its exit status."""
    api = pytest.importorskip("mypy.api", reason="mypy checks the types")
    settings = ["--config-file", str(HERE.parents[1] / "pyproject.toml")]
    strict = ["--warn-unused-ignores", "--show-error-codes", "--no-error-summary"]
    said, failed, status = api.run([*settings, *strict, "--cache-dir", str(cache), str(path)])
    assert failed == ""
    return said, status


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.deep
def test_an_app_sees_the_types_that_are_documented(cache):
    said, _ = checked(PUBLIC, cache)
    # What mypy says of the packages themselves is not this test's business.
    assert [line for line in said.splitlines() if PUBLIC.name in line] == []


@pytest.mark.deep(rest=0)  # the marks above are checked as well: each has to be used
def test_what_must_be_an_error_is_one(cache, tmp_path):
    """The control: without its marks, the same file has an error on each marked line."""
    text = PUBLIC.read_text(encoding="utf-8")
    marked = {n for n, line in enumerate(text.splitlines(), 1) if "# type: ignore[" in line}
    assert len(marked) > 25
    bare = tmp_path / "bare.py"
    bare.write_text(re.sub(r"  # type: ignore\[[a-z-]+\]", "", text), encoding="utf-8")
    said, status = checked(bare, cache)
    assert status == 1
    assert {int(n) for n in re.findall(r"bare\.py:(\d+): error", said)} == marked
