"""A campaign that simulated devices answer, in blocks.

Block i draws from the i-th child of one seed sequence, so its sums depend only on the campaign,
population, seed, block size and i (and on the last bits of NumPy's exp and log).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geoveil.campaign import (
    Attribute,
    AttributeCampaign,
    Question,
    StatisticCampaign,
    decode_attribute_campaign,
    digest,
    encode,
)
from geoveil.gp import (
    Accumulator,
    Estimate,
    GeoPrivacy,
    ParameterError,
    Query,
    Threshold,
    TwoWayThreshold,
    sums_of,
    validation,
)
from geoveil.simulation.people_files import FORMATS
from geoveil.simulation.populations import (
    ParticipantSource,
    Population,
    household_incomes,
    incomes_and_debts,
)
from geoveil.simulation.scale.work import BlockedWork, Sums

BLOCK = 1 << 18
"""Devices per block, which takes tens of milliseconds."""
_PIECE = 1 << 13
"""Devices drawn together: arrays of 64 KiB stay in the cache."""
_METHOD = "1"
"""Increased by every change of the code that changes a result."""


def integers(reports: NDArray[np.float64], step_exponent: int) -> NDArray[np.int64]:
    """Return simulated reports rounded to integers on the grid, saturated like releases.

    Example:
        >>> integers(np.array([0.3, -1.0, 1e300]), step_exponent=-1).tolist()
        [1, -2, 9223372036854775807]
    """
    scaled, end = np.rint(np.ldexp(reports, -step_exponent)), 2.0**63
    whole = np.clip(scaled, -end, np.nextafter(end, 0)).astype(np.int64)
    whole[scaled >= end] = np.iinfo(np.int64).max
    return whole


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedCampaign(BlockedWork):
    """Devices that each answer with a random member's value, in the queries' coordinates.

    Reports are seeded float64 draws, rounded to the grid: not private.
    """

    campaign: StatisticCampaign
    people: ParticipantSource
    devices: int
    seed: int
    block_size: int = BLOCK

    def __post_init__(self) -> None:
        validation.require_count("devices", self.devices, 1, 10**13)
        validation.require_count("seed", self.seed, 0, 2**128)
        validation.require_count("block_size", self.block_size, 1, 1 << 24)
        held, expected = self.people.dimension, self.campaign.dimension
        if held != expected:
            raise ParameterError("numbers that each member holds", held, f"{expected}")

    @property
    def blocks(self) -> int:
        return -(-self.devices // self.block_size)

    @property
    def queries(self) -> int:
        return self.campaign.columns

    def block(self, number: int) -> Sums:
        size = min(self.block_size, self.devices - number * self.block_size)
        child = np.random.SeedSequence(self.seed, spawn_key=(number,))
        rng = np.random.Generator(np.random.PCG64(child))
        everybody = self.campaign.allocation.answers_all
        # People answer a query independently of their values, so draw only how many answer each.
        counts = [size] if everybody else rng.multinomial(size, [1 / self.queries] * self.queries)
        sums = [Accumulator()] * self.queries
        for first, count in enumerate(counts):
            queries = range(self.queries) if everybody else (first,)
            for start in range(0, count, _PIECE):
                points = self.people.sample(min(_PIECE, count - start), rng)
                for query in queries:
                    mechanism = self.campaign.mechanisms[query]
                    drawn = integers(mechanism.simulate(points, rng), mechanism.step_exponent)
                    counted = np.clip(drawn, *self.campaign.ranges[query])
                    sums[query] += next(sums_of(counted, np.array([0])))
        return sums

    def fingerprint(self) -> str:
        campaign, people = digest(encode(self.campaign)).hex(), self.people.fingerprint()
        numbers = self.devices, self.seed, self.block_size
        parts = map(str, (_METHOD, np.__version__, campaign, people, *numbers))
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def simulated(
    campaign: AttributeCampaign,
    people: ParticipantSource,
    devices: int,
    *,
    seed: int,
    block_size: int = BLOCK,
) -> SimulatedCampaign:
    """Return the work of a campaign with 1 to 10¹³ random members of a population.

    It projects places in degrees. Another block size gives other draws.

    Raises:
        ParameterError: if a number is out of range, or the population does not fit the campaign.
        UnsupportedError: if the campaign can't be published.
    """
    decoded = decode_attribute_campaign(
        encode(campaign)
    )  # as devices read it: formulas travel as tables
    if not isinstance(decoded, StatisticCampaign):
        raise ParameterError("campaign", decoded.campaign_id, "a statistic campaign")
    plane = decoded.attribute.coordinates
    if plane is not None:
        if not isinstance(people, Population):
            raise ParameterError("people", type(people).__name__, "a Population of places")
        people = people.mapped(plane.project, "metre")
    return SimulatedCampaign(
        campaign=decoded, people=people, devices=devices, seed=seed, block_size=block_size
    )


_SHIPPED = ("incomes", "income-and-debt", "places")
_OPENS = datetime(2026, 1, 1, tzinfo=UTC)
"""A campaign's fixed date, since today's would prevent resuming a run."""


def threshold_asked(
    population: str,
    threshold: float,
    *,
    epsilon: float,
    per: float,
    values: Sequence[str] = (),
    weights: str | None = None,
) -> tuple[StatisticCampaign, ParticipantSource]:
    """Return a campaign for the share above a threshold, and its participants.

    The population is "incomes"; "income-and-debt", both above the threshold; a file with one or
    two columns of values; or "places", with the demonstration's questions. ε is for values `per`
    apart.

    Raises:
        ParameterError: if the population is unknown, or a column is missing.
    """
    from geoveil.simulation.demo import experiments

    if population in _SHIPPED and (values or weights):
        raise ParameterError("population", population, "a file if columns of one are named")
    if population == "places":
        places = experiments(_OPENS)[1]
        return places.campaign, places.population
    people: ParticipantSource
    if population == "incomes":
        people = household_incomes()
    elif population == "income-and-debt":
        people = incomes_and_debts()
    elif Path(population).suffix not in FORMATS:
        *first, last = FORMATS
        permitted = f"{', '.join(_SHIPPED)}, or a file ending in {', '.join(first)} or {last}"
        raise ParameterError("population", population, permitted)
    elif not 1 <= len(values) <= 2:
        raise ParameterError("value", [*values], "the name of one or two columns of the file")
    else:
        people = Population.from_file(population, values=values, weights=weights)
    privacy = GeoPrivacy(epsilon, per, people.unit)
    width = 3 / privacy.rate
    query: Query = Threshold(threshold, width, "smoothstep")
    if people.dimension == 2:
        query = TwoWayThreshold((threshold, threshold), width, "smoothstep")
    campaign = StatisticCampaign(
        campaign_id="simulated",
        title=f"Share above {threshold:,.15g}",
        attribute=Attribute(name="value", unit=people.unit),
        privacy=privacy,
        questions=(Question(f"above {threshold:,.15g}", query),),
        opens=_OPENS,
        closes=_OPENS + timedelta(days=1),
    )
    return campaign, people


def estimate_record(
    campaign: AttributeCampaign, label: str, truth: float | None, sums: Accumulator, got: Estimate
) -> dict[str, object]:
    """Return an estimate as JSON values: ε with its unit, exact sums, and the truth or None."""
    return {
        "campaign_id": campaign.campaign_id,
        "name": label,
        "truth": truth,
        "estimate": got.possible,
        "uncut": got.value,
        "standard_error": got.standard_error,
        "confidence": got.confidence,
        "ci_low": got.ci_low,
        "ci_high": got.ci_high,
        "n": got.n,
        # As text, since exact sums may exceed 64 bits.
        "total": str(sums.total),
        "total_of_squares": str(sums.total_of_squares),
        "step_exponent": campaign.grid_exponent,
        "epsilon": campaign.report_privacy.epsilon,
        "per": campaign.report_privacy.per,
        "unit": campaign.report_privacy.unit,
    }
