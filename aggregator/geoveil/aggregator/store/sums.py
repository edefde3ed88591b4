"""Exact sums of packed answers."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from geoveil.aggregator.domain.reports import unpack
from geoveil.gp.estimation import Accumulator, sums_of

_ANSWER = np.dtype([("query_index", "<u4"), ("value", "<i8")])
_FEW = 64
"""Answers that are added one by one sooner than NumPy is called."""
_BLOCK = 1 << 18
"""Answers that are added at once."""


def tally(answers: bytes) -> dict[int, Accumulator]:
    """Return the exact sums by query index of answers that `pack` returned.

    Example:
        >>> from geoveil.aggregator.domain.reports import pack
        >>> tally(pack([(7, -(2**63)), (7, -1), (2, 5)]))[7].total == -(2**63) - 1
        True
    """
    if len(answers) <= _FEW * _ANSWER.itemsize:
        few: dict[int, tuple[int, int, int]] = {}
        for index, value in unpack(answers):
            n, total, squares = few.get(index, (0, 0, 0))
            few[index] = n + 1, total + value, squares + value * value
        return {index: Accumulator(*of_one) for index, of_one in few.items()}
    sums: dict[int, Accumulator] = {}
    found = np.frombuffer(answers, _ANSWER)
    for start in range(0, len(found), _BLOCK):
        for index, of_block in _tally_block(found[start : start + _BLOCK]).items():
            sums[index] = sums[index] + of_block if index in sums else of_block
    return sums


def _tally_block(answers: NDArray[np.void]) -> Mapping[int, Accumulator]:
    indices = answers["query_index"]
    order = np.argsort(indices, kind="stable")
    indices, values = indices[order], answers["value"][order]
    starts = np.flatnonzero(np.concatenate([[True], indices[1:] != indices[:-1]]))
    return dict(zip(indices[starts].tolist(), sums_of(values, starts), strict=True))
