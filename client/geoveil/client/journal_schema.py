"""The journal's tables, and the statements that read and change them."""

# ruff: noqa: S608 - no input is ever part of a statement

VERSION = 13

# Times are microseconds since 1970, which are exact and sortable. Rows are in the order of columns.
_TABLES = """
CREATE TABLE campaign (
    campaign_id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    envelope BLOB NOT NULL,
    seen INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE TABLE report (
    campaign_id TEXT NOT NULL,
    period INTEGER NOT NULL,
    digest BLOB NOT NULL,
    report BLOB NOT NULL,
    step_exponent INTEGER NOT NULL,
    closes INTEGER NOT NULL,
    drawn INTEGER NOT NULL,
    epoch INTEGER,
    earlier INTEGER,
    departs INTEGER,
    status INTEGER NOT NULL,
    sent INTEGER,
    settled INTEGER,
    reason TEXT,
    detail TEXT,
    failure TEXT,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, period)
);
CREATE INDEX pending ON report (drawn) WHERE status = 0;
CREATE INDEX told ON report (coalesce(settled, 9223372036854775807));
CREATE TABLE charge (
    campaign_id TEXT NOT NULL,
    period INTEGER NOT NULL,
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    delta REAL NOT NULL,
    reach REAL NOT NULL,
    any_two REAL NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, period, attribute)
);
CREATE TABLE reading (
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    space TEXT NOT NULL,
    begins INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    point TEXT NOT NULL,
    drawn INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (attribute, unit, space, begins)
);
CREATE TABLE campaign_point (
    campaign_id TEXT NOT NULL,
    attribute TEXT NOT NULL,
    unit TEXT NOT NULL,
    space TEXT NOT NULL,
    begins INTEGER NOT NULL,
    epsilon REAL NOT NULL,
    per REAL NOT NULL,
    point TEXT NOT NULL,
    drawn INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (campaign_id, begins)
);
CREATE TRIGGER changed AFTER UPDATE OF checksum ON report BEGIN
    UPDATE state SET rows = (rows | OLD.checksum) - (rows & OLD.checksum);
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
_ADDED = "".join(
    f"""
CREATE TRIGGER added_{table} AFTER INSERT ON {table} BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
    for table in ("campaign", "report", "charge", "reading", "campaign_point")
)
SCHEMA = _TABLES + _ADDED
_ALL = "SELECT * FROM report"
PENDING = f"{_ALL} WHERE status = 0 ORDER BY drawn, campaign_id, period"
HISTORY = f"{_ALL} ORDER BY drawn, campaign_id, period"
FIND = f"{_ALL} WHERE campaign_id = ? AND period = ?"
PUT = f"INSERT INTO report VALUES ({', '.join('?' * 17)})"
WRITTEN_ONCE = 10
"""The number of leading columns that never change: the draw."""
CHANGE = """
UPDATE report
SET status = ?, sent = ?, settled = ?, reason = ?, detail = ?, failure = ?, checksum = ?
WHERE campaign_id = ? AND period = ?
"""
PIN = "INSERT INTO campaign VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
PINNED = "SELECT * FROM campaign"
PINNED_AS = f"{PINNED} WHERE campaign_id = ?"
WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM report WHERE status = 0"
CHARGE = f"INSERT INTO charge VALUES ({', '.join('?' * 10)})"
_CHARGES = "SELECT * FROM charge"
CHARGED = f"{_CHARGES} ORDER BY rowid"
CHARGED_AS = f"{_CHARGES} WHERE campaign_id = ? AND period = ? ORDER BY rowid"
CHARGED_PENDING = f"""
{_CHARGES} WHERE (campaign_id, period) IN (SELECT campaign_id, period FROM report WHERE status = 0)
ORDER BY rowid
"""
SINCE = "SELECT rowid, length(report) FROM report WHERE rowid > ?"
CHARGED_SINCE = """
SELECT rowid, campaign_id, attribute, epsilon, per, unit, delta, reach,
    EXISTS (SELECT * FROM report WHERE report.campaign_id = charge.campaign_id
        AND report.period = charge.period AND report.epoch IS NOT NULL)
FROM charge WHERE rowid > ?
UNION ALL
SELECT rowid, NULL, attribute, epsilon, per, unit, 0.0, 9e999, 0
FROM reading WHERE rowid > ?
"""
ALL_READINGS = "SELECT * FROM reading"
READINGS_OF = f"{ALL_READINGS} WHERE attribute = ? AND unit = ? AND space = ? ORDER BY begins"
READ = f"INSERT INTO reading VALUES ({', '.join('?' * 10)})"
ALL_POINTS = "SELECT * FROM campaign_point"
POINTS_OF = f"{ALL_POINTS} WHERE campaign_id = ?"
POINT_OF = f"{POINTS_OF} AND begins = ?"
COARSEN = f"INSERT INTO campaign_point VALUES ({', '.join('?' * 10)})"
POINTS_SINCE = """
SELECT rowid, campaign_id, attribute, epsilon, per, unit, begins FROM campaign_point
WHERE rowid > ?
"""
TOLD = """
SELECT point.space, point.begins, coalesce(point.epsilon, charge.epsilon),
    coalesce(point.per, charge.per), charge.unit, charge.delta, charge.reach,
    max(coalesce(report.settled, 9223372036854775807))
FROM report CROSS JOIN charge
    ON report.campaign_id = charge.campaign_id AND report.period = charge.period
LEFT JOIN campaign_point AS point
    ON point.campaign_id = report.campaign_id AND point.begins IN (report.epoch, report.earlier)
WHERE charge.attribute = ? AND charge.unit = ?
    AND coalesce(report.settled, 9223372036854775807) > ?
GROUP BY coalesce(point.space, report.rowid), point.begins
"""
