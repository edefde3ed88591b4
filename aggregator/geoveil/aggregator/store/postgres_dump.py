"""Copies of a PostgreSQL database, by its own program."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from geoveil.aggregator.domain.errors import Code, ServiceError


def require_dump(server: int) -> None:
    """Refuse to go on without a pg_dump that can copy a server.

    Args:
        server: its major version; an older pg_dump refuses it.

    Raises:
        ServiceError: STORE_UNAVAILABLE, saying what is needed and what there is.
    """
    program = shutil.which("pg_dump")
    found = "there is none"
    if program is not None:
        shown = _run([program, "--version"]).stdout
        version = re.search(r"\) (\d+)", shown)
        if version and int(version[1]) >= server:
            return
        found = f"{program} is of {f'version {version[1]}' if version else 'no version it tells'}"
    raise ServiceError(
        Code.STORE_UNAVAILABLE,
        f"a copy of it takes pg_dump of PostgreSQL {server} or later on the PATH, and {found}:"
        " install PostgreSQL's client programs of that version",
    )


def dump(parameters: Mapping[str, Any], target: Path) -> None:
    """Write what `pg_restore` reads to a file.

    Args:
        parameters: of the connection, as libpq names them.
        target: the file.

    Raises:
        ServiceError: STORE_UNAVAILABLE with the words of pg_dump.
    """
    # The password not among the arguments, which every user of the machine can list.
    password = parameters.get("password")
    environment = {**os.environ, "PGPASSWORD": password} if password else None
    shown = make_conninfo(**{**parameters, "password": None})
    done = _run(
        ["pg_dump", "--format=custom", f"--file={target}", f"--dbname={shown}"], environment
    )
    if done.returncode:
        raise ServiceError(Code.STORE_UNAVAILABLE, done.stderr.strip())


def _run(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the operator's own programs and database
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
