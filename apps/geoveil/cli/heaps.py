"""What the option `--heap` gives; commands that do not have it need not load the analyst."""

from collections.abc import Sequence

from geoveil.analyst import Heap
from geoveil.gp import ParameterError


def heaps_of(texts: Sequence[str] | None) -> tuple[Heap, ...]:
    """Return the people who hold exactly one value, each VALUE=SHARE.

    Raises:
        ParameterError: if a text is none.
    """
    return tuple(map(_heap, texts or ()))


def _heap(text: str) -> Heap:
    value, _, share = text.partition("=")
    try:
        return Heap(float(value), float(share))
    except ValueError:
        raise ParameterError("heap", text, "VALUE=SHARE, for example 100000=0.0105") from None
