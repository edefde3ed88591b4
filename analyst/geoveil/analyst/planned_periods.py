"""Plan a question for many periods: fresh noise each time, or one reading [MATH §13]."""

import math
from typing import Any

from geoveil.analyst.planning import PlannedQuestion, PlannedQuestions
from geoveil.gp import GeoPrivacy, ParameterError, PlanarLaplace, Query, validation

_MOST = 10_000


def planned_periods(
    planned: PlannedQuestion | PlannedQuestions, periods: int, drift: float = 0.0
) -> dict[str, Any]:
    """Return the cost and the error of answers in many periods, for each way to ask.

    The ways are: fresh noise in every period, at ε each; noise at ε/k in each of k periods; and one
    reading, perturbed once at ε, from which all periods are answered: carried forward, or
    extrapolated from the last two readings. Errors are for the participants: from noise, averaged
    over the prior, and, for carried readings, from the drift since a reading, whose time each
    device draws. The ε of a reading covers any k consecutive periods: a campaign of k meets two
    readings of most devices, as each sets its own epochs.

    Args:
        planned: a plan for one question about numbers, which one perturbed number answers.
        periods: how many there are, k ≥ 2.
        drift: how far the answer, a share, moves in a period.

    Returns:
        `ways`: name, total ε and root mean squared error of an answer in a period, the best for its
        total ε first; `drift_carried` and `drift_split`: the drift up to which carried readings
        have smaller errors than extrapolated ones, and than noise at ε/k.

    Raises:
        ParameterError: if there are several questions, no reading answers the one, or a number is
            out of range.
    """
    if not isinstance(planned, PlannedQuestion):
        raise ParameterError("periods", periods, "left out unless there is one question")
    query, request, n = planned.result.choice.query, planned.request, planned.result.n
    if not isinstance(query, Query) or request.prior.dimension != 1 or not query.nests:
        raise ParameterError(
            "periods", periods, "left out: no perturbed number answers this question"
        )
    if not 2 <= validation.require_count("periods", periods) <= _MOST:
        raise ParameterError("periods", periods, f"a whole number from 2 to {_MOST:,}")
    validation.between("drift", drift, -1, 1)
    privacy = request.privacy

    def noise(epsilon: float) -> float:
        point = PlanarLaplace(GeoPrivacy(epsilon, privacy.per, privacy.unit), 1)
        variance = point.estimator(query, debias=True).variance
        return request.prior.expectation(variance) / n

    fresh, split = noise(privacy.epsilon), noise(privacy.epsilon / periods)
    # The age of a reading is uniform up to all periods; the mean of its square a third.
    moved = (drift * periods) ** 2 / 3
    # ((1 + a)² + a²) of the noise, on average over the age a in epochs.
    extrapolated = 8 / 3 * fresh
    ways = [
        ("one reading, carried", privacy.epsilon, fresh + moved),
        ("one reading, extrapolated", privacy.epsilon, extrapolated),
        ("split", privacy.epsilon, split),
        ("fresh", privacy.epsilon * periods, fresh),
    ]
    ways[:3] = sorted(ways[:3], key=lambda way: way[2])
    return {
        "periods": periods,
        "drift": drift,
        "ways": [
            {"way": name, "epsilon": epsilon, "error": math.sqrt(square)}
            for name, epsilon, square in ways
        ],
        "drift_carried": math.sqrt(3 * (extrapolated - fresh)) / periods,
        "drift_split": math.sqrt(3 * max(split - fresh, 0.0)) / periods,
    }
