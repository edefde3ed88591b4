"""Write the messages of TypeScript: `python -m tools.messages [FOLDER]`.

They are the same sentences as Python's, without those that only its commands print.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoveil.campaign.words import LANGUAGES

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "client" / "typescript" / "src" / "gen" / "messages"
_DATA = ROOT / "campaign" / "geoveil" / "campaign" / "data"


def messages(language: str) -> dict[str, Any]:
    """Return the messages of pages in a language."""
    of = json.loads((_DATA / f"{language}.json").read_text("utf-8"))
    return of["told"] | of["page"]


def modules() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each module."""
    for language in LANGUAGES:
        text = json.dumps(messages(language), ensure_ascii=False, indent=2)
        yield f"{language}.ts", f"// Written by tools/messages.py.\nexport default {text};\n"


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in modules():
        (folder / name).write_text(made, "utf-8")
