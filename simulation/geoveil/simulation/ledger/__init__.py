"""The ledger of reproductions: each figure and table of five papers, beside what geoveil gets."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from geoveil.simulation.ledger import (
    dampening,
    geo_privacy,
    noisy_max,
    permute_and_flip,
    transmission,
)
from geoveil.simulation.ledger.reproduction import (
    AGREES,
    DIFFERS,
    MISSING,
    OwnNumber,
    Reproduced,
    Reproduction,
    ledger_page,
    nothing,
)
from geoveil.simulation.selection.experiment import Options

_PAPERS = (geo_privacy, permute_and_flip, dampening, noisy_max, transmission)
_NUMBERS = {name: numbers for paper in _PAPERS for name, numbers in paper.NUMBERS.items()}
_TEXTS = files("geoveil.simulation").joinpath("data", "reproductions.toml")
LEDGER: Mapping[str, Reproduction] = MappingProxyType(
    {
        name: Reproduction(name=name, compute=_NUMBERS.get(name, nothing), **told)
        for name, told in tomllib.loads(_TEXTS.read_text(encoding="utf-8")).items()
    }
)
"""Name → figure or table: its texts are data, its numbers are computed by the module of its
paper."""


def own_numbers(name: str, options: Options) -> list[OwnNumber]:
    """Return geoveil's numbers of a figure or table: the law of its cell.

    Args:
        name: one of `LEDGER`.
        options: what they are computed from.
    """
    return LEDGER[name].own_numbers(options)


__all__ = [
    "AGREES",
    "DIFFERS",
    "LEDGER",
    "MISSING",
    "Reproduced",
    "Reproduction",
    "ledger_page",
    "own_numbers",
]
