"""What a simulation at scale asks, of whom, and how its estimates are written down."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from geoveil.campaign import Attribute, Campaign, Question, StatisticCampaign
from geoveil.gp import GeoPrivacy, ParameterError, Query, Threshold, TwoWayThreshold
from geoveil.gp.estimation import Accumulator, Estimate
from geoveil.simulation.populations import People

_SHIPPED = ("incomes", "income-and-debt", "places")
_OPENS = datetime(2026, 1, 1, tzinfo=UTC)
"""A campaign's dates are part of what is simulated; today's would not let a run be resumed."""


def threshold_asked(
    population: str,
    threshold: float,
    *,
    epsilon: float,
    per: float,
    values: Sequence[str] = (),
    weights: str | None = None,
) -> tuple[StatisticCampaign, People]:
    """Return a campaign for the share above a threshold, and who takes part in it.

    Args:
        population: "incomes"; "income-and-debt", where both are to be above; a file (.csv or
            .parquet); or "places", which ask the questions of the demonstration instead.
        threshold: in the unit of the values.
        epsilon: ε of the promise to two values that are `per` apart.
        per: a distance, in the unit of the values.
        values: of a file: one or two columns that members hold.
        weights: of a file: column that says how many a row stands for.

    Raises:
        ParameterError: if there is no such population, or a column is missing.
    """
    from geoveil.simulation.demo import experiments
    from geoveil.simulation.populations import Population, household_incomes, incomes_and_debts
    from geoveil.simulation.populations.table import FORMATS

    if population in _SHIPPED and (values or weights):
        raise ParameterError("population", population, "a file if columns of one are named")
    if population == "places":
        places = experiments(_OPENS)[1]
        return places.campaign, places.population
    people: People
    if population == "incomes":
        people = household_incomes()
    elif population == "income-and-debt":
        people = incomes_and_debts()
    else:
        path = Path(population)
        if path.suffix not in FORMATS:
            known = ", ".join((*_SHIPPED, *FORMATS))
            raise ParameterError("population", population, f"one of {known}, the last of files")
        if not 1 <= len(values) <= 2:
            raise ParameterError("value", [*values], "the name of one or two columns of the file")
        people = Population.from_file(path, values=values, weights=weights)
    privacy = GeoPrivacy(epsilon, per, people.unit)
    width = 3 / privacy.rate
    query: Query = (
        Threshold(threshold, width, "smoothstep")
        if people.dimension == 1
        else TwoWayThreshold((threshold, threshold), width, "smoothstep")
    )
    campaign = StatisticCampaign(
        campaign_id="simulated",
        title=f"Share above {threshold:,.15g}",
        attribute=Attribute(name="value", unit=people.unit),
        privacy=privacy,
        questions=(Question(f"above {threshold:,.15g}", query),),
        opens=_OPENS,
        closes=_OPENS + timedelta(days=1),
    )
    return campaign, people


def estimate_record(
    campaign: Campaign, label: str, truth: float | None, sums: Accumulator, got: Estimate
) -> dict[str, object]:
    """Return what JSON can hold of an estimate: ε with its unit, sums exactly.

    Args:
        campaign: that was asked.
        label: of the query.
        truth: of all who might take part; None if it is not known.
        sums: of the reports.
        got: the estimate from them.
    """
    return {
        "campaign_id": campaign.campaign_id,
        "name": label,
        "truth": truth,
        "estimate": got.value,
        "standard_error": got.standard_error,
        "confidence": got.confidence,
        "ci_low": got.ci_low,
        "ci_high": got.ci_high,
        "n": got.n,
        # Exact, and beyond 64 bits, so as text.
        "total": str(sums.total),
        "total_of_squares": str(sums.total_of_squares),
        "step_exponent": campaign.grid_exponent,
        "epsilon": campaign.report_privacy.epsilon,
        "per": campaign.report_privacy.per,
        "unit": campaign.report_privacy.unit,
    }
