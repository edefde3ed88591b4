"""Whole batches as single parameters: arrays in PostgreSQL's binary format.

An array of the ids and one of the answers, unnested by one INSERT, is as fast as COPY into a
temporary table and an INSERT from there, and needs no table.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar

from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER = Struct(">iiIii")
_LENGTH = Struct(">i")


class _Array:
    """Elements that are bytes already."""

    __slots__ = ("elements",)
    element_type: ClassVar[int]

    def __init__(self, elements: Sequence[bytes]) -> None:
        self.elements = elements

    def __repr__(self) -> str:
        return f"{type(self).__name__}(not shown)"


class UuidArray(_Array):
    """`uuid[]`, of 16 bytes each."""

    element_type = 2950


class BytesArray(_Array):
    """`bytea[]`."""

    element_type = 17


class _ArrayDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: _Array) -> bytes:
        """Return the binary format of one array: a header, then length and bytes of each."""
        elements = obj.elements
        prefix = {size: _LENGTH.pack(size) for size in set(map(len, elements))}
        header = _HEADER.pack(1, 0, obj.element_type, len(elements), 1)
        return header + b"".join([prefix[len(e)] + e for e in elements])


class _UuidArrayDumper(_ArrayDumper):
    oid = 2951


class _BytesArrayDumper(_ArrayDumper):
    oid = 1001


def register(connection: Any) -> None:
    """Let a psycopg connection take these arrays as parameters."""
    connection.adapters.register_dumper(UuidArray, _UuidArrayDumper)
    connection.adapters.register_dumper(BytesArray, _BytesArrayDumper)
