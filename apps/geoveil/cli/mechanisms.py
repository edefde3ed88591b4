"""geoveil mechanisms: the mechanisms that a campaign can use."""

from typing import Any

import numpy as np
from rich.text import Text

from geoveil.campaign import MECHANISMS, MechanismSpec
from geoveil.cli import options
from geoveil.cli.console import out, print_json, print_table
from geoveil.gp import GeoPrivacy, Threshold, UnsupportedError

_PAPER = "calibration=paper,reach=inf"
_OF_SMOOTH = (
    ("smooth:noise=student-t,nu=3", "Student-t noise, ν from above 2 to 100"),
    (f"smooth:noise=student-t,nu=3,{_PAPER}", "the same as the paper prints it [SGP 3.5]"),
    ("smooth:noise=generalized-cauchy,gamma=4", "density ∝ 1/(1 + |z|^γ), γ from above 3 to 101"),
    (f"smooth:noise=generalized-cauchy,gamma=4,{_PAPER}", "the same as the paper prints it"),
    ("smooth:noise=laplace,calibration=paper", "Laplace noise, with --delta [SGP 3.6]"),
    ("smooth:noise=laplace", "the same, with the largest η that keeps the promise"),
)
"""Words for the noises of `smooth` other than the best, with their meanings."""
_NOTES = (
    "Parameters of smooth: noise (best, student-t, generalized-cauchy, laplace); nu; gamma;"
    " beta_fraction, β in parts of ε/PER, in (0, 1); reach of the bound (0, a length, inf); growth"
    " (exponential, linear); calibration (exact; or paper, on straight ramps). Devices refuse "
    "what they can't prove.",
    "--allocation vector answers several questions with ε together: smooth noise other than "
    "laplace.",
    "--points perturbs the value itself, with ε, and answers any question later.",
)


def mechanisms(as_json: options.AsJson = False) -> None:
    """List what 'geoveil campaign create', 'plan' and 'simulate' take as --mechanism.

    The list has each one's promise: ε, or ε with a δ. The variance is that of a report by someone
    in the middle of a band 3·PER/ε wide, a ramp or else a smoothstep, with δ = 1e-6 if any.
    """
    rows = [
        _row(words, what)
        for of in MECHANISMS
        for words, what in ((of.name, of.summary), *(_OF_SMOOTH if of.name == "smooth" else ()))
        if of.default is not None or of.name not in MECHANISMS.built_in
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("--mechanism", "promises", "variance", "browsers"),
        (
            (
                Text.assemble(row["mechanism"], "\n", (row["what"], "dim")),
                row["promises"],
                "–" if row["variance"] is None else f"{row['variance']:.3f} {row['profile']}",
                "yes" if row["browsers"] else "no",
            )
            for row in rows
        ),
    )
    out.paragraphs(*_NOTES)


def _row(words: str, what: str) -> dict[str, Any]:
    family = MECHANISMS[words.partition(":")[0]]
    row: dict[str, Any] = {"mechanism": words, "what": what, "variance": None, "profile": None}
    spec = MECHANISMS.parse(words) if ":" in words else family.default
    if not isinstance(spec, MechanismSpec):  # another package's, which needs parameters
        return {**row, "promises": "its package says", "browsers": False}
    privacy = GeoPrivacy(1.0, 1.0, delta=1e-6 if spec.has_slack else 0.0)
    served = MECHANISMS.is_built_in(spec)
    for profile in ("linear", "smoothstep"):
        query = Threshold(0.0, 3.0, profile)
        try:
            variance = spec.build(query, privacy).variance(np.zeros(1))[0]
        except UnsupportedError:
            continue
        row |= {"variance": float(variance), "profile": profile}
        served = served and spec.unserved((query,)) is None
        break
    return {**row, "promises": "ε and δ" if spec.has_slack else "ε", "browsers": served}
