"""Test that each extra has its commands' dependencies, and that errors name a missing extra.

An environment holds the wheel and, linked from the environment that runs this, exactly the
distributions that the wheel's metadata asks for with one extra; no others can be imported.
"""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.test_pages import PAGES, ROOT, blocks_of, free_port

EXTRAS = ("", "server", "analyst", "console", "all")
FOR_US = {"test", "peers", "bench", "dev", "site"}
NOT_INSTALLED = re.compile(r"needs \w+, which is not\s+installed:\s+pip install 'geoveil\[(\w+)\]'")
GROUPS = {"campaign", "token", "certificate", "db", "simulate", "client"}
SERVES = ("server", "analyst", "console", "all")
COMMANDS = {
    "geoveil --version": ("", *SERVES),
    "geoveil --help": ("", *SERVES),
    "geoveil client history": ("", *SERVES),
    "echo 87,500 | geoveil contribute income-above-100k --yes --state-dir ada": ("", *SERVES),
    "geoveil campaign create Incomes --points --attribute income --unit dollar --epsilon 1"
    " --per 8000": ("", *SERVES),
    "echo 87,500 | geoveil contribute incomes --yes --state-dir ada": ("", *SERVES),
    "echo 131,000 | geoveil contribute incomes --yes --state-dir bob": ("", *SERVES),
    "geoveil campaign list": ("", *SERVES),
    "geoveil campaign show incomes": ("", *SERVES),
    "geoveil card incomes": ("", *SERVES),
    "geoveil form --help": ("", *SERVES),
    "geoveil mask --help": ("", *SERVES),
    "geoveil campaign keygen asker.pem": ("", *SERVES),
    "geoveil estimate income-above-100k": ("", *SERVES),
    "geoveil plan --threshold 100000 --participants 5000 --epsilon 1 --per 8000 --unit dollar"
    " --prior incomes": ("", *SERVES),
    "geoveil audit --help": ("", *SERVES),
    "geoveil web --help": ("", *SERVES),
    "geoveil relay --help": ("", *SERVES),
    "geoveil health --wait": SERVES,
    "geoveil serve --check": SERVES,
    "geoveil db check": SERVES,
    "geoveil doctor": SERVES,
    "geoveil token create ada --file tokens.json": SERVES,
    "geoveil token list --file tokens.json": SERVES,
    "geoveil token revoke ada --file tokens.json": SERVES,
    "geoveil certificate authority --folder tls": SERVES,
    "geoveil certificate server localhost --folder tls": SERVES,
    "geoveil certificate client device-1 --folder tls": SERVES,
    "geoveil db backup copy.db": SERVES,
    "geoveil serve --console --check": ("console", "all"),
    "geoveil campaign export incomes --out points.parquet": ("analyst", "console", "all"),
    "geoveil estimate incomes --quantile 0.5 --parquet out.parquet": ("analyst", "console", "all"),
    "geoveil estimate incomes --curve --plot curve.png": ("analyst", "all"),
    "geoveil demo --devices 40 --figure demo.png": ("analyst", "all"),
}  # fmt: skip
"""What documents tell people to type → the extras with which it does what it says."""


