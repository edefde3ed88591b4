"""geoveil db: check and copy the database that serve would use."""

import sqlite3
from pathlib import Path

import pytest

from geoveil.aggregator.store import open_store
from geoveil.gp import ParameterError


@pytest.fixture
def db(geoveil, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: geoveil("db", *arguments, to_server=False)


def make(name="a.db"):
    open_store(Path(name)).close()


def test_the_database_is_that_of_serve(db, tmp_path, monkeypatch):
    (tmp_path / "a.toml").write_text('database = "from-file.db"')

    def named(*arguments):
        with pytest.raises(ParameterError, match="a file that exists") as refused:
            db("check", "--config", "a.toml", *arguments)
        return refused.value.value

    assert named() == "from-file.db"
    monkeypatch.setenv("GEOVEIL_DATABASE", "from-environment.db")
    assert named() == "from-environment.db"
    assert named("--database", "from-flag.db") == "from-flag.db"
    (tmp_path / "a.toml").write_text("hots = 1")
    with pytest.raises(ParameterError, match="perhaps host"):
        db("check", "--config", "a.toml")


def test_check_says_what_is_wrong_by_its_status(db):
    with pytest.raises(ParameterError, match="a file that exists"):
        db("check", "--database", "a.db")
    make()
    sound = db("check", "--database", "a.db")
    assert sound.exit_code == 0
    assert "0 campaigns, 0 reports: sound" in sound.output


def test_check_finds_a_wrong_count(db):
    make()
    with sqlite3.connect("a.db") as connection:
        connection.execute(
            "INSERT INTO campaign (campaign_id, published, queries, closed, opens, closes)"
            " VALUES ('x', '', 1, 0, 0, 1)"
        )
        connection.execute("INSERT INTO report_count SELECT campaign_key, 0, 5 FROM campaign")
    connection.close()
    wrong = db("check", "--database", "a.db")
    assert wrong.exit_code == 1
    assert "campaign x: 5 reports are counted, 0 are stored" in wrong.output
    assert "1 campaign, " in wrong.output
    assert "1 fault\n" in wrong.output


def test_backup_is_a_database_and_replaces_nothing(db):
    make()
    assert db("backup", "copy.db", "--database", "a.db").exit_code == 0
    assert "sound" in db("check", "--database", "copy.db").output
    with pytest.raises(ParameterError, match="a new file"):
        db("backup", "copy.db", "--database", "a.db")
