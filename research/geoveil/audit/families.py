"""Check the record of a family: its parts, its wire form, and the guarantees that it builds."""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

from geoveil.campaign import FAMILY_NAME, Example, Family, MechanismFamily
from geoveil.gp import UnsupportedError
from geoveil.proto.v1 import campaign_pb2 as pb


def missing(family: Family) -> list[str]:
    """Return sentences on missing parts of a family's record.

    Each example is written and read, and must build a mechanism with the stated guarantee.
    """
    lacks = []
    if not FAMILY_NAME.fullmatch(family.name):
        lacks.append("a name of lower-case letters, digits and '-'")
    if not family.summary:
        lacks.append("a summary for the documents")
    if family.wire is None and not is_dataclass(family.made):
        lacks.append(f"a wire form: {family.made.__name__} is not a dataclass")
    examples = family.examples()
    if not examples and not getattr(family, "of_points", False):
        lacks.append("examples, for the audit")
    if isinstance(family, MechanismFamily) and not family.planned:
        lacks.append("what the planner tries: planned")
    return lacks + [fault for e in examples for fault in _faults(family, e)]


def _faults(family: Family, example: Example) -> Iterator[str]:
    if isinstance(family, MechanismFamily):
        for planned in family.planned:
            for options in planned.options:
                yield from _faults_of_mechanism(family, example, options)
    elif not family.is_of(example.query):
        yield f"{example.query!r} is not of the family"
    else:
        yield from _faults_of_wire(family, example.query, pb.Query)


def _faults_of_mechanism(
    family: MechanismFamily, example: Example, options: Mapping[str, float]
) -> Iterator[str]:
    declared = family.make(options)
    yield from _faults_of_wire(family, declared, pb.Mechanism)
    try:
        built = declared.build(example.query, example.privacy)
    except UnsupportedError:
        return
    if built.privacy != example.privacy:
        yield f"{built!r} states {built.privacy}, where {example.privacy} was asked for"
    if declared.build(example.query, example.privacy, built.step / 2).step != built.step / 2:
        yield f"{declared!r} does not build on the grid that it is given"


def _faults_of_wire(
    family: Family, value: object, message: type[pb.Query | pb.Mechanism]
) -> Iterator[str]:
    again = family.decode(message(**family.encode(value)))
    if again != value:
        yield f"{value!r} is read as {again!r}"
