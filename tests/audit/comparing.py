"""The rows of an audit whose reports differ from their density, or may."""

from geoveil.audit.agreement import DensityComparison, compare


def differing(cases, *, samples: int, seed: int) -> tuple[DensityComparison, ...]:
    compared = compare(cases, samples=samples, seed=seed)
    assert len(compared) == len({(case.name, case.query) for case in cases})
    return tuple(row for row in compared if not row.agrees)
