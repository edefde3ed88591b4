"""What a campaign asks of a device's processor, told from its bytes before anything else.

Both parts count: a campaign is read and checked when it is fetched, and again by the first
`contribute` of a process, and every contribution draws its answers.

    reading   60 for each question, 250 more for a polygon and 640 for the table of a profile,
              1 for every 2 bytes of the questions;
              700 for each table of probabilities, 1 for every 12 bytes of the tables
    drawing   80 for each answer, 300 by a table; 100 more for a polygon and 1,200 for the table of
              a profile, and 1 for every 10 bytes of either

They are microseconds of one processor of about 3 GHz, rounded up from measurements of every kind
of question and mechanism. No clock is asked: what one device refuses, all refuse.
"""

from dataclasses import dataclass

from geoveil.proto.v1 import campaign_pb2 as pb

_READ_QUERY = {
    "threshold": 60,
    "range": 60,
    "two_way_threshold": 60,
    "disc": 60,
    "gaussian_kernel": 60,
    "polygon": 310,
    "radial": 700,
    "linear": 700,
}
_DRAWN_QUERY = {"polygon": 100, "radial": 1200, "linear": 1200}
_DRAWN_ANSWER = {
    "debiased_laplace": 80,
    "lipschitz_laplace": 80,
    "smooth": 80,
    "planar_laplace": 80,
    "channels": 300,
}
_DEAREST = max(*_READ_QUERY.values(), *_DRAWN_ANSWER.values())


@dataclass(frozen=True, slots=True)
class Demand:
    """What a campaign asks of a device."""

    queries: int
    """Questions; 0 of a value campaign."""
    work: int
    """Microseconds of a processor, at most, to read the campaign and draw one report."""

    @classmethod
    def of(cls, campaign: bytes) -> "Demand":
        """Return what a serialised Campaign asks.

        Args:
            campaign: anything; whether it is sound is not looked at.

        Raises:
            DecodeError: if it is no message.
        """
        message = pb.Campaign.FromString(campaign)
        drawn = [_drawn(message, query) for query in message.queries]
        if not drawn:
            work = _answer(message) * message.mechanism.planar_laplace.dimension
        elif message.allocation == pb.ALLOCATION_PARTITION:
            work = max(drawn)
        else:
            work = sum(drawn)
        tables = 700 * len(message.mechanism.channels.per_query)
        read = sum(map(_read, message.queries)) + tables + message.mechanism.ByteSize() // 12
        return cls(len(message.queries), read + work)


def _read(query: pb.Query) -> int:
    fixed = _READ_QUERY.get(query.WhichOneof("kind") or "", _DEAREST)
    return fixed + query.ByteSize() // 2


def _drawn(campaign: pb.Campaign, query: pb.Query) -> int:
    more = _DRAWN_QUERY.get(query.WhichOneof("kind") or "", 0)
    return _answer(campaign) + (more + query.ByteSize() // 10 if more else 0)


def _answer(campaign: pb.Campaign) -> int:
    return _DRAWN_ANSWER.get(campaign.mechanism.WhichOneof("kind") or "", _DEAREST)
