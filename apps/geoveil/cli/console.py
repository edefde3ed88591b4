"""Shared by the commands: two consoles, number formats, and error lines.

Somebody else wrote much of the printed text: a server, a campaign, a file. It is shown unchanged
and only as text: see `PlainConsole`.
"""

import codecs
import io
import json
import os
import sys
from collections.abc import Container, Iterable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, NoReturn
from unicodedata import normalize

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from geoveil.campaign import (
    visible,
)
from geoveil.gp import ParameterError

Part = str | tuple[str, str]
"""Text, or text and its style."""
_INDENT = "  "
_LEAST_WIDTH = 8
_WIDEST = 10_000
_DEGRADING = "geoveil.degrading"
"""Name of the error handler for characters that an encoding lacks."""
_SPELLED = {
    **{"ε": "epsilon", "β": "beta", "γ": "gamma", "δ": "delta", "ν": "nu", "σ": "sigma"},
    **{"η": "eta", "κ": "kappa", "λ": "lambda", "μ": "u", "µ": "u", "π": "pi", "ρ": "rho"},
    **{"–": "-", "—": "-", "−": "-", "…": "...", "·": "*", "×": "x", "±": "+-", "∞": "inf"},
    **{"≥": ">=", "≤": "<=", "→": "->", "√": "sqrt ", "²": "^2", "³": "^3"},
    **{"€": "EUR", "£": "GBP", "ß": "ss", "’": "'", "¿": "", "¡": ""},
    **dict.fromkeys("„“”«»", '"'),
}

BLANKS = str.maketrans("\u00a0\u202f", "  ")
"""Blanks at which no line is broken, which a terminal does not need."""


class PlainConsole(Console):
    """Prints a string as one line of visible characters: no markup, no emoji codes, no escapes.

    What can't be seen is escaped, a line's end as well, and what the stream's encoding lacks is
    spelled out. Styles are never in a string; see `styled`.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **how)

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(self._plain(text), **how)

    def styled(self, *parts: Part) -> Text:
        """Return a line of several styles."""
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        return Text.assemble(*((self._plain(text), style) for text, style in pairs))

    def tell(self, *parts: Part) -> None:
        """Print one line; if the terminal folds it, indent the rest.

        So no part of a long text can pass for a separate line. Characters beyond ASCII count as
        two columns wide, since terminals disagree on which of them are.
        """
        text = self.styled(*parts)
        if not self.is_terminal:
            self.print(text, soft_wrap=True)
            return
        # Of terminals that call themselves dumb, Console takes the width to be 80.
        width = min(self.width, get_terminal_size((self.width, 0)).columns)
        for number, part in enumerate(text.divide(_folds(text.plain, width))):
            self.print(Text(_INDENT if number else ""), part, sep="", soft_wrap=True)

    def tell_all(self, *lines: "str | tuple[Part, ...] | None") -> None:
        """Print each of some lines, but none of those that are None or empty."""
        for line in filter(None, lines):
            self.tell(*([line] if isinstance(line, str) else line))

    def paragraphs(self, *texts: str | Text | None) -> None:
        """Print each of some texts, folded by words, but none of those that are None or empty."""
        for text in filter(None, texts):
            self.print(text)

    def _plain(self, text: str) -> str:
        return (
            visible(text.translate(BLANKS)).encode(self.encoding, _DEGRADING).decode(self.encoding)
        )


out = PlainConsole()
"""Results."""
err = PlainConsole(stderr=True)
"""Progress and errors."""


def _folds(text: str, width: int) -> Iterator[int]:
    """Yield the positions at which to fold a text, after blanks if there are any."""
    start, room = 0, max(width, _LEAST_WIDTH)
    while True:
        filled = accumulate(1 if c.isascii() else 2 for c in text[start:])
        end = next((start + i for i, used in enumerate(filled) if used > room), None)
        if end is None:
            return
        after_blank = text.rfind(" ", start, end) + 1
        start = after_blank if after_blank > start else end
        yield start
        room = max(width, _LEAST_WIDTH) - len(_INDENT)


def degrade() -> None:
    """Let standard output and error spell out characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_DEGRADING)


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    """Return the letters for a character, or its escape: a handler as `codecs` asks for."""
    assert isinstance(error, UnicodeEncodeError)  # registered for writing only
    c = error.object[error.start]
    if c in _SPELLED:
        spelled = _SPELLED[c]
    elif "\u2800" <= c <= "\u28ff":  # dots of what turns while one waits
        spelled = "."
    else:
        # é becomes e; any other character becomes its escape.
        base = normalize("NFKD", c).encode("ascii", "ignore").decode() if c.isalpha() else ""
        spelled = base or ascii(c)[1:-1]
    return spelled, error.start + 1


