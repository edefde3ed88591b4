"""Errors, times and audits of the contestants, and the page of them: docs/peers.md.

A contestant that answers one question asks a tenth of the people each of ten thresholds. It is
called as a device would call it, for one person; where that is a formula over arrays, the row says
so. All are held to what they promise, by a black box that sees outputs alone.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from geoveil.audit.black_box import black_box_bound
from geoveil.audit.own import MakeMechanism
from geoveil.gp import GeoPrivacy, validation
from geoveil.simulation import household_incomes
from geoveil.simulation.experiment import Table, page_text
from geoveil.simulation.peers.contestants import PRIVACY, Peer, contestants, version_of

Array = NDArray[np.float64]

AT = 100_000.0
"""The threshold, in dollars; many people report exactly this income."""
MANY = tuple(20_000.0 * i - 2_500 for i in range(1, 11))
"""Ten thresholds, in dollars, at which hardly anybody's income is."""
_FAILURE = 1e-6
_STEPS = ((-0.5, 0.5), (0.0, 3.0))
"""Pairs of incomes that the audit looks at, in units of `PRIVACY.per` from the threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRow:
    """What came of a contestant."""

    name: str
    version: str
    promise: str
    drawn: str
    """"exact" or "float"."""
    called: str
    """"one by one", or "array"."""
    rmse: float
    """Root mean squared error of the share above one threshold, against the participants' own."""
    rmse_error: float
    """The standard error of that, from the repetitions."""
    bias: float
    """The mean error, of which the standard error is at most rmse/√repetitions."""
    rmse_many: float
    """The root mean squared error over ten thresholds."""
    micros: float
    """Microseconds of a processor for a report."""
    proven: float
    """The part of the promised ε that outputs prove to be used; above 1 the promise is broken."""


def compare_peers(
    n: int = 5_000,
    repetitions: int = 40,
    samples: int = 10_000,
    seed: int = 1,
    own: Mapping[str, MakeMechanism] = MappingProxyType({}),
) -> Iterator[PeerRow]:
    """Yield a row for each contestant whose package is installed.

    Packages draw from the system's randomness, so that only those drawn by NumPy repeat with the
    seed.

    Args:
        n: participants, drawn once from the survey's households, at least 100.
        repetitions: how often each of them reports, at least 2.
        samples: outputs of each income that the audit looks at, at least 1,000.
        seed: of the participants and of formulas.
        own: mechanisms of one's own by name, functions of a query and a guarantee, as
            `geoveil.audit.mechanisms_in` reads them from a file; asked at a ramp.

    Raises:
        ParameterError: if a number is out of range.
    """
    validation.require_count("n", n, 100)
    validation.require_count("repetitions", repetitions, 2)
    validation.require_count("samples", samples, 1_000)
    incomes = household_incomes().sample(n, np.random.default_rng(seed))
    rng = np.random.default_rng(seed + 1)
    for peer in contestants(rng, own):
        yield _row(peer, incomes, repetitions, samples)


def _row(peer: Peer, incomes: Array, repetitions: int, samples: int) -> PeerRow:
    draw = peer.draw_for(AT)
    draw(incomes[:100])  # loads what is loaded late
    errors, of_many, spent = [], [], 0.0
    for _ in range(repetitions):
        before = time.process_time()
        reports = draw(incomes)
        spent += time.process_time() - before
        errors.append(peer.share(reports, AT) - (incomes > AT).mean())
        for i, at in enumerate(MANY):
            asked = reports if peer.answers_all else peer.draw_for(at)(incomes[i :: len(MANY)])
            of_many.append(peer.share(asked, at) - (incomes > at).mean())
    squares = np.square(errors)
    rmse = math.sqrt(squares.mean())
    return PeerRow(
        name=peer.name,
        version=f"{peer.package} {version_of(peer.package)}" if peer.package else "",
        promise=str(peer.promise),
        drawn="exact" if peer.exact else "float",
        called="one by one" if peer.one_by_one else "array",
        rmse=rmse,
        rmse_error=float(squares.std(ddof=1)) / math.sqrt(repetitions) / (2 * rmse),
        bias=float(np.mean(errors)),
        rmse_many=math.sqrt(np.square(of_many).mean()),
        micros=1e6 * spent / repetitions / len(incomes),
        proven=max(_proven(peer, low, high, samples) for low, high in _STEPS),
    )


def _proven(peer: Peer, low: float, high: float, samples: int) -> float:
    """Return the part of the promise between two incomes that outputs prove to be used."""
    near, far = (AT + step * PRIVACY.per for step in (low, high))
    draw = peer.draw_for(AT)
    here, there = (draw(np.full(samples, income)) for income in (near, far))
    chance = _FAILURE / len(_STEPS)
    bound = black_box_bound(here, there, far - near, failure_probability=chance)
    promise = peer.promise
    between = promise.local(far - near) if isinstance(promise, GeoPrivacy) else promise
    return max(bound.epsilon, 0.0) / between.epsilon


def peers_page(rows: Sequence[PeerRow], about: str) -> str:
    """Return docs/peers.md, with a sentence about when, and with how much, rows were made."""
    lines = [
        (
            row.name,
            row.promise,
            f"{row.rmse:.4f} ± {row.rmse_error:.4f}",
            f"{row.bias:+.4f}",
            f"{row.rmse_many:.4f}",
            f"{row.micros:,.1f}" + (", array" if row.called == "array" else ""),
            row.drawn,
            f"{row.proven:.2f}",
        )
        for row in rows
    ]
    headers = (
        *("contestant", "promise", "error, one threshold", "bias", "error, ten", "µs a report"),
        *("drawn", "proven part of ε"),
    )
    versions = sorted({row.version for row in rows if row.version})
    packages = f"Packages: {', '.join(versions)}." if versions else ""
    return page_text(
        "peers",
        at=AT,
        many=MANY,
        last=MANY[-1],
        table=Table(headers=headers, rows=lines, right=(2, 3, 4, 5, 7)).markdown(),
        about=fill(f"{about} {packages}".strip(), 100),
    )
