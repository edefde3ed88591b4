"""`geoveil simulate distribution`: the simulated errors of all protocols at stated footings."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np

from geoveil.gp import GeoPrivacy, ParameterError, validation
from geoveil.simulation.distribution.attributes import ATTRIBUTES, MEASURES, attribute_of
from geoveil.simulation.distribution.protocols import DEBIASED, PROTOCOLS, told_by_all
from geoveil.simulation.experiment import Cell, Experiment, Table
from geoveil.simulation.experiments.own import (
    AS_PUBLISHED,
    OwnInput,
    own_mechanisms,
)
from geoveil.simulation.experiments.rows import BASELINE, OURS, OWN, ErrorRow
from geoveil.simulation.experiments.sums import drawn_error, seeded
from geoveil.simulation.figures.published import draw_distributions

PEOPLE = (10_000, 50_000, 200_000)
EPSILONS = (0.25, 1.0)
REPETITIONS = 100


def drawn(
    name: str,
    epsilon: float,
    n: int,
    repetitions: int,
    seed: int,
    given: OwnInput = AS_PUBLISHED,
) -> list[ErrorRow]:
    """Return the mean square error by protocol, footing and measure.

    Each repetition draws new people, the same for all protocols.
    """
    attribute, own = attribute_of(name, given), own_mechanisms(given.module, PROTOCOLS)
    privacy = GeoPrivacy(epsilon, attribute.per, attribute.people.unit)
    squares = defaultdict[tuple[str, float | None, str], list[float]](list)
    for repetition in range(repetitions):
        rng = partial(_generator, attribute.name, n, repetition, seed)
        values = attribute.people.sample(n, rng("people"))
        for key, distribution in told_by_all(attribute, privacy, own, values, rng).items():
            for measure, error in attribute.errors(distribution).items():
                squares[*key, measure].append(error**2)
    return [
        ErrorRow(
            experiment="distribution",
            panel=f"{attribute.name}, ε = {epsilon:g} per {attribute.per:,g} {privacy.unit}",
            n=n,
            per=attribute.per / epsilon,
            mechanism=of,
            origin=OWN if of in own else OURS if footing is None else BASELINE,
            measure=measure,
            footing=footing,
            **drawn_error(own_squares, seed),
        )
        for (of, footing, measure), own_squares in squares.items()
    ]


def _generator(name: str, n: int, repetition: int, seed: int, draws: str) -> np.random.Generator:
    return seeded(seed, f"{name} ", f"{name} {draws}", n, repetition)


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """All rows of one attribute, ε and n, for tables."""

    rows: tuple[ErrorRow, ...]

    @property
    def title(self) -> str:
        """The name of the setting."""
        return f"{self.rows[0].panel}, n = {self.rows[0].n:,}"

    @property
    def footings(self) -> list[float]:
        """The distances at which ε-LDP is on an equal footing, increasing."""
        return sorted({row.footing for row in self.rows if row.footing is not None})

    def epsilon(self, footing: float) -> float:
        """Return ε-LDP's ε at a footing."""
        return footing / self.rows[0].per

    def mechanisms(self, footing: float | None) -> list[str]:
        """Return the mechanisms at a footing; None stands for no footing."""
        return list(dict.fromkeys(r.mechanism for r in self.rows if r.footing == footing))

    def row(self, mechanism: str, footing: float | None, measure: str) -> ErrorRow | None:
        """Return a row; None if the mechanism does not estimate the measure."""
        rows = {(r.mechanism, r.footing, r.measure): r for r in self.rows}
        return rows.get((mechanism, footing, measure))

    def ahead(self, mechanism: str, footing: float, measure: str) -> float:
        """Return the best ε-LDP protocol's root mean square error divided by a mechanism's."""
        best = min(r.error for r in self.rows if (r.footing, r.measure) == (footing, measure))
        ours = self.row(mechanism, None, measure)
        assert ours is not None
        return float(np.sqrt(best / ours.error))

    @property
    def uncertainty(self) -> float:
        """The largest relative Monte Carlo standard error of a root mean square."""
        return max(row.standard_error / (2 * row.error) for row in self.rows)


def settings(rows: Sequence[ErrorRow]) -> list[MeasuredSetting]:
    """Return the rows by setting, in the order in which the experiment gives them."""
    return [MeasuredSetting((*own,)) for _, own in groupby(rows, attrgetter("panel", "n"))]


_SHORT = ("mean", "lower", "median", "upper", "gap", "area", "bars")
"""Headings of `MEASURES` in the table, in their order."""


