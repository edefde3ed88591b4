"""Test that schema and statements keep to what Citus documents for distributed tables.

No Citus is run. The rules are those of "SQL Support and Workarounds", "Creating and Modifying
Distributed Objects" and pull request 1509 (partitions) of Citus. Distributed are the tables of
reports, by columns made of the id; all others stay on the coordinator.
"""

import re
from datetime import UTC, datetime

import pytest
from sqlalchemy import Column, Table, UniqueConstraint, event

from geoveil.aggregator.domain.reports import PackedReport, pack
from geoveil.aggregator.store import CampaignRecord, Outcome, Submission
from geoveil.aggregator.store.maintenance import check_database
from geoveil.aggregator.store.postgres import PostgresStore
from geoveil.aggregator.store.schema import METADATA, REPORT, REPORT_BESIDE, tables_of

BY = {REPORT: "slot", REPORT_BESIDE: "report_id"}
LOCAL = {table.name for table in METADATA.tables.values()} - {table.name for table in BY}
UNTIL = datetime(2030, 1, 1, tzinfo=UTC)
_NEVER = (
    "FOR UPDATE|FOR SHARE|TABLESAMPLE|RECURSIVE|GROUPING SETS|CUBE|ROLLUP|OVER|TRIGGER|RULE"
    "|MERGE|FOREIGN KEY|REFERENCES|nextval|random|now|clock_timestamp"
)


def refused_table(table: Table, by: str) -> str | None:
    """Return why Citus would not distribute a table by a column; None if it would."""
    unique = [c for c in table.constraints if isinstance(c, UniqueConstraint)]
    for columns in (table.primary_key.columns, *(constraint.columns for constraint in unique)):
        if by not in columns:
            return "a unique constraint without the distribution column"
    if any(index.unique and by not in index.columns for index in table.indexes):
        return "a unique index without the distribution column"
    if any(column.identity or column.default or column.server_default for column in table.columns):
        return "a sequence or a default"
    return "a foreign key" if table.foreign_keys else None


def refused(statement: str) -> str | None:
    """Return why Citus would not run a statement on the tables of reports; None if it would."""
    by = {column for table, column in BY.items() if has(table.name, statement)}
    if not by and not re.search(r"\breport_(\d+|kept)\b", statement):
        return None
    if any(has(name, statement) for name in LOCAL):
        return "a distributed table beside one of the coordinator"
    if found := re.search(rf"\b({_NEVER})\b", statement, re.IGNORECASE):
        return found[0]
    if re.search(r"\b(UPDATE\s+report|DO\s+UPDATE)", statement, re.IGNORECASE):
        return "a change of what is distributed"
    for columns in re.findall(r"INSERT\s+INTO\s+report\w*\s*\(([^)]*)\)", statement, re.IGNORECASE):
        if not by & set(re.split(r"\W+", columns)):
            return "an INSERT without the distribution column"
    if re.search(r"INSERT\s+INTO\s+report\w*\s+(?!\()", statement, re.IGNORECASE):
        return "an INSERT that does not name its columns"
    return None


def has(table: str, statement: str) -> bool:
    return re.search(rf"\b{table}\b(?!\.)", statement) is not None


@pytest.fixture
def statements(postgres_url):
    """All that a store sends from an empty database until the reports of a campaign are deleted."""
    sent: list[str] = []

    def listen(_connection, _cursor, statement, *_):
        sent.append(statement)

    with PostgresStore(postgres_url, create=False) as store:
        event.listen(store._engine, "before_cursor_execute", listen)
        store.run(store._create, write=True)
        for name, until in (("kept", None), ("due", UNTIL)):
            store.create_campaign(
                CampaignRecord(campaign_id=name, published=b"x", queries=1, delete_after=until)
            )
        alike = [(a << 64 | b).to_bytes(16) for a, b in ((5, 9), (9, 5), (4, 8))]
        packed = [PackedReport(each, pack([(0, 1)])) for each in alike]
        for name in ("kept", "due"):
            assert store.commit([Submission(name, packed, True)]) == [[Outcome.ACCEPTED] * 3]
            assert store.commit([Submission(name, packed, True)]) == [[Outcome.DUPLICATE] * 3]
            page = store.answers(name, limit=2)
            store.answers(name, page.after, limit=2)
            store.sums(name)
        store.note_day(20_000)
        store.plan_participants("due", 5)
        store.progress(["due"])
        store.campaign_page(open_at=UNTIL)
        store.extent()
        store.probe()
        store.run(lambda connection: [*store.read_reports(connection, 1)])
        assert store.due(UNTIL) == ["due"]
        assert not store.delete_reports("due")
        store.close_campaign("kept")
    assert check_database(postgres_url).faults == ()
    return sent


def test_tables_of_reports_may_be_distributed_by_the_id():
    assert {table for table in tables_of("postgresql") if table.name not in LOCAL} == BY.keys()
    assert [refused_table(table, by) for table, by in BY.items()] == [None, None]
    assert not any(table.foreign_keys for table in METADATA.tables.values())


def test_tables_that_may_not_be_distributed_are_found():
    """The control."""
    assert refused_table(REPORT_BESIDE, "answers")
    for column in (Column("a", unique=True), Column("a", index=True, unique=True)):
        assert refused_table(
            Table("t", type(METADATA)(), Column("b", primary_key=True), column), "b"
        )
    campaign = METADATA.tables["campaign"]
    assert refused_table(campaign, "campaign_id")
    assert refused_table(campaign, "campaign_key")


def test_every_statement_is_one_that_distributed_tables_permit(statements):
    assert {s: why for s in statements if (why := refused(s))} == {}
    joined = "\n".join(statements)
    for part in (
        *("CREATE TABLE report_2 (LIKE report", "ATTACH PARTITION report_2", "report_kept"),
        *("insert_new_reports(%", "INSERT INTO report (", "INSERT INTO report_beside ("),
        *("FROM report WHERE slot = ANY", "FROM report_beside\n", "FROM report \nWHERE"),
        *("DROP TABLE IF EXISTS report_2", "DELETE FROM report_beside", "FUNCTION insert_new"),
    ):
        assert part in joined, part


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT answers FROM report JOIN campaign ON true",
        "SELECT answers FROM report_beside WHERE campaign_key IN (SELECT * FROM campaign)",
        "SELECT * FROM report_7 FOR UPDATE",
        "SELECT rank() OVER (ORDER BY slot) FROM report",
        "UPDATE report SET slot = 1",
        "INSERT INTO report (report_id, answers) VALUES (%s, %s)",
        "INSERT INTO report SELECT * FROM unnest(%s, %s, %s)",
        "INSERT INTO report_beside AS old (campaign_key, answers) VALUES (1, %s)",
        "INSERT INTO report (slot) VALUES (1) ON CONFLICT (slot) DO UPDATE SET answers = ''",
        "DELETE FROM report WHERE slot < random()",
        "CREATE TRIGGER a BEFORE INSERT ON report",
        "ALTER TABLE report ADD FOREIGN KEY (slot) REFERENCES report_beside",
    ],
)
def test_statements_that_they_do_not_permit_are_found(statement):
    """The control."""
    assert refused(statement)
