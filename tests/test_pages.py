"""Test README and the pages of docs, pasted from top to bottom into an empty folder.

Each page has a shell and a Python that stay open to its end. `sh` and `python` are pasted; under
**`name`** a block is a file; of `console`, what follows a `$` is pasted and the rest is what it
prints; `output` is what the block above prints. All else is only read, as is what stands below
`<!-- not run: why -->`.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from geoveil import analyst
from geoveil.simulation.experiment import read_csv
from geoveil.simulation.experiments.rows import OWN, ErrorRow

ROOT = Path(__file__).parents[1]
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *HOW_TO)
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<not_run>[^\n]+) -->\n)?(?:^\*\*`(?P<file>[^`]+)`\*\*\n\n)?"
    r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PASTED = {"sh", "python", "console", "output"}
READ = {"r", "text", "json", "toml", "ts", "nginx", "ini", "yaml"}
NOT_RUN = {"README": 3, "forms": 1, "operating": 2, "r": 1, "results": 2, "tutorial": 2}
"""Page → its blocks of a shell or Python that are not pasted."""
PRINTED = {
    "README": ("SERVING", "above 100,000", "standard error", "counted: report"),
    "analyst": ("Income above 100k open 0", "NOT_FOUND False None"),
    "protocol": ('"status": "REPORT_STATUS_ACCEPTED"', '"code": "not_found"'),
}
MINUTES = re.compile(
    r"^geoveil (compare|simulate "
    r"(?:oneway|twoway|kde|distribution|epochs|relations|selection|ledger))\b",
    re.MULTILINE,
)
"""Commands that take minutes, and here `--quick`."""
SHELL = """
set -E
trap 'echo "not pasted without a failure: $BASH_COMMAND"' ERR
while IFS= read -r file; do source "$file" </dev/null; echo; echo "the end of $file"; done
"""
PYTHON = """
import sys, traceback
names = {"__name__": "__main__"}
for file in map(str.strip, sys.stdin):
    try:
        exec(compile(open(file).read(), file, "exec"), names)
    except BaseException:
        traceback.print_exc()
    print("\\nthe end of", file, flush=True)
"""
FAILED = re.compile(r"not pasted without a failure|Traceback|^error:|: syntax error", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """What stands between two fences, and why it is not run, if so."""

    not_run: str | None
    file: str | None
    kind: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    return [Block(**block.groupdict()) for block in BLOCK.finditer(page.read_text())]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


class Reader:
    """A shell and a Python in an empty folder, where servers have free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "empty"
        self.folder.mkdir()
        self._pasted = folder
        self._ports = {port: str(free_port()) for port in ("7717", "7718", "7719", "7720")}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GEOVEIL_", "PYTHON"))}
        self._environment = kept | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]]),
            "PYTHONPATH": str(self.folder),
            "GEOVEIL_PORT": self._ports["7717"],
            "GEOVEIL_SERVER": f"127.0.0.1:{self._ports['7717']}",
        }
        self._open: dict[str, subprocess.Popen[str]] = {}

    def paste(self, text: str, kind: str = "sh") -> str:
        """Return what is printed until the text has run."""
        if kind not in self._open:
            command = ["bash", "-c", SHELL] if kind == "sh" else [sys.executable, "-c", PYTHON]
            self._open[kind] = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        process = self._open[kind]
        assert process.stdin is not None
        assert process.stdout is not None
        file = self._pasted / f"{len(list(self._pasted.iterdir()))}.{kind}"
        text = MINUTES.sub(r"\g<0> --quick", text) if kind == "sh" else text
        file.write_text(self._with_ports(text))
        process.stdin.write(f"{file}\n")
        process.stdin.flush()
        printed = ""
        for line in process.stdout:
            if line == f"the end of {file}\n":
                return printed
            printed += line
        raise AssertionError(f"{kind} ended: {printed}")

    def write(self, name: str, text: str) -> None:
        """Write a file; install what a pyproject.toml is of, as pip would."""
        (self.folder / name).write_text(self._with_ports(text))
        if name == "pyproject.toml":
            told = tomllib.loads(text)
            # An installer takes a folder of a module and its test for a mistake, unless told.
            modules = [file.stem for file in self.folder.glob("*.py")]
            assert sorted(told["tool"]["setuptools"]["py-modules"]) == sorted(modules)
            project = told["project"]
            name, version = project["name"], project["version"]
            info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
            (info / "entry_points.txt").write_text(
                "".join(
                    f"[{group}]\n" + "".join(f"{key} = {of}\n" for key, of in points.items())
                    for group, points in project["entry-points"].items()
                )
            )

    def _with_ports(self, text: str) -> str:
        return re.sub("77(?:1[789]|20)", lambda found: self._ports[found[0]], text)

    def leave(self) -> list[str]:
        """Return what still runs; if nothing does, close shell and Python."""
        left = "jobs -pr"
        waited = f'for i in {{1..200}}; do [ -z "$({left})" ] && break; sleep 0.05; done; {left}'
        running = re.findall(r"^\d+$", self.paste(waited), re.MULTILINE)
        while not running and self._open:
            self._open.popitem()[1].communicate()
        return running

    def kill(self) -> None:
        for process in self._open.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextmanager
