"""How all figures look: one colour and one marker for each mechanism, wherever it is drawn."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from geoveil.simulation.experiments.rows import LOCAL

STYLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "GP_loc": {"color": "#c08a3e", "marker": "s"},
        "GP_rad": {"color": "#8c6d46", "marker": "h"},
        "GP_Lip": {"color": "#4477aa", "marker": "v"},
        "Student-t": {"color": "#aa3377", "marker": "o"},
        "generalized Cauchy": {"color": "#cc79a7", "marker": "d"},
        LOCAL: {"color": "#9a9a9a", "marker": "x", "linestyle": ":"},
        "LaplacePareto": {"color": "#117733", "marker": "^"},
        "PowerLaw": {"color": "#66a61e", "marker": "P"},
        "DebiasedLaplace": {"color": "#0b6e4f", "marker": "*"},
        "deconvolved": {"color": "#44aa99", "marker": ">"},
        "aimed Student-t": {"color": "#e377c2", "marker": "D", "linestyle": "--"},
        "aimed": {"color": "#cc6633", "marker": "D"},
    }
)
"""Mechanism → how it is drawn in every figure."""


def style_of(mechanism: str) -> dict[str, Any]:
    """Return how a mechanism's line is drawn; one that is not known has the next colour."""
    return {"linestyle": "-", **STYLES.get(mechanism, {"marker": "X"})}


def colour_of(mechanism: str) -> str:
    """Return a mechanism's colour; grey for one that is not known."""
    colour: str = STYLES.get(mechanism, {}).get("color", "#777777")
    return colour


def count(n: int) -> str:
    """Return a number of people as figures and tables have it: "1.6M", "200k"."""
    return f"{n / 1e6:g}M" if n >= 1_000_000 else f"{n / 1e3:g}k"


def pyplot() -> Any:
    """Return `matplotlib.pyplot`, which draws into files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    return plt
