"""What the commands share: two consoles, formats of numbers, and how a failure looks."""

import sys
from typing import NoReturn

from rich.console import Console
from rich.markup import escape

from geoveil.campaign import Campaign

out = Console()
"""Results."""
err = Console(stderr=True)
"""Progress and errors."""


def fail(message: str) -> NoReturn:
    """Print one line to standard error and exit with status 1."""
    err.print(f"[bold red]error:[/] {escape(message)}", soft_wrap=True)
    sys.exit(1)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table; a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def privacy_text(campaign: Campaign) -> str:
    """Return a campaign's guarantee, ε with its unit."""
    return str(campaign.privacy)
