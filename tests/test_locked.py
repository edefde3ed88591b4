"""Test the packages that `make` installs: every requirement, at one version, with hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {file.stem: file.read_text() for file in sorted((ROOT / "requirements").glob("*.txt"))}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def locked(name: str) -> list[tuple[Requirement, list[str]]]:
    """Return the requirements of a file and of those it begins with, each with its hashes."""
    text = FILES[name]
    found = [pair for below in re.findall(r"^-r (\w+)\.txt$", text, re.MULTILINE)
             for pair in locked(below)]  # fmt: skip
    for entry in re.split(r"\n(?=[\w])", text.replace("\\\n", " ")):
        requirement, _, hashes = entry.partition("--hash=")
        if re.match(r"[A-Za-z0-9]", requirement):
            hashes = re.findall(r"sha256:([0-9a-f]{64})(?=\s|$)", "--hash=" + hashes)
            found.append((Requirement(requirement.strip()), hashes))
    return found


def asked(extra: str) -> list[Requirement]:
    """Return what an extra asks for, those that it includes resolved."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    for text in EXTRAS[extra]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            found += [one for included in requirement.extras for one in asked(included)]
        else:
            found.append(requirement)
    return found


@pytest.mark.parametrize("extra", ["all", "test", "dev", "bench", "site"])
@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_locked_to_a_version_in_its_range(extra: str, python: str) -> None:
    environment = {
        "python_version": python, "python_full_version": f"{python}.9",
        "sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64",
        "os_name": "posix", "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }  # fmt: skip
    versions: dict[str, str] = {}
    for requirement, hashes in locked(extra):
        assert hashes, requirement
        assert re.fullmatch(r"==[\w.]+", str(requirement.specifier)), requirement
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"{name} has two versions on Python {python}"
            versions[name] = str(requirement.specifier)[2:]
    build = [Requirement("hatchling>=1.28"), Requirement("editables")]
    for requirement in [*asked(extra), *build]:
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} has {version}: make lock"


def test_what_installs_is_locked() -> None:
    ((requirement, hashes),) = locked("pip")
    assert requirement.name == "pip"
    assert hashes
    makefile = (ROOT / "Makefile").read_text()
    assert "$(PIP) --require-hashes --requirement requirements/pip.txt" in makefile


def test_what_generates_code_is_locked() -> None:
    versions = {requirement.name: hashes for requirement, hashes in locked("proto")}
    assert {"grpcio-tools", "protobuf", "mypy-protobuf", "setuptools"} <= set(versions)
    assert all(versions.values())
    assert (
        "--require-hashes --requirement requirements/proto.txt"
        in (ROOT / "tools" / "protoc.sh").read_text()
    )


def test_files_name_no_place_to_install_from() -> None:
    for text in FILES.values():
        assert "://" not in text
        assert "--index" not in text


def test_make_installs_what_is_locked_and_nothing_else() -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = makefile[makefile.index("$(VENV)/.stamp-%:") :].split("\n\n")[0]
    assert "--no-deps --require-hashes --requirement requirements/$*.txt" in recipe
    assert "--no-deps --no-build-isolation --editable ." in recipe
    assert recipe.count("$(PIP)") == 2
