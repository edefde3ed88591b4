"""Build the documentation site in dist/site, and a PDF: `make site`.

The pages are laid out in build/site as in the repository, so that links between them work. Files
and folders that they link to become pages, as do the parts' public names. Sphinx treats warnings as
errors; then every link of its output is checked.
"""

import html
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from geoveil.analyst import campaign_for_points
from geoveil.campaign import encode
from geoveil.gp import GeoPrivacy

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site"
SITE = ROOT / "dist" / "site"
PAGES = ("*.md", "docs/**/*.md", "client/typescript/README.md")
PARTS = (
    "gp", "campaign", "client", "aggregator", "analyst", "console", "gateway", "relay", "audit",
    "selection", "simulation",
)  # fmt: skip
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))|(src=\")([^\"]+)(\")")
FENCED = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {
    ".py": "python", ".toml": "toml", ".yml": "yaml", ".json": "json", ".proto": "protobuf",
}  # fmt: skip
MOST_CHARACTERS = 60_000
DISTANCES = (2_000, 4_000, 8_000, 16_000, 32_000)
"""Distances for which the animated page states guarantees, in dollars."""
NAMED = {
    'role="heading"': 'role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside class="sidebar-drawer" aria-label="All pages"',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
}
"""Attributes that screen readers need and the theme omits."""
ORPHAN = "---\norphan: true\n---\n\n"
"""Beginning of a page that is in no menu."""


def main() -> None:
    """Lay out the pages, run Sphinx, and check every link."""
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            _lay(page)
    for folder, title in (("how-to", "Add a part of your own"), ("decisions", "Decisions")):
        pages = sorted((ROOT / "docs" / folder).glob("*.md"))
        _write(f"docs/{folder}/index.md", _contents(title, [page.stem for page in pages]))
    described: dict[int, str] = {}
    for part in PARTS:
        module = importlib.import_module(f"geoveil.{part}")
        _write(f"docs/api/geoveil.{part}.md", _reference(module, described))
    _write("docs/api/index.md", _contents("Reference", [f"geoveil.{part}" for part in PARTS]))
    shutil.copytree(ROOT / "docs" / "site", SOURCE / "static")
    (SOURCE / "static" / "moving.js").write_text(moving())
    _sphinx("html", SITE, "-j", "2", "-E")
    _print(SITE / "geoveil.pdf")
    for page in SITE.rglob("*.html"):
        text = page.read_text()
        for old, new in NAMED.items():
            text = text.replace(old, new)
        page.write_text(text)
    (SITE / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>geoveil</title>'
        '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        '<a href="docs/index.html">geoveil</a>\n'
    )
    sys.exit("\n".join(broken(SITE)) or None)


def _sphinx(builder: str, folder: Path, *options: str) -> None:
    subprocess.run(  # noqa: S603 - of `make site`
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-b", builder,
         "-d", str(ROOT / "build" / "doctrees"), *options, str(SOURCE), str(folder)],
        cwd=ROOT, check=True,
    )  # fmt: skip


def _print(file: Path) -> None:
    """Print the pages of the menu as one PDF, if Chromium is available."""
    chromium = shutil.which("chromium")
    if chromium is None:
        print("no Chromium (make browser): geoveil.pdf is left out")
        return
    single = ROOT / "build" / "single"
    _sphinx("singlehtml", single)
    subprocess.run(  # noqa: S603 - of `make site`
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
         f"--print-to-pdf={file}", (single / "docs" / "index.html").as_uri()],
        check=True, capture_output=True,
    )  # fmt: skip
    if not file.read_bytes().startswith(b"%PDF"):
        sys.exit("Chromium printed no PDF")


