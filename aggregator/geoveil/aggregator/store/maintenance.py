"""Check a database's consistency or copy it, at one moment, while aggregators run."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, func, select

from geoveil.aggregator.domain.reports import Bins, tally
from geoveil.aggregator.store.database_url import DatabaseURL
from geoveil.aggregator.store.opening import open_store
from geoveil.aggregator.store.private_file import new_private_file
from geoveil.aggregator.store.schema import CAMPAIGN, REPORT_COUNT, require_current, schema_version
from geoveil.aggregator.store.sql import SQLStore
from geoveil.campaign import REPORT_ID_BYTES
from geoveil.gp import Accumulator, ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of a check."""

    campaigns: int
    reports: int
    """The number of stored reports."""
    faults: Sequence[str]
    """One line per fault; empty if the database is consistent."""


def check_database(database: Path | str | DatabaseURL) -> Check:
    """Compare every counter and sum with the stored reports, and look for repeated ids.

    It takes 16 bytes of memory per report of the largest campaign, and raises as `open_store` does;
    also ServiceError DATABASE_UNUSABLE if the version differs.
    """
    _require_file(database)

    def work(connection: Connection) -> Check:
        store.freeze(connection)
        require_current(schema_version(connection))
        faults = list(store.faults(connection))
        stored, column = 0, CAMPAIGN.c
        campaigns = connection.execute(
            select(
                column.campaign_key, column.campaign_id, column.queries, column.deleted
            ).order_by(column.campaign_key)
        ).all()
        for key, campaign_id, queries, deleted in campaigns:
            reports, of_campaign = _check_campaign(store, connection, key, queries)
            stored += reports
            if deleted:
                of_campaign = ["reports remain that should have been deleted"] if reports else []
            elif deleted is not None:  # during deletion the sums cannot be checked
                continue
            faults += [f"campaign {campaign_id}: {fault}" for fault in of_campaign]
        return Check(campaigns=len(campaigns), reports=stored, faults=tuple(faults))

    with open_store(database, create=False) as store:
        return store.run(work)


def back_up_database(database: Path | str | DatabaseURL, target: Path) -> None:
    """Write a complete copy at one moment, of any version, to a new file private to this user.

    The copy is an SQLite database, or `pg_dump --format=custom` for `pg_restore`.

    Raises:
        ParameterError: if the target exists or its folder doesn't, or `database` is not a database.
        ServiceError: DATABASE_UNUSABLE if it is empty or another program's; STORE_UNAVAILABLE,
            including if no pg_dump can copy it.
    """
    _require_file(database)
    if target.exists() or not target.parent.is_dir():
        raise ParameterError("target", str(target), "a new file in a folder that exists")
    with open_store(database, create=False) as store:
        if not store.run(schema_version):
            require_current(0)
        try:
            partial = new_private_file(target.parent, target.name)
            try:
                store.copy(partial)
                _flush(partial)
                os.link(partial, target)  # fails if it has been created meanwhile
            finally:
                partial.unlink(missing_ok=True)
            _flush(target.parent)
        except OSError as error:
            raise ParameterError(
                "target", str(target), f"a file that can be written ({error.strerror})"
            ) from error


def _check_campaign(
    store: SQLStore, connection: Connection, key: int, queries: int
) -> tuple[int, Sequence[str]]:
    """Return the number of stored reports, and the faults."""
    count = select(func.sum(REPORT_COUNT.c.reports)).where(REPORT_COUNT.c.campaign_key == key)
    counted = int(connection.execute(count).scalar_one() or 0)
    sums: dict[int, Accumulator] = {}
    pieces = []
    for ids, answers in store.read_reports(connection, key):
        pieces.append(ids)
        for index, of_piece in tally(answers).items():
            sums[index] = sums.get(index, Accumulator()) + of_piece
    ids = b"".join(pieces)
    stored = len(ids) // REPORT_ID_BYTES
    faults = []
    if counted != stored:
        faults.append(f"{counted:,} reports are counted, {stored:,} are stored")
    repeated = _repeated(ids)
    if repeated:
        faults.append(f"{repeated:,} reports are stored twice")
    kept = store.read_sums(connection, key)
    binned: Counter[int] = Counter()
    for row in [row for row in kept if row >= queries]:
        binned[(row - queries) // Bins.WIDTH] += kept.pop(row).n
    wrong = {i for i in kept.keys() | sums if kept.get(i) != sums.get(i)}
    wrong |= {i for i, n in binned.items() if i not in kept or kept[i].n != n}
    if wrong:
        faults.append(f"the sums of {len(wrong):,} queries do not match the reports")
    return stored, faults


def _repeated(ids: bytes) -> int:
    halves = np.frombuffer(ids, ">u8").reshape(-1, 2)
    ordered = halves[np.lexsort((halves[:, 1], halves[:, 0]))]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())


def _require_file(database: Path | str | DatabaseURL) -> None:
    """Refuse a missing SQLite file, since creating it would hide a typing error."""
    if "://" not in str(database) and not Path(str(database)).is_file():
        raise ParameterError("database", str(database), "a file that exists, or a URL")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
