"""An export of reports, as blocks to add up: the bulk estimate.

Every row group of every Parquet file is a block. The workers read the files themselves, so on a
cluster the folder has to be at the same path on all of them.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geoveil.campaign import Campaign, ValueCampaign, decode, open_envelope
from geoveil.gp import GeoVeilError
from geoveil.gp.estimation import Accumulator
from geoveil.simulation.scale.export import FORMAT, MANIFEST, ExportError, schema_of, value_columns
from geoveil.simulation.scale.work import BlockedWork, Sums, accumulate, add, of_triples


@dataclass(frozen=True, kw_only=True, eq=False)
class ExportedReports(BlockedWork):
    """The exported answers to one campaign; made by `exported`."""

    folder: Path
    published: bytes
    """The campaign's bytes."""
    row_groups: tuple[tuple[str, int, int], ...]
    """File, number of the row group in it, and its rows."""
    aggregator: tuple[Accumulator, ...]
    """The aggregator's own sums at the moment of the export."""

    @property
    def campaign(self) -> Campaign:
        """The campaign that `published` holds."""
        return decode(self.published)

    @property
    def blocks(self) -> int:
        return len(self.row_groups)

    @property
    def queries(self) -> int:
        """How many sums a block has: one per column of the campaign, group and period."""
        return self.campaign.slots

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each sum; where the campaign recurs, with the number of the period."""
        campaign, labels = self.campaign, self.campaign.labels
        if campaign.strata is not None:
            labels = tuple(f"{o}, {of}" for of in campaign.strata.labels for o in labels)
        if campaign.period is None:
            return labels
        return tuple(f"{label} ({p})" for p in range(campaign.periods) for label in labels)

    def block(self, number: int) -> Sums:
        """Return the sums of one block: the same, wherever and however often it is asked.

        Raises:
            ExportError: if the file is missing, damaged, or not the one that was exported.
        """
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        name, group, rows = self.row_groups[number]
        path = self.folder / name
        campaign = self.campaign
        names = schema_of(campaign).names
        try:
            with parquet.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read_row_group(group, columns=names)
                found = {name: table.column(name).to_numpy() for name in names}
        except (OSError, ValueError, LookupError, MemoryError, arrow.ArrowException) as error:
            raise ExportError(f"{path}: can't be read, or is damaged") from error
        sums = [Accumulator()] * self.queries
        for column, name in enumerate(value_columns(campaign)):
            values = found[name]
            indices = found["period"].astype(np.int64) * campaign.indices
            if campaign.strata is not None:
                indices += found["stratum"].astype(np.int64) * campaign.columns
            indices += column if isinstance(campaign, ValueCampaign) else found["query_index"]
            if len(values) != rows or (rows and not 0 <= indices.max() < self.queries):
                raise ExportError(f"{path}: is not the file that was exported")
            order = np.argsort(indices, kind="stable")
            ends = np.cumsum(np.bincount(indices, minlength=self.queries))[:-1]
            sums = add(sums, map(accumulate, np.split(values[order], ends)))
        return sums

    def fingerprint(self) -> str:
        parts = repr((self.row_groups, self.aggregator)).encode()
        return hashlib.sha256(self.published + parts).hexdigest()

    def check(self, sums: Sequence[Accumulator]) -> None:
        """Compare the sums of all blocks with those the aggregator kept while it counted.

        Raises:
            ExportError: if a bit differs: then a file was changed, lost or added.
        """
        if tuple(sums) != self.aggregator:
            raise ExportError(
                f"{self.folder}: the reports do not add up to the aggregator's sums: export again"
            )


def exported(folder: Path) -> list[ExportedReports]:
    """Return the campaigns of an export, in order of their creation.

    Raises:
        ExportError: if it is not a finished export.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
        if manifest["format"] == FORMAT:
            return [
                ExportedReports(
                    folder=folder.absolute(),
                    published=open_envelope(base64.b64decode(record["envelope"])).campaign,
                    row_groups=tuple(
                        (part["file"], group, int(rows))
                        for part in record["parts"]
                        for group, rows in enumerate(part["row_groups"])
                    ),
                    aggregator=tuple(of_triples(record["sums"])),
                )
                for record in manifest["campaigns"]
            ]
    except OSError as error:
        raise ExportError(f"{path}: not there, so this is not a finished export") from error
    except (ValueError, KeyError, TypeError, binascii.Error, GeoVeilError) as error:
        raise ExportError(f"{path}: damaged") from error
    raise ExportError(f"{path}: of another version of geoveil")
