"""Write files as a whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geoveil.gp import ParameterError

_DEVICES = (Path("/dev"), Path("/dev/fd"))


@contextmanager
def whole_file(name: str, file: Path) -> Iterator[Path]:
    """Yield a path to write to, which then replaces the file as a whole.

    If that fails or is interrupted, what was there before stays, or nothing. The path that is
    yielded lies in the same folder and has the same ending. Anything but an ordinary file, such as
    /dev/stdout, is written directly.

    Args:
        file: where it goes; another one with this name is replaced.

    Raises:
        ParameterError: if it can't be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "shares.csv"
        ...     with whole_file("out", file) as beside:
        ...         beside.write_text("north 0.5")
        ...         file.exists()
        ...     file.exists()
        9
        False
        True
    """
    target = file.resolve()  # where it is a link, what it leads to is replaced
    if file.absolute().parent in _DEVICES or (target.exists() and not target.is_file()):
        with _told(name, file):
            yield file
        return
    beside = target.with_name(f".{secrets.token_hex(8)}{target.suffix}")
    try:
        with _told(name, file):
            yield beside
            if target.exists():
                shutil.copymode(target, beside)
            os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _told(name: str, file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        expected = f"a file to write ({error.strerror or error})"
        raise ParameterError(name, str(file), expected) from error
