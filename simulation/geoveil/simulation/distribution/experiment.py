"""geoveil simulate distribution: the errors of all protocols, drawn, at stated footings."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoveil.gp import GeoPrivacy, ParameterError, validation
from geoveil.simulation.distribution.attributes import ATTRIBUTES, Distribution
from geoveil.simulation.distribution.protocols import CLEAR, LOCAL_PROTOCOLS, perturbed
from geoveil.simulation.experiments.draws import drawn_error
from geoveil.simulation.experiments.rows import BASELINE, OURS, ErrorRow
from geoveil.simulation.experiments.runs import ErrorCell

PEOPLE = (10_000, 50_000, 200_000)
EPSILONS = (0.25, 1.0)
REPETITIONS = 100


@dataclass(frozen=True, slots=True)
class DistributionCell(ErrorCell):
    """One attribute, one ε and one n: every protocol on the same people, drawn anew each time.

    Args:
        attribute: one of `ATTRIBUTES`.
        epsilon: for two values a distance of the attribute's `per` apart, > 0.
        n: people, ≥ 1.
        repetitions: ≥ 2.
        seed: ≥ 0; the same seed gives the same rows.
    """

    attribute: str
    epsilon: float
    n: int
    repetitions: int
    seed: int

    def __post_init__(self) -> None:
        validation.choice("attribute", self.attribute, ATTRIBUTES)
        validation.positive("epsilon", self.epsilon)
        validation.between("n", self.n, 1, 10_000_000)
        if validation.require_count("repetitions", self.repetitions) < 2:
            raise ParameterError("repetitions", self.repetitions, "an integer >= 2")
        validation.between("seed", self.seed, 0, 2**63)

    @property
    def key(self) -> str:
        return (
            f"distribution {self.attribute} ε={self.epsilon!r} n={self.n}"
            f" repetitions={self.repetitions} seed={self.seed}"
        )

    @property
    def cost(self) -> float:
        return float((self.n + 100_000) * self.repetitions)

    def rows(self) -> list[ErrorRow]:
        """Return a row for each protocol, footing and measure.

        The error is the mean square, over repetitions, of the distance from the population's truth.
        """
        attribute = ATTRIBUTES[self.attribute]()
        squares: dict[tuple[str, float | None, str], list[float]] = {}
        for repetition in range(self.repetitions):
            for (name, footing), told in self._told(repetition).items():
                for measure, error in attribute.errors(told).items():
                    squares.setdefault((name, footing, measure), []).append(error**2)
        unit = attribute.people.unit
        return [
            ErrorRow(
                experiment="distribution",
                panel=f"{attribute.name}, ε = {self.epsilon:g} per {attribute.per:,g} {unit}",
                n=self.n,
                per=attribute.per / self.epsilon,
                mechanism=name,
                origin=OURS if footing is None else BASELINE,
                measure=measure,
                footing=footing,
                **drawn_error(found, self.seed),
            )
            for (name, footing, measure), found in squares.items()
        ]

    def _told(self, repetition: int) -> dict[tuple[str, float | None], Distribution]:
        """Return what each protocol tells at each footing; None for those that have none."""
        attribute = ATTRIBUTES[self.attribute]()
        privacy = GeoPrivacy(self.epsilon, attribute.per, attribute.people.unit)
        values = attribute.people.sample(self.n, self._rng(repetition, "people"))
        told: dict[tuple[str, float | None], Distribution] = {(CLEAR, None): attribute.of(values)}
        ours = perturbed(attribute, privacy, values, self._rng(repetition, "perturbed"))
        told |= {(name, None): found for name, found in ours.items()}
        for footing in attribute.footings:
            for name, protocol in LOCAL_PROTOCOLS.items():
                rng = self._rng(repetition, f"{name} {footing}")
                told[name, footing] = protocol(attribute, privacy.local(footing), values, rng)
        return told

    def _rng(self, repetition: int, draws: str) -> np.random.Generator:
        names = (zlib.crc32(f"{self.attribute} {name}".encode()) for name in ("", draws))
        key = (*names, self.n, repetition)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


def cells(
    attributes: Sequence[str] = tuple(ATTRIBUTES),
    epsilons: Sequence[float] = EPSILONS,
    people: Sequence[int] = PEOPLE,
    repetitions: int = REPETITIONS,
    seed: int = 1,
) -> list[DistributionCell]:
    """Return the cells of the experiment: every attribute with every ε and number of people."""
    return [
        DistributionCell(attribute, epsilon, n, repetitions, seed)
        for attribute in dict.fromkeys(attributes)
        for epsilon in dict.fromkeys(epsilons)
        for n in dict.fromkeys(people)
    ]


@dataclass(frozen=True, slots=True)
class MeasuredSetting:
    """All rows of one attribute, ε and n, as tables need them."""

    rows: tuple[ErrorRow, ...]

    @property
    def title(self) -> str:
        """Names the setting."""
        return f"{self.rows[0].panel}, n = {self.rows[0].n:,}"

    @property
    def footings(self) -> list[float]:
        """The distances at which ε-LDP was put on an equal footing, increasing."""
        return sorted({row.footing for row in self.rows if row.footing is not None})

    def epsilon(self, footing: float) -> float:
        """Return the ε of ε-LDP at a footing."""
        return footing / self.rows[0].per

    def mechanisms(self, footing: float | None) -> list[str]:
        """Return who told something at a footing; None for those that have none."""
        return list(dict.fromkeys(r.mechanism for r in self.rows if r.footing == footing))

    def row(self, mechanism: str, footing: float | None, measure: str) -> ErrorRow | None:
        """Return a row; None where the mechanism does not tell the measure."""
        wanted = (mechanism, footing, measure)
        found = (r for r in self.rows if (r.mechanism, r.footing, r.measure) == wanted)
        return next(found, None)

    def ahead(self, mechanism: str, footing: float, measure: str) -> float:
        """Return the error of the best protocol of ε-LDP at a footing over a mechanism's.

        Both are roots of mean squares: above 1, the mechanism is more accurate.
        """
        ours = self.row(mechanism, None, measure)
        others = [self.row(name, footing, measure) for name in self.mechanisms(footing)]
        assert ours is not None
        best = min(row.error for row in others if row is not None)
        return float(np.sqrt(best / ours.error))

    @property
    def uncertainty(self) -> float:
        """The largest Monte Carlo standard error of a root mean square, as a share of it."""
        return max(row.standard_error / (2 * row.error) for row in self.rows)


def settings(rows: Sequence[ErrorRow]) -> list[MeasuredSetting]:
    """Return the rows of the experiment by setting, in their order."""
    names = dict.fromkeys((row.panel, row.n) for row in rows)
    return [
        MeasuredSetting(tuple(row for row in rows if (row.panel, row.n) == name)) for name in names
    ]
