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
    """Return what a report costs, ε with its unit, and how it adds up if it is a sum."""
    spent = str(campaign.report_privacy)
    if campaign.report_privacy == campaign.privacy:
        return spent
    return f"{spent}: {campaign.answers:,} answers of ε = {campaign.privacy.epsilon:g} each"
