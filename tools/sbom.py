"""Write the bill of materials of the wheel, CycloneDX 1.6: `python tools/sbom.py`.

It lists the npm packages whose code is bundled into geoveil/gateway/files: those that NOTICE names,
in the locked versions. Python dependencies are not in the wheel; their names and hashes are in
requirements/. The same tree gives the same bytes, as there is no time or serial number.
"""

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
FILE = ROOT / "client" / "typescript" / "sbom.cdx.json"
_SECTION = "Code shipped in geoveil/gateway/files"


def bill() -> str:
    """Return the bill as JSON."""
    notice = (ROOT / "NOTICE").read_text("utf-8").split(_SECTION, 1)[1]
    named = set(re.findall(r"@?[a-z0-9][a-z0-9./-]*[a-z0-9]", notice))
    lock = json.loads((ROOT / "client" / "typescript" / "package-lock.json").read_text("utf-8"))
    parts = [
        _component(path.rpartition("node_modules/")[2], held)
        for path, held in sorted(lock["packages"].items())
        if path.count("node_modules/") == 1 and path.rpartition("node_modules/")[2] in named
    ]
    record = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "name": "geoveil", "bom-ref": "geoveil"}},
        "components": parts,
        "dependencies": [{"ref": "geoveil", "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(record, indent=2) + "\n"


def _component(name: str, held: dict[str, Any]) -> dict[str, Any]:
    purl = f"pkg:npm/{quote(name, safe='/')}@{held['version']}"
    algorithm, digest = held["integrity"].split("-", 1)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": held["version"],
        "purl": purl,
        "licenses": [{"expression": held["license"].strip("()")}],
        "hashes": [
            {
                "alg": algorithm.upper().replace("SHA", "SHA-"),
                "content": base64.b64decode(digest).hex(),
            }
        ],
    }


if __name__ == "__main__":
    FILE.write_text(bill(), encoding="utf-8")
