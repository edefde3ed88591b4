"""Write requirements/*.txt: the versions that `make` installs, with the hashes of their files.

`make lock` runs this with uv. Each file lists what its extra needs beyond the file that it
includes, for every supported Python and platform. The ranges in pyproject.toml remain the
package's own requirements.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "requirements"
BUILD = FOLDER / "build.in"
APART = ("pip", "proto")
"""Tools with requirements of their own, apart from the package: NAME.in."""
LAYERS = {"all": None, "test": "all", "dev": "test", "bench": "test", "site": "all"}
"""Extra → the extra whose file it builds on."""
NOTE = "# Made by 'make lock'.\n"


def main(uv: str) -> None:
    """Resolve every extra and every separate list, and write the file of each."""
    known: dict[str, list[str]] = {}
    for extra, below in LAYERS.items():
        asked = ["--extra", extra, "pyproject.toml", str(BUILD)]
        if below is not None:
            asked += ["--constraint", str(FOLDER / f"{below}.txt")]
        known[extra] = _resolve(uv, *asked)
        held = known[below] if below is not None else []
        new = [entry for entry in known[extra] if entry not in held]
        lower = "" if below is None else f"-r {below}.txt\n"
        (FOLDER / f"{extra}.txt").write_text(NOTE + lower + "".join(new))
    for name in APART:
        found = _resolve(uv, str(FOLDER / f"{name}.in"))
        (FOLDER / f"{name}.txt").write_text(NOTE + "".join(found))


def _resolve(uv: str, *asked: str) -> list[str]:
    """Return each requirement with its hashes on further lines."""
    form = ("--universal", "--python-version", "3.11", "--generate-hashes", "--upgrade")
    done = subprocess.run(  # noqa: S603 - of `make lock`
        [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", *form, *asked],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    entries: list[str] = []
    for line in done.stdout.splitlines(keepends=True):
        if line.startswith(" "):
            entries[-1] += line
        else:
            entries.append(line)
    return entries


if __name__ == "__main__":
    main(sys.argv[1])
