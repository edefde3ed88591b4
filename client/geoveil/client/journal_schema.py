"""The journal's tables, and the statements that read and change them."""

# ruff: noqa: S608 - no input is ever part of a statement

VERSION = 13

# Times are microseconds since 1970, which are exact and sortable.
_REPORTS = """
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
CREATE INDEX told ON report (coalesce(settled, 9223372036854775807));
CREATE TRIGGER charged AFTER INSERT ON charge BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER pinned AFTER INSERT ON campaign BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER recorded AFTER INSERT ON report BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
CREATE TRIGGER changed AFTER UPDATE OF checksum ON report BEGIN
    UPDATE state SET rows = (rows | OLD.checksum) - (rows & OLD.checksum);
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
_READINGS = """
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
CREATE TRIGGER read AFTER INSERT ON reading BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
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
CREATE TRIGGER coarsened AFTER INSERT ON campaign_point BEGIN
    UPDATE state SET rows = (rows | NEW.checksum) - (rows & NEW.checksum);
END;
"""
SCHEMA = _REPORTS + _READINGS
_COLUMNS = (
    "campaign_id, period, digest, report, step_exponent, closes, drawn, epoch, earlier, departs,"
    " status, sent, settled, reason, detail, failure"
)
_ALL = f"SELECT {_COLUMNS}, checksum FROM report"
PENDING = f"{_ALL} WHERE status = 0 ORDER BY drawn, campaign_id, period"
HISTORY = f"{_ALL} ORDER BY drawn, campaign_id, period"
FIND = f"{_ALL} WHERE campaign_id = ? AND period = ?"
PUT = f"INSERT INTO report ({_COLUMNS}, checksum) VALUES ({', '.join('?' * 17)})"
WRITTEN_ONCE = 10
"""The number of leading columns that never change: the draw."""
CHANGE = """
UPDATE report
SET status = ?, sent = ?, settled = ?, reason = ?, detail = ?, failure = ?, checksum = ?
WHERE campaign_id = ? AND period = ?
"""
PIN = """
INSERT INTO campaign (campaign_id, digest, envelope, seen, checksum) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""
PINNED = "SELECT campaign_id, digest, envelope, seen, checksum FROM campaign"
PINNED_AS = f"{PINNED} WHERE campaign_id = ?"
WAITING = "SELECT count(*), coalesce(sum(length(report)), 0) FROM report WHERE status = 0"
_CHARGE_COLUMNS = "campaign_id, period, attribute, unit, epsilon, per, delta, reach, any_two"
CHARGE = f"INSERT INTO charge ({_CHARGE_COLUMNS}, checksum) VALUES ({', '.join('?' * 10)})"
_CHARGES = f"SELECT {_CHARGE_COLUMNS}, checksum FROM charge"
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
_READING_COLUMNS = "attribute, unit, space, begins, ends, epsilon, per, point, drawn"
ALL_READINGS = f"SELECT {_READING_COLUMNS}, checksum FROM reading"
READINGS_OF = f"{ALL_READINGS} WHERE attribute = ? AND unit = ? AND space = ? ORDER BY begins"
READ = f"INSERT INTO reading ({_READING_COLUMNS}, checksum) VALUES ({', '.join('?' * 10)})"
_POINT_COLUMNS = "campaign_id, attribute, unit, space, begins, epsilon, per, point, drawn"
ALL_POINTS = f"SELECT {_POINT_COLUMNS}, checksum FROM campaign_point"
POINTS_OF = f"{ALL_POINTS} WHERE campaign_id = ?"
POINT_OF = f"{POINTS_OF} AND begins = ?"
COARSEN = f"INSERT INTO campaign_point ({_POINT_COLUMNS}, checksum) VALUES ({', '.join('?' * 10)})"
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
