"""Limits of the disk and the campaigns for new reports."""

from collections.abc import Sequence
from dataclasses import dataclass

from geoveil.aggregator.domain.errors import Code
from geoveil.aggregator.store.base import Store, Submission


@dataclass(frozen=True, slots=True)
class Room:
    """Limits on new reports; reports counted before are not affected."""

    quota: int | None = None
    """The most reports of a campaign; None for no limit."""
    least_free: int = 0
    """Bytes that stay free on the disk, if the store knows its disk."""

    def lacking(self, store: Store, batch: Sequence[Submission]) -> list[Code | None]:
        """Return for each submission why its new reports can't be accepted; None if they can."""
        free = store.free_bytes() if self.least_free else None
        if free is not None and free < self.least_free:
            return [Code.DISK_FULL] * len(batch)
        lacking: list[Code | None] = [None] * len(batch)
        if self.quota is not None:
            names = {submission.campaign_id for submission in batch}
            counted = {name: store.get_campaign(name).reports for name in names}
            for at, (name, reports, *_) in enumerate(batch):
                if counted[name] + len(reports) > self.quota:
                    lacking[at] = Code.CAMPAIGN_FULL
                else:
                    counted[name] += len(reports)
        return lacking
