"""A campaign whose questions are answered by one vector, from the command to the estimates."""

import random

import numpy as np
import pytest

from geoveil.analyst import Analyst
from geoveil.campaign import Allocation
from geoveil.client import Client, GrpcTransport, Limit, Policy
from geoveil.gp import GeoPrivacy, LaplacePareto, ParameterError, RandomSource

RATE = GeoPrivacy(1.0, 8_000.0, "dollar")
POLICY = Policy({"household income": Limit(campaign=RATE, lifetime=RATE)})
ASKED = [
    "--attribute", "household income", "--unit", "dollar", "--epsilon", "1", "--per", "8000",
    "--allocation", "vector",
]  # fmt: skip
PEOPLE, WIDTH = 1_000, 16_000.0
AT = 40_000.0 * np.arange(1, 11)


class Seeded(RandomSource):
    """Bits by a seed, so that whether the bounds below hold is no matter of chance."""

    is_secure = True

    def __init__(self, seed):
        self._random = random.Random(seed)

    def bits(self, count):
        return self._random.getrandbits(count) if count else 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--threshold", "60000", "--threshold", "100000"], "DebiasedLaplaceSpec"),
        (["--threshold", "60000", "--mechanism", "smooth"], "2 to 100 in a vector"),
    ],
)
def test_what_a_vector_cannot_hold_is_refused_by_the_command(geoveil, more, told):
    with pytest.raises(ParameterError, match=told):
        geoveil("campaign", "create", "Lines", *ASKED, *more)


@pytest.mark.deep(rest=0)
def test_a_thousand_devices_answer_by_vectors(geoveil, server):
    """n = 1,000 people and 10,000 answers; 3 standard errors, and 5 % of the closed form.

    The noise of all answers of a person is (B(x)/η)·Z, with η the rate and B of the ramps, which
    do not overlap, e^{−βd}/w at the distance d to the nearest band; β = 0.3·rate/10. Heavy tails
    are cut at 6 scales on both sides of the comparison, so that its standard error is 2 %.
    """
    ramps = [f"threshold:at={at:.0f},width={WIDTH:.0f},profile=linear" for at in AT]
    lines = [word for ramp in ramps for word in ("--query", ramp)]
    geoveil("campaign", "create", "Ten lines", *ASKED, *lines, "--mechanism", "smooth")
    rng = np.random.default_rng(35)
    incomes = np.exp(rng.normal(11.6, 0.9, PEOPLE))
    answers = np.empty((PEOPLE, len(AT)))
    transport = GrpcTransport(server)
    for i, income in enumerate(incomes.tolist()):
        with Client(
            policy=POLICY,
            transport=transport,
            source=Seeded(i),
            background=False,
            release_floor_s=0.0,
        ) as client:
            campaign = client.fetch("ten-lines")
            receipt = client.contribute("ten-lines", income)
            assert client.flush().acknowledged == 1
            assert str(receipt.privacy) == "ε = 1 per 8000 dollar"
        answers[i] = [answer.value for answer in receipt.answers]
    assert campaign.allocation is Allocation.VECTOR
    with Analyst(server) as analyst:
        shown = analyst.estimate("ten-lines", 0.95)
    asked = [question.query for question in campaign.questions]
    soft = np.stack([query.value(incomes) for query in asked], axis=-1)
    answers *= 2.0**campaign.grid_exponent
    assert [e.n for e in shown.estimates] == [PEOPLE] * len(AT)
    assert shown.privacy == RATE
    away = np.abs(incomes[:, None] - AT) - WIDTH / 2
    nearest = np.maximum(away.min(axis=1), 0.0)
    scale = np.exp(-0.3 * RATE.rate / len(AT) * nearest) / WIDTH / RATE.rate
    noise = LaplacePareto(1.0, 0.3)
    for j, found in enumerate(shown.estimates):
        assert found.value == pytest.approx(answers[:, j].mean(), rel=1e-9)
        error = np.sqrt(np.mean(scale**2) * noise.variance / PEOPLE)
        assert abs(found.value - soft[:, j].mean()) <= 3 * error
        closed = campaign.mechanisms[j].variance(incomes)
        assert closed == pytest.approx(scale**2 * noise.variance, rel=1e-9)
    z = np.linspace(-6.0, 6.0, 120_001)
    inside = np.trapezoid(z**2 * np.exp(noise.logpdf(z)), z)
    expected = inside + 36 * 2 * float(noise.survival(6.0))

    def squared(of_noise):
        return np.mean(np.minimum(np.abs(answers - soft) / of_noise, 6.0) ** 2)

    assert squared(scale[:, None]) == pytest.approx(expected, rel=0.05)
    alone = np.exp(-0.3 * RATE.rate / len(AT) * np.maximum(away, 0.0)) / WIDTH / RATE.rate
    assert squared(alone) > 1.2 * expected, "the control: each answer with a bound of its own"
    # Errors of the answers of one person do not go together, and the answers do.
    errors = np.clip((answers - soft) / scale[:, None], -6, 6)
    together = np.corrcoef(errors.T)[np.triu_indices(len(AT), 1)]
    assert np.abs(together).max() <= 4 / np.sqrt(PEOPLE)
