"""Egocentric betweenness centrality by sparse matrix products [LD Definition 5.1].

Each pair of nonadjacent neighbours of a centre adds 1/(1 + P), where P counts the centre's other
neighbours adjacent to both. All centres are computed at once: the graphs among their neighbours
are the blocks of one matrix B, whose rows are the directed edges (c, u) and whose entries are the
triangles; P is an entry of B².
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoveil.gp import PrivateValueError, validation

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]

_MOST_NODES = 2**31 - 1
_PRODUCTS = 10_000_000
"""The most multiplications per group, which also bounds its entries."""
_EXPANDED = 20_000_000
"""The number of candidate triangles looked up at once."""


class Graph:
    """An undirected graph without loops. Its edges are private; its nodes are public.

    Args:
        nodes: the number of nodes, n ≥ 1; nodes are numbered from 0.
        edges: integers, shape (e, 2), in either direction; repeats count once.

    Raises:
        ParameterError: if `nodes` is out of range.
        PrivateValueError: if an edge is not a pair of different nodes.

    Example:
        >>> Graph(3, [(0, 1), (1, 2)])
        Graph(3 nodes, edges not shown)
    """

    def __init__(self, nodes: int, edges: ArrayLike) -> None:
        validation.require_count("nodes", nodes, 1, _MOST_NODES)
        pairs = np.asarray(edges)
        pairs = pairs.reshape(-1, 2) if pairs.size == 0 else pairs
        expected = f"edges: pairs of two different nodes from 0 to {nodes - 1}"
        if pairs.ndim != 2 or pairs.shape[1] != 2 or (pairs.size and pairs.dtype.kind not in "iu"):
            raise PrivateValueError(expected)
        pairs = pairs.astype(np.int64)
        if pairs.size and (
            pairs.min() < 0 or pairs.max() >= nodes or (pairs[:, 0] == pairs[:, 1]).any()
        ):
            raise PrivateValueError(expected)
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        keys = np.unique(low * nodes + high)
        self.nodes = nodes
        self._low, self._high = keys // nodes, keys % nodes

    @property
    def edges(self) -> Integers:
        """The sorted edges, shape (e, 2), each with the lower node first. Private."""
        return np.stack([self._low, self._high], axis=1)

    @property
    def degrees(self) -> Integers:
        """The degree of each node, shape (n,). Private."""
        return np.bincount(self._low, minlength=self.nodes) + np.bincount(
            self._high, minlength=self.nodes
        )

    def __repr__(self) -> str:
        return f"Graph({self.nodes} nodes, edges not shown)"


def egocentric_betweenness(graph: Graph) -> Array:
    """Return the egocentric betweenness of every node, shape (n,), each pair counted once. Private.

    Time is proportional to Σ t(c, u)² over directed edges, where t counts the triangles at an edge,
    and memory to the number of triangles; half a million triangles take about 0.3 GB.

    Example:
        >>> star = Graph(4, [(0, 1), (0, 2), (0, 3)])
        >>> egocentric_betweenness(star).tolist()
        [3.0, 0.0, 0.0, 0.0]
    """
    degree = graph.degrees.astype(np.float64)
    result: Array = degree * (degree - 1) / 2
    triangles = _triangles(graph)
    if not len(triangles):
        return result
    centre, matrix = _ego_blocks(triangles, graph.nodes)
    adjacent = np.bincount(centre, np.diff(matrix.indptr), minlength=graph.nodes) / 2
    shorter = np.bincount(centre, _shared(matrix), minlength=graph.nodes) / 2
    return np.asarray(result - adjacent - shorter)


def _triangles(graph: Graph) -> Integers:
    """Return all triangles, shape (k, 3), each once.

    Every edge points to the end of higher degree, so no node has many outgoing edges.
    """
    n = graph.nodes
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(graph.degrees, kind="stable")] = np.arange(n)
    ends = rank[graph.edges]
    keys = np.sort(ends.min(axis=1) * n + ends.max(axis=1))
    tail, head = keys // n, keys % n
    start = np.searchsorted(tail, np.arange(n + 1))
    triangles: list[Integers] = []
    after = start[tail + 1] - np.arange(len(keys)) - 1  # later edges of the same tail
    for first, last in _groups(after, _EXPANDED):
        own = np.repeat(np.arange(first, last), after[first:last])
        other = own + 1 + _ramp(after[first:last])
        wanted = head[own] * n + head[other]
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        real = keys[place] == wanted
        own, other = own[real], other[real]
        triangles.append(np.stack([tail[own], head[own], head[other]], axis=1))
    nodes = np.argsort(rank)
    return nodes[np.concatenate(triangles)] if triangles else np.empty((0, 3), dtype=np.int64)


def _ego_blocks(triangles: Integers, n: int) -> tuple[Integers, Any]:
    """Return the centre of each row, and B."""
    from scipy.sparse import csr_array

    orders = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    rows = np.concatenate([triangles[:, c] * n + triangles[:, u] for c, u, _ in orders])
    columns = np.concatenate([triangles[:, c] * n + triangles[:, w] for c, _, w in orders])
    slots, row = np.unique(rows, return_inverse=True)
    column = np.searchsorted(slots, columns)
    ones = np.ones(len(row), dtype=np.int32)
    return slots // n, csr_array((ones, (row, column)), shape=(len(slots), len(slots)))


def _shared(matrix: Any) -> Array:
    """Return Σ P/(1 + P) over each row's nonadjacent pairs."""
    sizes = np.diff(matrix.indptr)
    work = matrix @ sizes
    result = np.zeros(len(sizes))
    for first, last in _groups(work, _PRODUCTS):
        block = matrix[first:last]
        paths = block @ matrix
        direct = paths * block  # P of the adjacent pairs; the diagonal holds the sizes
        result[first:last] = _row_sums(paths) - _row_sums(direct) - _saving(sizes[first:last])
    return result


def _row_sums(paths: Any) -> Array:
    row = np.repeat(np.arange(paths.shape[0]), np.diff(paths.indptr))
    sums = np.bincount(row, _saving(paths.data), minlength=paths.shape[0])
    return np.asarray(sums, dtype=np.float64)


def _saving(paths: Any) -> Array:
    return np.asarray(paths / (1.0 + paths))


def _groups(work: Integers, most: int) -> list[tuple[int, int]]:
    """Return consecutive ranges of rows with total work up to `most`, or of a single row."""
    total = np.cumsum(work)
    ranges, first, spent = [], 0, 0
    while first < len(work):
        last = max(int(np.searchsorted(total, spent + most, side="right")), first + 1)
        ranges.append((first, last))
        first, spent = last, int(total[last - 1])
    return ranges


def _ramp(lengths: Integers) -> Integers:
    """Return the concatenation of 0, 1, …, length − 1 for each length."""
    starts = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
