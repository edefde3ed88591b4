"""The documents as their reader sees them: pages, and the blocks that can be pasted."""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    kind: str
    """The language, as "sh"."""
    text: str
    not_run: str | None
    """Why nobody pastes it into an empty folder, if so: a comment above the block says it."""


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(block["kind"], block["text"], block["why"]) for block in found]


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