def _write(name: str, text: str) -> None:
    (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
    (SOURCE / name).write_text(text)


def _contents(title: str, names: list[str]) -> str:
    """Return a list of pages. They are in no menu, which would double the time for every page."""
    return f"# {title}\n\n" + "\n".join(f"* [](<{name}.md>)" for name in names) + "\n"


def _lay(page: Path) -> None:
    """Write a page, and the files that it links to."""
    parts = FENCED.split(page.read_text())
    parts[::2] = [LINK.sub(lambda link: _linked(page.parent, link), text) for text in parts[::2]]
    listed = page.parent.name in {"how-to", "decisions"}
    _write(str(page.relative_to(ROOT)), ORPHAN * listed + "".join(parts))


def _linked(folder: Path, link: re.Match[str]) -> str:
    target = link[2] or link[6]
    path = Path(os.path.normpath(folder / target))
    if urlsplit(target).scheme or target.startswith("/") or not path.exists():
        return link[0]
    if path.suffix == ".md":
        return link[0]
    name = str(path.relative_to(ROOT))
    if path.suffix in {".png", ".svg", ".webp"}:
        (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, SOURCE / name)
        return link[0]
    made = f"{name}/index.md" if path.is_dir() else f"{name}.md"
    if not (SOURCE / made).exists():
        _write(made, _folder(path) if path.is_dir() else _file(path))
    return f"{link[1]}{os.path.relpath(ROOT / made, folder)}{link[4]}"


def _folder(path: Path) -> str:
    """Return a list of a folder's contents, with the first sentence of each module."""
    name = path.relative_to(ROOT)
    if name in (Path("docs/decisions"), Path("docs/how-to")):
        return ""  # the page is written later
    lines = [f"{ORPHAN}# {name}/\n"]
    for file in sorted(path.iterdir()):
        if file.name.startswith(("_", ".")) or file.name == "py.typed":
            continue
        text = file.read_text() if file.suffix == ".py" else ""
        first = re.match(r'"""(.*?)(?:\n\n|""")', text, re.DOTALL)
        lines.append(f"* `{file.name}{'/' * file.is_dir()}`" + (f": {first[1]}" if first else ""))
    return "\n".join(lines) + "\n"


def _file(path: Path) -> str:
    """Return a file as a page: a notebook as its cells, other text unchanged."""
    title = f"{ORPHAN}# {path.relative_to(ROOT)}\n\n"
    text = path.read_text()
    if path.suffix == ".ipynb":
        return _notebook(path, json.loads(text))
    more, language = "", LANGUAGES.get(path.suffix, "text")
    if len(text) > MOST_CHARACTERS:  # cut within a word, where no lexer would work
        more = f"\n\n{len(text):,} characters, of which these are the first {MOST_CHARACTERS:,}.\n"
        language = "text"
    return f"{title}````{language}\n{text[:MOST_CHARACTERS].rstrip()}\n````\n{more}"


def _notebook(path: Path, notebook: dict[str, Any]) -> str:
    made: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            made.append(LINK.sub(lambda link: _linked(path.parent, link), source))
            continue
        made.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                image = f"{path.stem}-{len(made)}.png"
                file = SOURCE / path.parent.relative_to(ROOT) / image
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(b64decode("".join(data["image/png"])))
                made.append(f"![What the code above draws]({image})")
            else:
                text = "".join(data.get("text/plain", output.get("text", "")))
                made.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(made) + "\n"


def _reference(module: ModuleType, described: dict[int, str]) -> str:
    """Return directives for every public name of a part."""
    lines = [f"{ORPHAN}# {module.__name__}\n", (module.__doc__ or "").split("\n\n")[0], ""]
    for name in module.__all__:
        thing = getattr(module, name)
        shown = f"{module.__name__}.{name}"
        if callable(thing) and described.setdefault(id(thing), shown) != shown:
            part = described[id(thing)].rpartition(".")[0]
            lines += [f"`{name}` is [that of {part}](#{described[id(thing)]}).", ""]
            continue
        kind, members = "autodata", ":no-value:\n"
        if inspect.isclass(thing):
            kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
            members = ":members:\n:show-inheritance:\n"
        elif callable(thing):
            kind, members = "autofunction", ""
        lines += [f"```{{eval-rst}}\n.. {kind}:: {shown}"]
        lines += [f"   {option}" for option in members.splitlines()] + ["```", ""]
    return "\n".join(lines)


def moving() -> str:
    """Return the animated page's script as one file, as pages opened from disk cannot import."""
    files = ROOT / "apps" / "geoveil" / "gateway" / "files"
    bundle, exported = (files / "geoveil-client.js").read_text().rsplit("export{", 1)
    # The first import is used only by chunks that this page never loads.
    bundle = bundle.removeprefix('import"./geoveil-chunk.js";')
    names = [pair.split(" as ") for pair in exported.strip().rstrip(";").rstrip("}").split(",")]
    device = ",".join(f"{public}:{own}" for own, public in names)
    data = ROOT / "campaign" / "geoveil" / "campaign" / "data" / "en.json"
    of = json.loads(data.read_text())
    words = json.dumps({"default": of["told"] | of["page"]})
    bundle = bundle.replace('import("./geoveil-en.js")', f"Promise.resolve({words})")
    odds = (files / "odds.js").read_text().replace("export function", "function")
    odds = re.sub(r"import (.*) from .*;", r"const \1 = geoveil;", odds)
    opens = datetime(2026, 1, 1, tzinfo=UTC)
    campaigns = {
        per: encode(
            campaign_for_points(
                attribute="income", privacy=GeoPrivacy(1.0, per=per, unit="dollar"), dimension=1,
                campaign_id="moving", title="Income", opens=opens, closes=opens + timedelta(days=1),
            )
        ).hex()
        for per in DISTANCES
    }  # fmt: skip
    page = (ROOT / "docs" / "site" / "moving.js").read_text()
    return (
        f"(async () => {{const geoveil = (() => {{{bundle};return {{{device}}};}})();\n"
        f"await geoveil.loadMessages();\n{odds}\n"
        f"const CAMPAIGNS = {json.dumps(campaigns)};\n{page}}})();\n"
    )


def broken(folder: Path) -> list[str]:
    """Return the links within a site that lead to no file of it, or to no place in a file."""
    text = {page: page.read_text() for page in sorted(folder.rglob("*.html"))}
    places = {page: set(re.findall(r'\bid="([^"]+)"', written)) for page, written in text.items()}
    wrong = []
    for page, written in text.items():
        for link in re.findall(r'\b(?:href|src)="([^"]+)"', written):
            address = urlsplit(html.unescape(link))
            if address.scheme or address.netloc:
                continue
            target = page
            if address.path:
                target = Path(os.path.normpath(page.parent / unquote(address.path)))
            place = html.escape(unquote(address.fragment))
            if not target.is_file() or (place and place not in places.get(target, {place})):
                wrong.append(f"{page.relative_to(folder)}: {link} leads nowhere")
    return wrong


if __name__ == "__main__":
    main()
