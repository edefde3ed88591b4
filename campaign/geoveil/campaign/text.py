"""Text that people must be able to trust: one line of visible characters.

A campaign's text appears beside the app's own: it must not end a line, move the cursor, reverse the
reading direction, or hide.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from unicodedata import category

from geoveil.gp import ParameterError

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}")
_MOST_MARKS = 4
"""The most accents on one letter [UTS #39 §5.4], since towers of them hide other lines."""
_MARKS = ("Mn", "Me")
_JOINING = frozenset(map(chr, (*range(0x1161, 0x1200), *range(0xD7B0, 0xD800))))
"""Hangul vowels and finals, drawn within the preceding syllable, or invisible without one."""
_EMOJI_STYLE = "\ufe0e\ufe0f"
"""Selectors that draw the preceding symbol as text or as a picture."""
_UNSEEN = frozenset(
    # Invisible or blank, although they count as letters, symbols and accents.
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\U00013441\U00013442\U0001d159"
    + "".join(map(chr, (*range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))))
)


def require_printable(name: str, text: object, most: int) -> str:
    """Return a text of at most `most` characters if it is printable, visible and on one line.

    It refuses blanks at the ends, control and format characters (including those of direction or
    without width), line separators, private and unassigned code points, and more than four accents
    on one letter.

    Raises:
        ParameterError: if the text is refused.

    Example:
        >>> require_printable("title", "Household income above 100k", 200)
        'Household income above 100k'
        >>> require_printable("unit", "dollar ", 64)
        Traceback (most recent call last):
        ...
        geoveil.gp.errors.ParameterError: unit must be 1 to 64 visible characters on one line,\
 without spaces around them, got unit='dollar '
    """
    if (
        not isinstance(text, str)
        or not 1 <= len(text) <= most
        or text != text.strip()
        or not text.isprintable()
        or not (text.isascii() or all(seen for _, seen in _characters(text)))
    ):
        raise ParameterError(
            name, text, f"1 to {most} visible characters on one line, without spaces around them"
        )
    return text


def require_language(name: str, tag: object) -> None:
    """Raise ParameterError unless a tag is a BCP 47 tag."""
    if not isinstance(tag, str) or not _LANGUAGE.fullmatch(tag):
        raise ParameterError(name, tag, "a BCP 47 tag, such as de or pt-BR")


def visible(text: str) -> str:
    r"""Return a text with an escape for each character that `require_printable` refuses.

    Example:
        >>> print(visible("dollar\n\x1b[1mSigned"))
        dollar\n\x1b[1mSigned
    """
    return "".join(c if seen else ascii(c)[1:-1] for c, seen in _characters(text))


def _characters(text: str) -> Iterator[tuple[str, bool]]:
    """Yield every character, and whether it is visible at its position."""
    marks = 0
    for before, c in pairwise(" " + text):
        if c.isascii() or (category(c) not in _MARKS and c not in _JOINING):
            marks = 0
            yield c, c.isprintable() and c not in _UNSEEN
            continue
        marks += 1
        of_symbol = c not in _EMOJI_STYLE or category(before)[0] in "SPN"
        yield c, before != " " and marks <= _MOST_MARKS and of_symbol and c not in _UNSEEN