codecs.register_error(_DEGRADING, _spell_out)


def fail(message: str) -> NoReturn:
    """Print one line to standard error and exit with status 1."""
    err.tell(("error:", "bold red"), f" {message}")
    sys.exit(1)


def bars(*, counted: bool = False) -> Any:
    """Return progress bars with the time left, in numbers or in per cent.

    Args:
        counted: whether to show how many are done.
    """
    from rich import progress

    done = progress.MofNCompleteColumn() if counted else progress.TaskProgressColumn()
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        done,
        progress.TimeRemainingColumn(),
    )
    return progress.Progress(*columns, console=err)


def print_table(
    headers: Iterable[str],
    rows: Iterable[Iterable[Any]],
    *,
    wrapped: Container[int] = (),
    right: Container[int] = (),
    bold: Container[int] = (),
    console: PlainConsole = out,
    **layout: Any,
) -> None:
    """Print a table, folded to the width of the terminal without cutting words or numbers.

    Args:
        rows: of cells; an empty row is a line between sections.
        wrapped: the columns whose cells may be folded, from 0; headers always may.
        right: the columns whose cells stand at the right.
        bold: the rows in bold.
        layout: what else a `Table` takes.
    """
    plain: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}
    table = Table(**plain | layout)
    for place, header in enumerate(headers):
        table.add_column(header, justify="right" if place in right else "left")
    for index, row in enumerate(rows):
        cells = tuple(row)
        if cells:
            table.add_row(*cells, style="bold" if index in bold else None)
        else:
            table.add_section()
    _fit(table, wrapped, console)
    console.print(table, crop=False, no_wrap=True)


def _fit(table: Table, wrapped: Container[int], console: PlainConsole) -> None:
    """Narrow the columns with the most room until a table fits, or no column has any."""
    wide = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    excess = wide - console.width
    if excess <= 0:
        return
    widths, spare = [], []
    for place, column in enumerate(table.columns):
        head, cells = _lines([column.header]), _lines(column.cells)
        words = " ".join(head if place not in wrapped else head + cells).split()
        least = _widest(words + ([] if place in wrapped else cells))
        widths.append(_widest(head + cells))
        spare.append(widths[-1] - least)
    while excess > 0 and max(spare) > 0:
        place = spare.index(max(spare))
        widths[place] -= 1
        spare[place] -= 1
        excess -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width = width
    table.width = console.width + excess


def _lines(cells: Iterable[Any]) -> list[str]:
    return [out.styled(line).plain for cell in cells for line in str(cell).splitlines()]


def _widest(texts: Iterable[str]) -> int:
    return max(map(cell_len, texts), default=0)


def print_json(record: object) -> None:
    """Print data as JSON for programs, neither folded nor styled."""
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table; a dash for none."""
    return "–" if value is None else f"{value:z.{digits}f}"


def write_new(file: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a new file, whole or not at all.

    Args:
        file: where.
        mode: 0o600 for a key.

    Raises:
        ParameterError: if there is one, or it can't be written.
    """
    try:
        with open(file, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as opened:
            opened.write(content)
    except FileExistsError:
        raise ParameterError("file", str(file), "new: what is there is never overwritten") from None
    except BaseException as error:
        with suppress(OSError):  # which may not be there
            file.unlink()
        if isinstance(error, OSError):
            expected = f"a file to write ({error.strerror})"
            raise ParameterError("file", str(file), expected) from error
        raise
