"""An audit of mechanisms as one report: the audited rows, and whether all results are right."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from geoveil.audit import verdict as verdicts_of
from geoveil.audit.agreement import DensityComparison, compare
from geoveil.audit.case import Case
from geoveil.audit.catalogue import catalogue, named
from geoveil.audit.faults import faults
from geoveil.audit.own import OwnSelection, keeps, mechanisms_in, own_cases, selections_in
from geoveil.audit.verdict import FAILURE_PROBABILITY, Verdict, pair_count
from geoveil.gp import ParameterError


@dataclass(frozen=True, kw_only=True)
class AuditRequest:
    """The rows to audit: of the library, of its faults, or of a user's file.

    Raises:
        ParameterError: if a file is audited together with the faults.
    """

    mechanism: str | None = None
    """The only mechanism to audit; None for all."""
    module: Path | None = None
    """A Python file of mechanisms, which is run."""
    faults: bool = False
    """Whether to audit faulty mechanisms and histories, all of which must be caught."""
    samples: int = 100_000
    """Reports per point of a pair."""
    seed: int = 1

    def __post_init__(self) -> None:
        if self.module is not None and self.faults:
            raise ParameterError("--module", str(self.module), "without --faults")

    def rows(self) -> tuple[Sequence[Case], Mapping[str, OwnSelection]]:
        """Return the mechanisms that answer queries, and those that select.

        Raises:
            ParameterError: if none has the name.
        """
        if self.module is None:
            if not self.faults:
                return catalogue(self.mechanism), {}
            return faults() if self.mechanism is None else named(faults(), self.mechanism), {}
        selecting = selections_in(self.module, needed=False)
        cases = own_cases(mechanisms_in(self.module, needed=not selecting))
        if self.mechanism is None:
            return cases, selecting
        if self.mechanism in selecting:
            return (), {self.mechanism: selecting[self.mechanism]}
        return named(cases, self.mechanism), {}

    def audited(
        self, cases: Sequence[Case], selecting: Mapping[str, OwnSelection]
    ) -> "AuditReport":
        """Return the report of rows."""
        how: Any = {"samples": self.samples, "seed": self.seed}
        return AuditReport(
            request=self,
            pairs=pair_count(cases),
            verdicts=verdicts_of.audit(cases, **how) if cases else (),
            selected={name: own.audited() for name, own in selecting.items()},
            compared=() if self.module is None else compare(cases, **how),
        )


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The result of an audit."""

    request: AuditRequest
    pairs: int
    """The number of pairs of points, at which all bounds hold simultaneously."""
    verdicts: Sequence[Verdict]
    selected: Mapping[str, float] = field(default_factory=dict)
    """Selection mechanism → the largest part of its ε that was used."""
    compared: Sequence[DensityComparison] = ()
    """Comparisons of the draws of a user's mechanisms with their densities."""

    @property
    def sound(self) -> bool:
        """Whether every promise is kept; for faults, whether each was caught."""
        rows = all(verdict.keeps != self.request.faults for verdict in self.verdicts)
        return rows and all(map(keeps, self.selected.values())) and not self.disagreeing

    @property
    def disagreeing(self) -> list[DensityComparison]:
        """Rows of a user's mechanism whose draws do not follow their density, or may not."""
        return [row for row in self.compared if not row.agrees]

    def disagreement(self, verdict: Verdict) -> DensityComparison | None:
        """Return the comparison of a row whose draws do not follow their density, or may not."""
        row = (verdict.mechanism, verdict.query)
        return next((x for x in self.disagreeing if (x.mechanism, x.query) == row), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        request = self.request
        record: dict[str, Any] = {
            "faults": request.faults,
            "samples": request.samples,
            "seed": request.seed,
            "pairs": self.pairs,
            "failure_probability": FAILURE_PROBABILITY,
            "rows": [verdict.to_dict() for verdict in self.verdicts],
        }
        if request.module is not None:
            record["compared"] = [asdict(comparison) for comparison in self.compared]
        if self.selected:
            record["selections"] = [
                {"mechanism": name, "found": epsilon, "keeps": keeps(epsilon)}
                for name, epsilon in self.selected.items()
            ]
        return record
