"""List known vulnerabilities of the packages in requirements/, or say that the check failed.

`make audit` runs this with pip-audit. Exit status: 0 for none, 1 for some, 2 if the database cannot
be reached.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "requirements").glob("*.txt"))
UNREACHED = "NOTHING WAS AUDITED: the database of known vulnerabilities was not reached."


def main(pip_audit: str) -> int:
    """Look up every version once, and print known vulnerabilities."""
    form = ("--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off")
    asked = []
    for file in FILES:  # one by one: files may name different versions of a package
        done = subprocess.run(  # noqa: S603 - of `make audit`
            [pip_audit, *form, "--requirement", str(file)],
            cwd=ROOT,
            check=False,
            capture_output=True,
            text=True,
        )
        try:
            asked += json.loads(done.stdout)["dependencies"]
        except (ValueError, KeyError, TypeError):
            print(done.stderr.strip(), file=sys.stderr)
            print(UNREACHED)
            return 2
    skipped = sorted({one["name"] for one in asked if "skip_reason" in one})
    flaws = {
        (one["name"], one["version"], flaw["id"]): flaw["fix_versions"]
        for one in asked
        for flaw in one.get("vulns", ())
    }
    for (name, version, flaw), fixes in flaws.items():
        print(f"{name} {version}: {flaw}, mended in {', '.join(fixes) or 'no version'}")
    looked = len({(one["name"], one["version"]) for one in asked if "version" in one})
    if not looked:
        print(UNREACHED)
        return 2
    if skipped:
        print(f"NOT AUDITED, as the database does not know them: {', '.join(skipped)}")
    print(f"{looked} versions looked up, {len(flaws)} known vulnerabilities.")
    return 2 if skipped else 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