def reader_in(folder: Path) -> Iterator[Reader]:
    reader = Reader(folder)
    try:
        yield reader
    finally:
        reader.kill()


def read(page: Path, reader: Reader) -> str:
    """Paste a page; return all that was printed."""
    said, printed = [], ""
    for block in blocks_of(page):
        if block.file:
            reader.write(block.file, block.text)
        elif block.not_run or block.kind not in PASTED:
            continue
        elif block.kind == "output":
            assert agree(block.text, printed), f"{page.name} prints\n{printed}"
        elif block.kind == "console":
            command, _, shown = re.sub(r"(?m)^> ", "", block.text).partition("\n")
            printed = reader.paste(command.removeprefix("$ "))
            assert agree(shown, printed), f"{page.name} prints\n{printed}"
        else:
            printed = reader.paste(block.text, block.kind)
            assert not FAILED.search(printed), f"{page.name}\n{block.text}\n{printed}"
            said.append(printed)
    return "".join(said)


def agree(shown: str, printed: str) -> bool:
    """Whether the words are the same but for `...`, and numbers are within 2 %."""
    words = printed.split()
    for part in re.split(r"(?<!\S)\.\.\.(?!\S)", shown):
        wanted = part.split()
        starts = range(len(words) - len(wanted) + 1)
        at = next((i for i in starts if all(map(alike, wanted, words[i:]))), None)
        if at is None:
            return False
        words = words[at + len(wanted) :]
    return True


def alike(a: str, b: str) -> bool:
    try:
        return abs(float(a) - float(b)) <= 0.02 * abs(float(a))
    except ValueError:
        return re.fullmatch(re.escape(a).replace(r"\.\.\.", ".+"), b) is not None


def of_comparing(folder: Path, said: str) -> None:
    for file in ("results/oneway-exact.csv", "results/distribution.csv"):
        rows = read_csv(folder / file, ErrorRow)
        assert {row.mechanism for row in rows if row.origin == OWN} == {"wide"}
        assert (folder / file).with_suffix(".parquet").exists()
    assert (folder / "results" / "epochs.csv").exists()
    assert ">wide</text>" in (folder / "pairs.svg").read_text()  # letters, not their outlines
    assert max(len(file.read_text().splitlines()) for file in folder.glob("*.py")) <= 10


def of_how_to(folder: Path, said: str) -> None:
    (test,) = folder.glob("test_*.py")
    assert 2 <= len({*folder.glob("*.py"), *folder.glob("*.toml")} - {folder / "plan.toml"}) <= 3
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    subprocess.run([*command, test], cwd=folder, env=environment, check=True)
    if audited := re.search(r"(\d+) of (\d+) keep their promise", said):
        assert int(audited[1]) == int(audited[2]) >= 1
    assert not said.count("counted: report") or re.search(r"\s2\s", said)  # both were counted


