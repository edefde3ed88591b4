"""The ledger of reproductions: each figure and table of five papers, beside what geoveil gets."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from geoveil.simulation.ledger import geo_privacy, selection
from geoveil.simulation.ledger.reproduction import (
    AGREES,
    DIFFERS,
    MISSING,
    Reproduction,
    ledger_page,
    line_of,
)
from geoveil.simulation.ledger.selection import check_data
from geoveil.simulation.selection.experiment import Options

_NUMBERS = {**geo_privacy.NUMBERS, **selection.NUMBERS}
_TEXTS = files("geoveil.simulation").joinpath("data", "reproductions.toml")
LEDGER: Mapping[str, Reproduction] = MappingProxyType(
    {
        name: Reproduction(name=name, compute=_NUMBERS.get(name), **told)
        for name, told in tomllib.loads(_TEXTS.read_text(encoding="utf-8")).items()
    }
)
"""Name → figure or table: its texts are data, its numbers are computed by the module of its
paper."""


def reproduce(name: str, options: Options) -> Reproduction:
    """Return a figure or table of the ledger, computed again: what a process is asked for."""
    return LEDGER[name].run(options)


__all__ = [
    "AGREES",
    "DIFFERS",
    "LEDGER",
    "MISSING",
    "Reproduction",
    "check_data",
    "ledger_page",
    "line_of",
    "reproduce",
]
