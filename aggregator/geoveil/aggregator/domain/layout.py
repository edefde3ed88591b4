"""The sums of a campaign, and the mapping of answers to sums.

There is one sum per column (a question, or a coordinate of a point), group and period. For
heavy-tailed noise each is split into blocks by the random id of the report, for the median of the
blocks' means. Since the sender chooses the id, blocks follow a keyed permutation of the ids (AES,
whose block size is an id's). The key is drawn when the campaign is created and stays in the
database; without it nobody can aim reports at one block.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from geoveil.aggregator.domain.forged import forged_share, report_bins
from geoveil.aggregator.domain.reports import (
    PACKED_ANSWER,
    Bins,
    PackedColumns,
    PackedReport,
    Report,
    ReportColumns,
    pack,
)
from geoveil.campaign import MOST_SLOTS, REPORT_ID_BYTES, Campaign
from geoveil.gp import (
    Accumulator,
    ForgedShare,
    ParameterError,
    QueryMechanism,
)

BLOCKS = 32
"""A power of two, so that a random byte is uniform over the blocks."""
_KEY_BYTES = 16
_MOMENTS_NEEDED = 4
"""The variance of a sample variance needs fourth moments."""


def heavy_tailed(mechanism: QueryMechanism) -> bool:
    """Return whether reports have no fourth moment.

    Example:
        >>> from geoveil.gp import GeoPrivacy, SmoothMechanism, Threshold
        >>> query, privacy = Threshold(0.0, 1.0, "smoothstep"), GeoPrivacy(1.0, 1.0)
        >>> [heavy_tailed(SmoothMechanism(query, privacy, beta=b)) for b in (0.15, 0.3)]
        [False, True]
    """
    noise = getattr(mechanism, "noise", None)
    return noise is not None and noise.tail_exponent <= _MOMENTS_NEEDED


@dataclass(frozen=True, slots=True)
class Layout:
    """The sums of one campaign, and the mapping from reports to sums.

    Each column and period has `blocks` sums (1 to 256, a power of two), chosen by a `key` of 16
    bytes, which is None if there is only one block or no report to pack.
    """

    campaign: Campaign
    blocks: int
    key: bytes | None = field(default=None, repr=False)
    _ends: NDArray[np.int64] | None = field(init=False, repr=False, compare=False)
    """The ranges (2, k) of the query indices; None if no report can be outside them."""
    bins: Bins | None = field(init=False, repr=False, compare=False)
    """The bins that test for forged reports; None if impossible or with too many sums."""

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 256 or self.blocks & (self.blocks - 1):
            raise ParameterError("blocks", self.blocks, "a power of two from 1 to 256")
        ranges = self.campaign.ranges * self.campaign.cohorts
        ends = np.array(ranges, np.int64).T if any(self.campaign.clamps) else None
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "bins", self._bins())

    @classmethod
    def of(cls, campaign: Campaign) -> Self:
        """Return the layout of a new campaign, without blocks if there would be too many."""
        heavy = any(heavy_tailed(mechanism) for mechanism in campaign.mechanisms)
        if heavy and campaign.slots * BLOCKS <= MOST_SLOTS:
            return cls(campaign, BLOCKS, secrets.token_bytes(_KEY_BYTES))
        return cls(campaign, 1)

    @classmethod
    def stored(cls, campaign: Campaign, sums: int, key: bytes | None = None) -> Self:
        """Return the layout with which a campaign was created, which may differ from `of`.

        Raises:
            ParameterError: if the campaign can't have that many sums.
        """
        blocks, rest = divmod(sums, campaign.slots)
        if rest:
            raise ParameterError("sums", sums, f"a multiple of {campaign.slots}")
        return cls(campaign, blocks, key)

    @property
    def sums(self) -> int:
        """The number of sums."""
        return self.campaign.slots * self.blocks

    def _bins(self) -> Bins | None:
        """Return the bins; None for extrapolated answers, whose law differs."""
        campaign = self.campaign
        plain = tuple(m.grid_range for m in campaign.mechanisms) == campaign.ranges
        if not plain or self.sums * Bins.WIDTH > MOST_SLOTS:
            return None
        ends = [report_bins(mechanism) for mechanism in campaign.mechanisms]
        bounded = tuple(of_one for of_one in ends if of_one is not None)
        return Bins(self.sums, bounded) if bounded and len(bounded) == len(ends) else None

    def forged(self, counts: Mapping[int, int], column: int, period: int) -> ForgedShare | None:
        """Return the forged share of a column and period by its bins; see `forged_share`."""
        if self.bins is None:
            return None
        indices = range(column, self.campaign.indices, self.campaign.columns)
        rows = [self.bins.row(self.campaign.slot(index, period)) for index in indices]
        size = len(self.bins.ends[column]) + 1
        held = [sum(counts.get(row + at, 0) for row in rows) for at in range(size)]
        return forged_share(self.campaign.mechanisms[column], held)

    def pack(self, reports: Sequence[Report]) -> Sequence[PackedReport]:
        """Return valid reports in their stored form, with answers clipped to `Campaign.ranges`."""
        if type(reports) is ReportColumns:
            return self._pack_columns(reports)
        slot, packed = self.campaign.slot, []
        for report_id, answers, period, _ in reports:
            if self._ends is not None:
                answers = [(q, self.campaign.counted(q, value)) for q, value in answers]
            if self.blocks > 1 or period:
                block = int(self._blocks(report_id)[0]) if self.blocks > 1 else 0
                answers = [(slot(q, period) * self.blocks + block, value) for q, value in answers]
            packed.append(PackedReport(report_id, pack(answers)))
        return packed

    def _pack_columns(self, reports: ReportColumns) -> PackedColumns:
        rows = np.empty(len(reports), PACKED_ANSWER)
        slot: Any = self.campaign.slot  # works on arrays too
        slots = slot(reports.indices.astype(np.int64), reports.periods)
        rows["sum_index"] = slots * self.blocks + self._blocks(reports.ids)
        rows["value"] = reports.values
        if self._ends is not None:
            low, high = self._ends[:, reports.indices]
            rows["value"] = np.clip(reports.values, low, high)
        return PackedColumns(reports.ids, rows.tobytes())

    def _blocks(self, ids: bytes) -> NDArray[np.int64]:
        if self.blocks > 1:
            assert self.key is not None  # every stored campaign with blocks has a key
            # Every id is one block of the cipher, and ids are distinct, so no chaining is needed.
            cipher = Cipher(algorithms.AES128(self.key), modes.ECB())  # noqa: S305 - see above
            ids = cipher.encryptor().update(ids)
        last = np.frombuffer(ids, np.uint8)[REPORT_ID_BYTES - 1 :: REPORT_ID_BYTES]
        return last.astype(int) % self.blocks

    def blocks_of(
        self, sums: Sequence[Accumulator], index: int, period: int
    ) -> Sequence[Accumulator]:
        """Return the sums of one query index and period by block."""
        first = self.campaign.slot(index, period) * self.blocks
        return sums[first : first + self.blocks]