def _pasted(pages: Iterable[Path]) -> list[Any]:
    """Return the pages of which something is run."""
    return [
        pytest.param(page, id=page.stem)
        for page in pages
        if any(block.kind in PASTED and not block.not_run for block in blocks_of(page))
    ]


@pytest.mark.deep(keep=0)
@pytest.mark.parametrize("page", _pasted([PAGES[0], *HOW_TO]))
def test_a_page_is_pasted_without_a_failure(page: Path, tmp_path: Path) -> None:
    with reader_in(tmp_path) as reader:
        said = read(page, reader)
        assert reader.leave() == [], "what a page starts it stops"
    assert all(printed in said for printed in PRINTED.get(page.stem, ())), said
    if page.stem == "comparing":
        of_comparing(reader.folder, said)
    if page in HOW_TO:
        of_how_to(reader.folder, said)


@pytest.mark.timeout(1800)  # the experiments of a page together
@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("page", _pasted(page for page in PAGES[1:] if page not in HOW_TO))
def test_a_page_of_minutes_is_pasted_without_a_failure(page: Path, tmp_path: Path) -> None:
    test_a_page_is_pasted_without_a_failure(page, tmp_path)


def test_what_is_not_pasted_is_counted() -> None:
    blocks = {page.stem: blocks_of(page) for page in PAGES}
    kinds = {block.kind for of in blocks.values() for block in of if not block.file}
    assert kinds <= PASTED | READ
    left = {name: sum(1 for block in of if block.not_run) for name, of in blocks.items()}
    assert {name: count for name, count in left.items() if count} == NOT_RUN


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\ntrue\n```\n",
        "```sh\nif\n```\n",
        "```python\n1 / 0\n```\n",
        "```console\n$ echo 1.000 kept\n1.03 kept\n```\n",
        "```sh\necho 1.000 kept\n```\n\n```output\n1.03 kept\n```\n",
    ],
)
def test_what_fails_is_seen(text: str, tmp_path: Path) -> None:
    """The control: of each kind of block, one that must fail."""
    page = tmp_path / "page.md"
    page.write_text(text)
    with reader_in(tmp_path) as reader, pytest.raises(AssertionError, match=r"page\.md"):
        read(page, reader)


@pytest.mark.deep
def test_what_is_left_running_is_seen(tmp_path: Path) -> None:
    with reader_in(tmp_path) as reader:
        reader.paste("sleep 60 &")
        assert len(reader.leave()) == 1


def test_questions_are_the_same_in_both_languages(tmp_path, monkeypatch):
    square = [[[-74.0, 40.7], [-73.9, 40.7], [-73.9, 40.8], [-74.0, 40.8], [-74.0, 40.7]]]
    monkeypatch.chdir(tmp_path)
    Path("district.geojson").write_text(
        str({"type": "Polygon", "coordinates": square}).replace("'", '"')
    )
    page = (ROOT / "docs" / "analyst.md").read_text()
    rows = re.findall(r"^\|[^|]*\| `([A-Z].*?)` \| `--(\w+) (.*?)` \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for in_python, word, text in rows:
        made = eval(in_python, vars(analyst) | {"parts": [square]})
        (read,) = analyst.questions_in({word: [text]})
        if word != "circle" and word != "place":  # places are named by how they are written
            assert made == read
        assert type(made) is type(read)
        assert made.place == read.place


@pytest.mark.deep(keep=0)
def test_the_store_of_the_page_keeps_the_contract_of_stores(tmp_path):
    """The page says that `StoreContract` is what every store has to do; so has its own."""
    for block in blocks_of(ROOT / "docs" / "how-to" / "store.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
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
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    subprocess.run([*command, "test_contract.py"], cwd=tmp_path, env=environment, check=True)