def experiment(
    attributes: Sequence[str] = (),
    epsilons: Sequence[float] = (),
    people: Sequence[int] = (),
    repetitions: int = REPETITIONS,
    seed: int = 1,
    quick: bool = False,
    given: OwnInput = AS_PUBLISHED,
) -> Experiment[ErrorRow]:
    """Return the experiment: every attribute with every ε and number of people.

    Args:
        attributes: names in `ATTRIBUTES`; all by default.
        epsilons: > 0; `EPSILONS` by default.
        people: numbers of people, ≥ 1; `PEOPLE` by default.
        repetitions: ≥ 2.
        seed: ≥ 0; the same seed gives the same rows.
        quick: whether to compute a small part by default.
        given: a user's mechanisms and people; the people replace the built-in attributes.

    Raises:
        ParameterError: if an argument is out of range, or a file has gaps.
    """
    own_mechanisms(given.module, PROTOCOLS)
    attributes = attributes or tuple(ATTRIBUTES)
    if given.data is not None:
        attributes = [given.columns[0] if given.columns else given.data.stem]
        attribute_of(attributes[0], given)
    elif given.ends is not None or given.per is not None:
        raise ParameterError("range, per", [given.ends, given.per], "given together with a table")
    for attribute in attributes if given.data is None else ():
        validation.choice("attribute", attribute, ATTRIBUTES)
    runs = min(repetitions, 5) if quick else repetitions
    validation.require_count("repetitions", runs, 2)
    validation.between("seed", seed, 0, 2**63)
    for epsilon in epsilons:
        validation.positive("epsilon", epsilon)
    for n in people:
        validation.require_count("n", n, 1, 10_000_000)

    def draw(rows: Sequence[ErrorRow], file: Path) -> list[Path]:
        units = {name: attribute_of(name, given).people.unit for name in attributes}
        units_in_words = {
            n: "its unit" if unit == "unit" else f"{unit}s" for n, unit in units.items()
        }
        return draw_distributions(rows, file, units=units_in_words)

    return Experiment(
        name="distribution",
        cells=[
            Cell(drawn, (attribute, epsilon, n, runs, seed, given), float((n + 100_000) * runs))
            for attribute in dict.fromkeys(attributes)
            for epsilon in dict.fromkeys(epsilons or (EPSILONS[-1:] if quick else EPSILONS))
            for n in dict.fromkeys(people or (PEOPLE[:1] if quick else PEOPLE))
        ],
        seed=seed,
        draw=draw,
        tables=lambda rows: [_table(setting) for setting in settings(rows)],
        note=_note,
    )


def _table(setting: MeasuredSetting) -> Table:
    rows = [(name, *_errors(setting, name, None)) for name in setting.mechanisms(None)]
    for footing in setting.footings:
        rows += [(), (f"ε-LDP ε={setting.epsilon(footing):.3g} at {footing:,g}",)]
        rows += [(name, *_errors(setting, name, footing)) for name in setting.mechanisms(footing)]
        ahead = (setting.ahead(DEBIASED, footing, measure) for measure in MEASURES)
        rows.append(("the best ÷ debiased", *(f"{factor:.2g}×" for factor in ahead)))
    return Table(
        headers=("error, root mean square", *_SHORT),
        rows=rows,
        title=setting.title,
        wrapped=(),
        right=range(1, 1 + len(_SHORT)),
    )


def _errors(setting: MeasuredSetting, mechanism: str, footing: float | None) -> list[str]:
    """Return the errors of a mechanism, with a mark where geo-privacy's is larger."""
    cells = []
    for measure in MEASURES:
        row, ours = (setting.row(*key, measure) for key in ((mechanism, footing), (DEBIASED, None)))
        assert ours is not None
        mark = "*" if row and footing is not None and row.error < ours.error else ""
        cells.append(_digits(row.error**0.5, measure) + mark if row else "–")
    return cells


def _digits(error: float, measure: str) -> str:
    if measure in ("largest", "histogram"):
        return f"{100 * error:.2g}%"
    return f"{float(f'{error:.2g}'):,g}"


def _note(rows: Sequence[ErrorRow]) -> str:
    return (
        "lower, upper: quartiles. gap, area: between the distribution functions. bars: what the"
        " shares of 32 bars differ by, added up and halved. Mean, quartiles and area are in the"
        " unit of the numbers. ε-LDP 'at' a distance promises as much as geo-privacy to two numbers"
        " so far apart, less to nearer ones, more to farther ones. 'the best ÷ debiased' is above 1"
        f" where '{DEBIASED}' is ahead of the best of them, and below 1 where it is not; an error"
        " with * is less than that one's. Monte Carlo standard error: up to"
        f" {max(s.uncertainty for s in settings(rows)):.0%} of an error."
    )
