"""Copies of a PostgreSQL database, by its own program."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

from geoveil.aggregator.errors import Code, ServiceError


def dump(parameters: Mapping[str, Any], target: Path) -> None:
    """Write what `pg_restore` reads to a file.

    Args:
        parameters: of the connection, as libpq names them.
        target: the file.

    Raises:
        ServiceError: STORE_UNAVAILABLE with the words of pg_dump, or if it is not installed.
    """
    program = shutil.which("pg_dump")
    if program is None:
        raise ServiceError(
            Code.STORE_UNAVAILABLE, "pg_dump, of PostgreSQL's client programs, is not on the PATH"
        )
    # The password not among the arguments, which every user of the machine can list.
    password = parameters.get("password")
    environment = {**os.environ, "PGPASSWORD": password} if password else None
    shown = make_conninfo(**{**parameters, "password": None})
    done = subprocess.run(  # noqa: S603 - the operator's own database
        [program, "--format=custom", f"--file={target}", f"--dbname={shown}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServiceError(Code.STORE_UNAVAILABLE, done.stderr.strip())
