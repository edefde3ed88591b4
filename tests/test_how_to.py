"""Each page of docs/how-to is followed: its files are made, its tests pass, its commands run."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[1] / "docs" / "how-to").glob("*.md"))
BLOCK = re.compile(r"(?:^\*\*`(?P<file>[^`]+)`\*\*\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
                   re.MULTILINE | re.DOTALL)  # fmt: skip
MOST_FILES = 3
WAY = ("geoveil plan", "geoveil campaign create", "geoveil contribute", "geoveil estimate",
       "geoveil audit")  # fmt: skip


@dataclass(frozen=True)
class Page:
    """What a page asks to be done."""

    files: dict[str, str]
    commands: list[str]


def page_of(text: str) -> Page:
    files, commands = {}, []
    for block in BLOCK.finditer(text):
        if block["file"]:
            files[block["file"]] = block["text"]
        elif block["kind"] == "sh":
            commands += block["text"].replace("\\\n", " ").splitlines()
    return Page(files, [command for command in commands if command.strip()])


def install(page: Page, folder: Path) -> None:
    """Make the files, and what an installer would make of pyproject.toml."""
    for name, text in page.files.items():
        (folder / name).write_text(text)
    told = tomllib.loads(page.files["pyproject.toml"])
    # An installer takes a folder of a module and its test for a mistake, unless it is told.
    modules = [Path(name).stem for name in page.files if name.endswith(".py")]
    named = [name for name in modules if not name.startswith("test_")]
    assert told["tool"]["setuptools"]["py-modules"] == named
    project = told["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@contextmanager
def server(environment: dict[str, str], folder: Path, *settings: str) -> Iterator[str]:
    """Run `geoveil serve` on a free port; yield its address."""
    with subprocess.Popen(
        ["geoveil", "serve", "--port", "0", "--log-format", "json", *settings],
        env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r"127\.0\.0\.1:\d+", line):
                    yield found[0]
                    break
            else:
                raise AssertionError("the server did not start")
        finally:
            process.terminate()


def run(command: str, environment: dict[str, str], folder: Path) -> str:
    done = subprocess.run(
        command, shell=True, env=environment, cwd=folder, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(params=PAGES, ids=lambda path: path.stem)
def followed(request, tmp_path):
    """A page and its name, the folder in which it was followed, an environment that finds it."""
    page = page_of(request.param.read_text())
    install(page, tmp_path)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GEOVEIL_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), environment.get("PYTHONPATH", "")]),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]]),
        "COLUMNS": "200",
    }
    return request.param.stem, page, tmp_path, environment


@pytest.mark.deep(keep=0)
def test_a_page_is_followed_with_three_files(followed):
    name, page, folder, environment = followed
    assert len(page.files) <= MOST_FILES
    tests = [name for name in page.files if name.startswith("test_")]
    assert len(tests) == 1
    run(f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null {tests[0]}",
        environment, folder)  # fmt: skip
    served = [c for c in page.commands if c.startswith("geoveil serve")]
    settings = served[0].removeprefix("geoveil serve").strip(" &").split() if served else []
    with server(environment, folder, *settings) as address:
        environment["GEOVEIL_SERVER"] = address
        said = {
            command: run(command, environment, folder)
            for command in page.commands
            if command not in served
        }
    for command, text in said.items():
        assert text
        assert "Traceback" not in text
        if "geoveil audit" in command:
            kept, rows = re.search(r"(\d+) of (\d+) keep their promise", text).groups()
            assert int(kept) == int(rows) >= 1
        if "geoveil estimate" in command:
            assert re.search(r"\s2\s", text)  # both people were counted
    if name in ("query", "mechanism", "noise"):
        for step in WAY:
            assert any(step in command for command in said), step


@pytest.mark.deep(keep=0)
def test_the_store_of_the_page_keeps_the_contract_of_stores(tmp_path, monkeypatch):
    """The page says that `StoreContract` is what every store has to do; so has its own."""
    page = page_of((PAGES[0].parent / "store.md").read_text())
    install(page, tmp_path)
    (tmp_path / "test_contract.py").write_text(
        "import uuid\n"
        "import pytest\n"
        "from functools import partial\n"
        "from memory import MemoryStore\n"
        "from tests.aggregator.test_store import StoreContract\n"
        "class TestMemoryStore(StoreContract):\n"
        "    @pytest.fixture\n"
        "    def open_store(self):\n"
        "        return partial(MemoryStore, f'memory://{uuid.uuid4()}')\n"
    )
    root = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    said = run(f"{sys.executable} -m pytest -q -p no:cacheprovider -c /dev/null test_contract.py",
               environment, tmp_path)  # fmt: skip
    assert " passed" in said