def requirements_of(of: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in of.requires or []:
        asked = Requirement(text)
        given = extras or {""}
        if asked.marker is None or any(asked.marker.evaluate({"extra": one}) for one in given):
            yield asked


def needed(wheel: Distribution, extra: str) -> dict[str, Distribution]:
    """Return the distributions that an installer would install beside the wheel, by name."""
    held: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(requirements_of(wheel, {extra}))
    while waiting:
        asked = waiting.pop()
        name, extras = canonicalize_name(asked.name), frozenset(asked.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name == "geoveil":
            for of in extras:
                waiting += requirements_of(wheel, {of})
            continue
        held[name] = distribution(asked.name)
        assert asked.specifier.contains(held[name].version, prereleases=True), asked
        waiting += requirements_of(held[name], set(extras) | {""})
    return held


def link(of: Distribution, packages: Path) -> None:
    """Let a distribution be imported from another environment, by links to its files."""
    tops = {file.parts[0] for file in of.files or [] if file.parts[0] not in ("..", "__pycache__")}
    for top in tops:
        target, source = packages / top, Path(str(of.locate_file(top)))
        if target.is_dir() and not target.is_symlink():  # of a namespace that others share, too
            link_below(source, target)
        elif target.is_symlink() and target.resolve() != source.resolve():
            first = target.resolve()
            target.unlink()
            target.mkdir()
            link_below(first, target)
            link_below(source, target)
        elif not target.exists():
            target.symlink_to(source)


def link_below(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the environment that has an extra, made when it is first wanted."""

    @cache
    def home_of(extra: str) -> Path:
        home = tmp_path_factory.mktemp(extra or "bare")
        venv.create(home)
        python = home / "bin" / "python"
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index",
             "--quiet", "--disable-pip-version-check", wheel], check=True,
        )  # fmt: skip
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
        (own,) = [d for d in distributions(path=[str(packages)]) if d.name == "geoveil"]
        for of in needed(own, extra).values():
            link(of, packages)
        return home

    return home_of


def run(home: Path, command: str, folder: Path, port: int = 7717) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GEOVEIL_", "PYTHON"))}
    environment |= {
        "PATH": f"{home / 'bin'}{os.pathsep}{environment['PATH']}",
        "GEOVEIL_SERVER": f"127.0.0.1:{port}",
        "HOME": str(folder),
        "MPLCONFIGDIR": str(folder),
        "PYTHONNOUSERSITE": "1",
    }
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


def imports_in_documents() -> list[str]:
    """Return the lines of the documents that import a part of geoveil."""
    found = set()
    for page in PAGES:
        for block in blocks_of(page):
            if block.kind == "python":
                found |= {
                    ast.unparse(node)
                    for node in ast.walk(ast.parse(block.text))
                    if isinstance(node, ast.ImportFrom) and (node.module or "")[:7] == "geoveil"
                }
    return sorted(found)


def test_the_matrix_has_every_command_of_the_documents() -> None:
    """Experiments and rehearsals take the libraries of `[analyst]`: their pages run them."""
    research = ("compare", "odds", "rehearse", "simulate")
    spoken = {
        name_of(line)
        for page in PAGES
        for block in blocks_of(page)
        for line in re.findall(r"(?m)^(?:\$ |.*\| )?(geoveil [a-z].*)$", block.text)
        if block.kind in ("sh", "console")
    }
    lacking = spoken - set(map(name_of, COMMANDS))
    assert {name for name in lacking if name.split()[0] not in research} == set()


def name_of(line: str) -> str:
    """Return the words of a command that are no arguments."""
    words = line.split("geoveil ", 1)[1].split()
    return " ".join(words[: 2 if words[0] in GROUPS else 1])


def test_users_have_five_extras_and_the_bare_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {*EXTRAS[1:], "tracing", *FOR_US}


@pytest.mark.deep(rest=0)
@pytest.mark.parametrize("extra", EXTRAS)
def test_what_documents_tell_works_or_names_its_extra(
    extra: str, installed: Callable[[str], Path], tmp_path: Path
) -> None:
    """Every line, in an environment of its own: it works, or says in a sentence what to install.

    The server is one of `[server]`, also where the commands are of a smaller environment.
    """
    home, port = installed(extra), free_port()
    with subprocess.Popen(
        [installed("server") / "bin" / "geoveil", "serve", "--port", str(port)],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={k: v for k, v in os.environ.items() if not k.startswith(("GEOVEIL_", "PYTHON"))},
    ) as server:  # fmt: skip
        try:
            assert not run(installed("server"), "geoveil health --wait", tmp_path, port).returncode
            create = "geoveil campaign create 'Income above 100k' --attribute income --unit dollar"
            asked = f"{create} --epsilon 1 --per 8000 --threshold 100000"
            done = run(home, asked, tmp_path, port)
            assert not done.returncode, done.stderr
            for command, extras in COMMANDS.items():
                done = run(home, command, tmp_path, port)
                said = done.stdout + done.stderr
                assert "Traceback" not in said, f"{command}\n{said}"
                if extra in extras:
                    assert done.returncode == 0, f"{command}\n{said}"
                else:
                    named = NOT_INSTALLED.search(done.stderr)
                    assert named, f"{command}\n{said}"
                    # `serve` is not there to say that its console takes more.
                    first = ("server",) if extra == "" and "--console" in command else ()
                    assert named[1] in (*extras, *first), f"{command}\n{said}"
        finally:
            server.terminate()


@pytest.mark.deep(rest=1)
@pytest.mark.parametrize("extra", EXTRAS)
def test_imports_of_documents_work_or_name_their_extra(
    extra: str, installed: Callable[[str], Path], tmp_path: Path
) -> None:
    lines = imports_in_documents()
    assert len(lines) > 30
    program = (
        "import json, sys\n"
        "from geoveil.gp.extras import MissingExtraError\n"
        "refused = {}\n"
        "for line in json.load(sys.stdin):\n"
        "    try:\n"
        "        exec(line, {})\n"
        "    except MissingExtraError as error:\n"
        "        refused[line] = error.extra\n"
        "print(json.dumps(refused))\n"
    )
    (tmp_path / "lines.py").write_text(program)
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    done = run(installed(extra), "python lines.py < lines.json", tmp_path)
    assert done.returncode == 0, done.stderr
    refused = json.loads(done.stdout)
    if extra:
        assert refused == {}
    else:
        assert set(refused.values()) == {"server"}
        assert not [line for line in refused if re.match(r"from geoveil\.(gp|client|cam)", line)]
    for part in ("gp", "campaign", "client", "audit", "selection"):
        done = run(installed(""), f"python -c 'import geoveil.{part}'", tmp_path)
        assert done.returncode == 0, done.stderr
