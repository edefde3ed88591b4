"""Which sums a campaign has, and which of them an answer is added to.

One per column (a question, or a coordinate of a point) and period. If the noise has so heavy a tail
that the variance of a sum says little, each is cut into blocks by the random id of the report, so
that the median of their means can be told: more sums, and nothing else that is stored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Self

import numpy as np

from geoveil.aggregator.report_columns import ReportColumns
from geoveil.aggregator.reports import ID_BYTES, PackedReport, Report, pack
from geoveil.campaign import Campaign
from geoveil.campaign.model import MOST_SLOTS
from geoveil.gp import Mechanism, ParameterError
from geoveil.gp.estimation import Accumulator

BLOCKS = 32
"""A power of two, so that the last byte of a random id falls into each alike."""
_ID = np.dtype(
    {"names": ["whole", "last"], "formats": [f"V{ID_BYTES}", "u1"], "offsets": [0, ID_BYTES - 1]}
)
_PACKED = np.dtype([("report_id", f"V{ID_BYTES}"), ("sum_index", "<u4"), ("value", "<i8")])
_PACKED_REPORT = Struct(f"{ID_BYTES}s{_PACKED.itemsize - ID_BYTES}s")
_MOMENTS_NEEDED = 4
"""The variance of the sample variance is that of fourth powers."""


def heavy_tailed(mechanism: Mechanism) -> bool:
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
    """See the module.

    Args:
        campaign: that the answers are given to.
        blocks: sums per column and period, 1 to 256, a power of two.
    """

    campaign: Campaign
    blocks: int

    def __post_init__(self) -> None:
        if not 1 <= self.blocks <= 256 or self.blocks & (self.blocks - 1):
            raise ParameterError("blocks", self.blocks, "a power of two from 1 to 256")

    @classmethod
    def of(cls, campaign: Campaign) -> Self:
        """Return the layout of a new campaign; where blocks would be too many, there are none."""
        heavy = any(heavy_tailed(mechanism) for mechanism in campaign.mechanisms)
        return cls(campaign, BLOCKS if heavy and campaign.slots * BLOCKS <= MOST_SLOTS else 1)

    @classmethod
    def stored(cls, campaign: Campaign, sums: int) -> Self:
        """Return the layout that a campaign was created with, whatever `of` says by now.

        Raises:
            ParameterError: if the campaign can't have so many sums.
        """
        blocks, rest = divmod(sums, campaign.slots)
        if rest:
            raise ParameterError("sums", sums, f"a multiple of {campaign.slots}")
        return cls(campaign, blocks)

    @property
    def sums(self) -> int:
        """How many there are."""
        return self.campaign.slots * self.blocks

    def pack(self, report: Report) -> PackedReport:
        """Return a sound report in the form that is stored."""
        report_id, answers, period = report
        if self.blocks > 1 or period:
            slot = self.campaign.slot
            block = report_id[-1] % self.blocks
            answers = [(slot(q, period) * self.blocks + block, value) for q, value in answers]
        return PackedReport(report_id, pack(answers))

    def pack_all(self, reports: Sequence[Report]) -> list[PackedReport]:
        """Return sound reports in the form that is stored."""
        if not isinstance(reports, ReportColumns):
            return [self.pack(report) for report in reports]
        ids = np.frombuffer(reports.ids, _ID)
        rows = np.empty(len(reports), _PACKED)
        rows["report_id"] = ids["whole"]
        slot: Any = self.campaign.slot  # of arrays as of integers
        slots = slot(reports.indices.astype(np.int64), reports.periods)
        rows["sum_index"] = slots * self.blocks + ids["last"] % self.blocks
        rows["value"] = reports.values
        return list(map(PackedReport._make, _PACKED_REPORT.iter_unpack(rows.tobytes())))

    def blocks_of(
        self, sums: Sequence[Accumulator], column: int, period: int
    ) -> Sequence[Accumulator]:
        """Return the sums of one column and period, block by block."""
        first = self.campaign.slot(column, period) * self.blocks
        return sums[first : first + self.blocks]
