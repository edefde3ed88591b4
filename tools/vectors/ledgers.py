"""Sequences of answers to limits, and whether each is permitted."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from geoveil.client.errors import BudgetExceeded
from geoveil.client.ledger import Telling, check
from geoveil.client.limits import Limit, Window
from geoveil.gp import GeoPrivacy
from tools.vectors.chance import OPENS


class _Answers:
    """A history of answers in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[datetime, str, GeoPrivacy]] = []

    def spendings(self, *, campaign_id: str | None = None) -> Counter[GeoPrivacy]:
        return Counter(
            privacy for _, campaign, privacy in self.kept if campaign_id in (None, campaign)
        )

    def tellings(self, *, after: datetime | None) -> Iterator[Telling]:
        for when, _, privacy in self.kept:
            if after is None or when > after:
                yield Telling(privacy=privacy, last=when)

    def used(self, campaign_id: str, epoch: datetime) -> bool:
        return False


def ledger_vectors() -> list[dict[str, Any]]:
    """Return sequences of answers to limits, and whether each is permitted."""
    draw, found = Random(7), []
    for index in range(16):
        slack = 1e-6 if index >= 12 else 0.0  # the last ones also have a δ
        per = draw.choice([8_000.0, 500.0, 0.1])
        each = draw.choice([0.1, 1 / 3, 1.0])

        def limit(
            times: float, per: float = per, each: float = each, slack: float = slack
        ) -> GeoPrivacy:
            distance = per * draw.choice([1.0, 2.0])
            return GeoPrivacy(each * times, distance, "unit", slack * times)

        windows = [
            Window(limit=limit(draw.uniform(1, 4)), length=timedelta(days=draw.randint(1, 60)))
            for _ in range(draw.randint(0, 2))
        ]
        lifetime = draw.choice([None, limit(draw.randint(3, 9))])
        allowed = Limit(
            campaign=limit(3.0), lifetime=lifetime or "unbounded", windows=tuple(windows)
        )
        history, now, operations = _Answers(), OPENS, []
        for _ in range(12):
            now += timedelta(seconds=draw.choice([0, 60, 86_400, 86_400 * draw.randint(1, 30)]))
            campaign = draw.choice(["a", "b", "c"])
            cost = each * draw.choice([1, 1, 1, 0.5, 2])
            asked = GeoPrivacy(cost, per, "unit", slack and slack * draw.choice([0.3, 1, 1.7]))
            told: dict[str, Any] = {"at_us": us(now), "campaign": campaign, **pair(asked)}
            try:
                check(asked, allowed, history, campaign_id=campaign, attribute="x", now=now)
                history.kept.append((now, campaign, asked))
                told["verdict"] = "permitted"
            except BudgetExceeded as error:
                told |= {"verdict": "refused", "spent": error.spent}
                if slack:
                    told["spent_delta"] = error.spent_delta
                told["frees_us"] = error.frees and us(error.frees)
            operations.append(told)
        limits = {
            "campaign": pair(allowed.campaign),
            "lifetime": lifetime and pair(lifetime),
            "windows": [{**pair(w.limit), "length_us": us(_EPOCH + w.length)} for w in windows],
        }
        found.append({"limits": limits, "operations": operations})
    return found


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def us(when: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (when - _EPOCH) // timedelta(microseconds=1)


def pair(privacy: GeoPrivacy) -> dict[str, float]:
    """Return a guarantee as it is written in vectors."""
    told = {"epsilon": privacy.epsilon, "per": privacy.per}
    return told | {"delta": privacy.delta} if privacy.delta else told
