"""Test the npm package in apps: installed from its tarball, and built by common bundlers."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.browser.conftest import (  # noqa: F401 - fixtures
    browser,
    context,
    running_browser,
)
from tests.browser.test_element import show, survey  # noqa: F401 - a fixture

from .conftest import OFFLINE, PATIENCE_S, npm

BUNDLERS = Path(__file__).parent / "bundlers"
PRINTS = 'import { Client, Policy } from "@geoveil/client";\n' + (
    "const policy = new Policy({ limits: {} });\n"
    'console.log(new Client({ server: "https://collector.example", policy }).persistent);\n'
)
NODE = 'import { FileStorage } from "@geoveil/client/node";\n' + (
    'const storage = await FileStorage.open("state");\nconsole.log(storage.persistent);\n'
)


def installed(folder, *packages):
    """Install packages into a folder, which needs the registry."""
    done = npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", *packages)
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        pytest.skip("the package of npm is left out: the npm registry can't be reached")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def app(device, tmp_path_factory):
    """A folder with nothing but the package, from the tarball that would be published."""
    folder = tmp_path_factory.mktemp("app")
    done = npm(device, "pack", "--silent", "--pack-destination", str(folder))
    assert done.returncode == 0, done.stderr
    (folder / "package.json").write_text('{"type": "module"}')
    installed(folder, done.stdout.split()[-1])
    return folder


def node(folder, *arguments):
    done = subprocess.run(
        ["node", *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.deep(rest=0)
def test_an_app_of_three_lines_runs_as_it_is_and_bundled(app, device):
    """With esbuild, from the tarball alone: every export, and types, licence and source maps."""
    package = app / "node_modules" / "@geoveil" / "client"
    held = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
    assert {name for name in held if not name.startswith("dist/")} == {
        *("LICENSE", "README.md", "package.json"),
    }
    described = json.loads((package / "package.json").read_text("utf-8"))
    named = {path for export in described["exports"].values() for path in export.values()}
    assert {name.removeprefix("./") for name in named} <= held
    for path in package.rglob("*.js"):  # as bundlers and browsers look for them
        (mapped,) = re.findall(r"//# sourceMappingURL=(\S+)", path.read_text("utf-8"))
        source_map = json.loads((path.parent / mapped).read_text("utf-8"))
        assert len(source_map["sourcesContent"]) == len(source_map["sources"]) == 1
        assert source_map["sourcesContent"][0]
    esbuild = device / "node_modules" / ".bin" / "esbuild"
    for name, source, told in (("page", PRINTS, "false\n"), ("node", NODE, "true\n")):
        (app / f"{name}.js").write_text(source)
        assert node(app, f"{name}.js") == told
        given = (f"{name}.js", "--bundle", "--format=esm", f"--outfile={name}-bundled.mjs")
        platform = ("--platform=node",) if name == "node" else ()
        done = subprocess.run(
            [esbuild, *given, *platform], cwd=app, capture_output=True, text=True, check=True
        )
        assert "warning" not in done.stderr
        assert node(app, f"{name}-bundled.mjs") == told


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize(("module", "finds"), [("NodeNext", "NodeNext"), ("ESNext", "Bundler")])
def test_types_of_every_export_are_sound(app, device, module, finds):
    """As apps look for them, by the two ways that TypeScript has."""
    package = json.loads((device / "package.json").read_text("utf-8"))
    lines = [
        f'import * as part{i} from "@geoveil/client{name[1:]}";\nexport const held{i} = part{i};\n'
        for i, name in enumerate(package["exports"])
    ]
    (app / "typed.ts").write_text("".join(lines))
    how = ("--module", module, "--moduleResolution", finds, "--target", "ES2022")
    types = ("--strict", "--skipDefaultLibCheck", "--typeRoots", device / "node_modules/@types")
    node(app, device / "node_modules/typescript/lib/tsc.js", "--noEmit", *how, *types, "typed.ts")


_BUILDS = {
    "esbuild": """
import { build } from "esbuild";
const how = { bundle: true, format: "esm", outfile: "dist/main.js", logLevel: "warning" };
const { warnings } = await build({ ...how, entryPoints: ["main.js"] });
if (warnings.length) throw new Error(JSON.stringify(warnings));
""",
    "vite": """
import { build } from "vite";
const output = { entryFileNames: "main.js", chunkFileNames: "[name].js" };
await build({ base: "./", logLevel: "warn", build: { rolldownOptions: { output } } });
""",
    "webpack": """
import webpack from "webpack";
const entry = "./main.js";
const performance = { hints: false };
webpack({ mode: "production", entry, performance, devtool: "source-map" }, (error, stats) => {
    const { errors, warnings } = stats?.toJson() ?? { errors: [error] };
    if (errors.length || warnings.length) throw new Error(JSON.stringify([errors, warnings]));
});
""",
}
APP = """
import "@geoveil/client/element";
import { createElement as h, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { useSurvey } from "@geoveil/client/react";

const server = new URLSearchParams(location.search).get("server");
function Survey() {
  const { status, offer, receipt, contribute } = useSurvey({ campaign: "income", server });
  const send = () => contribute(52_417);
  return h("main", null, h("h1", null, offer?.campaign.title), h("p", { id: "status" }, status),
    h("button", { onClick: send, disabled: status !== "ready" }, "Send"),
    receipt && h("p", { id: "perturbed" }, receipt.answers[0].perturbed));
}
const root = document.querySelector("#root") ?? document.createElement("div");
createRoot(root).render(h(StrictMode, null, h(Survey)));
"""


@pytest.mark.deep(keep=0, rest=0)
@pytest.mark.parametrize("bundler", _BUILDS)
async def test_element_and_hook_work_as_each_bundler_builds_them(
    app,
    tmp_path,
    bundler,
    survey,  # noqa: F811 - a fixture
    context,  # noqa: F811
):
    """Not in continuous integration: the two bundlers weigh 90 MB."""
    folder = tmp_path / "app"
    shutil.copytree(BUNDLERS, folder)
    installed(folder, *app.glob("*.tgz"))
    (folder / "main.js").write_text(APP)
    (folder / "index.html").write_text('<script type="module" src="/main.js"></script>')
    (folder / "build.mjs").write_text(_BUILDS[bundler])
    assert "warn" not in node(folder, "build.mjs").lower()
    survey.files.update({path.name: path.read_bytes() for path in (folder / "dist").rglob("*.js")})
    page = await context.new_page()
    # The hook, in a component that React mounts twice; then the element, which finds its report.
    survey.files["page"] = b'<div id="root"></div><script type="module" src="/main.js"></script>'
    await page.goto(f"{survey.origin}/?server=http://{survey.gateway.address}")
    await page.get_by_role("button", name="Send").click()
    await page.get_by_text("sent", exact=True).wait_for()
    assert await page.inner_text("#perturbed") in "01"
    assert await survey.counted() == {"income": 1, "form": 0}
    await page.goto(show(survey, "income", script="main.js"))
    await page.get_by_text("Counted.").wait_for()
    assert await survey.counted() == {"income": 1, "form": 0}
