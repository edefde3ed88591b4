"""A campaign answered by simulated devices, as blocks.

Block i draws from the i-th child of one seed sequence, whoever computes it. So its sums are a
function of the campaign, the population, the seed, the size of a block and i. (And of the float
arithmetic: NumPy's exp and log may differ in the last bit between kinds of processors, and with
them, rarely, the rounding of a report. Workers of one kind agree bit for bit.)
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from geoveil.campaign import Campaign, StatisticCampaign, decode, digest, encode
from geoveil.gp import ParameterError
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.populations import People, Population
from geoveil.simulation.populations.base import Array
from geoveil.simulation.scale.work import BlockedWork, Sums, accumulate, integers

BLOCK = 1 << 18
"""Devices per block, which takes tens of milliseconds."""
_PIECE = 1 << 13
"""Devices drawn together. Their arrays of 64 KiB stay in the processor's cache and below the size
from which the allocator maps fresh pages every time, which costs as much as the arithmetic."""
MOST_DEVICES = 10**13
_METHOD = "1"
"""Raised by every change that changes a result."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedCampaign(BlockedWork):
    """Devices that each hold the value of a random member and answer as the campaign asks.

    Reports are drawn in float64 and rounded to the campaign's grid: for experiments, not private.

    Args:
        published: the campaign's bytes.
        people: who takes part, in the coordinates of the queries.
        devices: how many.
        seed: the same one draws the same devices and reports.
        block_size: devices per block.
    """

    published: bytes
    people: People
    devices: int
    seed: int
    block_size: int = BLOCK

    def __post_init__(self) -> None:
        for name, high in (("devices", MOST_DEVICES), ("seed", 2**128), ("block_size", 1 << 24)):
            value = getattr(self, name)
            low = 0 if name == "seed" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ParameterError(name, value, f"an integer from {low} to {high:,}")
        if self.people.dimension != self.campaign.dimension:
            raise ParameterError(
                "numbers that each member holds",
                self.people.dimension,
                f"{self.campaign.dimension}",
            )

    @property
    def campaign(self) -> StatisticCampaign:
        """The campaign that `published` holds."""
        found = decode(self.published)
        assert isinstance(found, StatisticCampaign)  # `simulated` sees to it
        return found

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
        # Who answers which query does not depend on who they are: draw how many answer each.
        counts = [size] if everybody else rng.multinomial(size, [1 / self.queries] * self.queries)
        sums = [Accumulator()] * self.queries
        for first, count in enumerate(counts):
            queries = range(self.queries) if everybody else (first,)
            for start in range(0, count, _PIECE):
                points = self.people.sample(min(_PIECE, count - start), rng)
                for query in queries:
                    sums[query] += self._answers(query, points, rng)
        return sums

    def fingerprint(self) -> str:
        parts = (
            _METHOD,
            np.__version__,
            digest(self.published).hex(),
            self.people.fingerprint(),
            str(self.devices),
            str(self.seed),
            str(self.block_size),
        )
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def _answers(self, query: int, points: Array, rng: np.random.Generator) -> Accumulator:
        mechanism = self.campaign.mechanisms[query]
        drawn = integers(mechanism.simulate(points, rng), mechanism.step_exponent)
        return accumulate(np.clip(drawn, *self.campaign.ranges[query]))


def simulated(
    campaign: Campaign, people: People, devices: int, *, seed: int, block_size: int = BLOCK
) -> SimulatedCampaign:
    """Return the work of a campaign with `devices` random members of a population.

    Args:
        campaign: any statistic campaign that can be published.
        people: as devices hold their values; places in degrees are projected here.
        devices: 1 to 10¹³.
        seed: an integer >= 0.
        block_size: devices per block; other sizes are other draws.

    Raises:
        ParameterError: if a number is out of range, or the population does not fit the campaign.
        UnsupportedError: if the campaign can't be published.
    """
    if not isinstance(campaign, StatisticCampaign):
        raise ParameterError("campaign", campaign.campaign_id, "a statistic campaign")
    plane = campaign.attribute.coordinates
    if plane is not None:
        if not isinstance(people, Population):
            raise ParameterError("people", type(people).__name__, "a Population of places")
        people = people.mapped(plane.project, "metre")
    return SimulatedCampaign(
        published=encode(campaign), people=people, devices=devices, seed=seed, block_size=block_size
    )
