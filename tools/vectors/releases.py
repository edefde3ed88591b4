"""Campaigns, points and bits with the answers: one of each kind, and hard cases."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from geoveil.campaign import (
    Attribute,
    Campaign,
    PlanarLaplaceSpec,
    Question,
    SmoothSpec,
    StatisticCampaign,
    encode,
)
from geoveil.campaign.statistic import Allocation
from geoveil.gp import GeoPrivacy, Threshold
from tools.vectors.chance import one_tuple
from tools.vectors.consent import surveys
from tools.vectors.examples import every_campaign, fine_campaigns, small_campaign
from tools.vectors.tape import Tape, tuple_of

_ID = "0" * 128


def release_vectors() -> list[dict[str, Any]]:
    """Return campaigns with a device's answers for points and bits."""
    draw = Random(2026)
    found = []
    for name, campaign, size in every_campaign():
        cases = [one_tuple(draw, campaign, size, f"{name}/{i}") for i in range(2)]
        found.append(_item(name, campaign, cases))
    for name, campaign, size in fine_campaigns():
        found.append(_item(name, campaign, list(_far_out(draw, name, campaign, size))))
    found += [_item(name, campaign, list(cases)) for name, campaign, cases in _hard()]
    by_ratio = dict(surveys())["points-by-ratio"]  # logarithms, on their own grid
    cases = [one_tuple(draw, by_ratio, 3.0, f"points-by-ratio/{i}") for i in range(2)]
    found.append(_item("points-by-ratio", by_ratio, cases))
    return found


def _item(name: str, campaign: Campaign, cases: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "campaign": encode(campaign).hex(), "cases": cases}


def _given(campaign: Campaign, point: Sequence[float], bits: str) -> dict[str, Any]:
    return tuple_of(campaign, point, Tape("later", bits))


def _far_out(draw: Random, name: str, campaign: Campaign, size: float) -> Iterator[dict[str, Any]]:
    """Yield cases with noise so large that the last digits of its scale show."""
    partition = isinstance(campaign, StatisticCampaign) and not campaign.answers_all
    before = "0" * (campaign.columns - 1).bit_length() * partition + _ID
    for i, zeros in enumerate((3, 30, 66)):
        spread = size * (0.3, 2.0, 9.0)[i]
        point = [draw.gauss(0.0, spread) for _ in range(campaign.dimension)]
        uniform = "0" * zeros + "1" + f"{draw.getrandbits(127 - zeros):0{127 - zeros}b}"
        if i % 2:
            uniform = "".join("10"[int(bit)] for bit in uniform)
        yield _given(campaign, point, before + uniform)


def _hard() -> Iterator[tuple[str, Campaign, Iterator[dict[str, Any]]]]:
    """Yield cases that devices easily get wrong: extreme bits, ends of 64 bits and of draws."""
    plain = small_campaign("hard-bits")
    ends = ("0" * 256, "1" * 256, "1" + "0" * 255, "0" * 200)
    yield "hard-bits", plain, (_given(plain, [100_000.0], _ID + end) for end in ends)
    income = {
        "attribute": Attribute(name="value", unit="unit"),
        "privacy": GeoPrivacy(1.0, 8.0, "unit"),
    }
    for dimension in (1, 2, 3):
        name = f"hard-points-{dimension}"
        campaign = small_campaign(name, **income, mechanism=PlanarLaplaceSpec(dimension))
        many = dimension + (1, 1, 2)[dimension - 1]
        of_each = "01" * 64
        # One number after another is extreme: of the logarithms, only the first needs more bits;
        # of the other numbers, none does.
        tapes = [of_each * i + end + of_each * (many - 1 - i) for i in range(many) for end in _ENDS]
        yield name, campaign, (_given(campaign, [1.5] * dimension, _ID + tape) for tape in tapes)
    questions = tuple(Question(f"q{i}", Threshold(10.0 * i, 16.0)) for i in range(2))
    heavy = small_campaign(
        "hard-overflow",
        **income,
        mechanism=SmoothSpec(0.95),
        questions=questions,
        allocation=Allocation.REPEAT,
        step_exponent=-40,
    )
    # The first answer is undecided, but beyond 64 bits: the second draws from where it ended.
    tapes = ["0" * zeros + "1" + "0" * (127 - zeros) + "10" * 64 for zeros in (100, 120, 127)]
    yield "hard-overflow", heavy, (_given(heavy, [3.0], _ID + tape) for tape in tapes)
    yield from _extremes(income)


def _extremes(income: dict[str, Any]) -> Iterator[tuple[str, Campaign, Iterator[dict[str, Any]]]]:
    """Yield a point so far away, on so fine a grid, that coarse arithmetic would use more bits."""
    far = small_campaign("hard-far", **income, mechanism=PlanarLaplaceSpec(1), step_exponent=-200)
    yield "hard-far", far, (_given(far, [x], _ID) for x in (4e50, -3e-40))
    # The knee of the noise is e to the power of -10^13, too small for the exponent of a double.
    slow = small_campaign("hard-slow", **income, mechanism=SmoothSpec(1e-13), questions=(
        Question("q", Threshold(0.0, 16.0)),
    ))  # fmt: skip
    yield "hard-slow", slow, (_given(slow, [x], _ID) for x in (3.0, 90.0))


_ENDS = ("0" * 128, "1" * 128)
