"""What a campaign asks of a device's processor, told from its bytes before anything else.

Both parts count: a campaign is read and checked when it is fetched, and again by the first
`contribute` of a process, and every contribution draws its answers.

    reading   60 for each question, 250 more for a polygon and 640 for the table of a profile,
              1 for every 2 bytes of the questions;
              700 for each table of probabilities, 1 for every 12 bytes of the tables
    drawing   80 for each answer, 300 by a table; 100 more for a polygon and 1,200 for the table of
              a profile, and 1 for every 10 bytes of either

They are microseconds of one processor of about 3 GHz, rounded up from measurements of every kind
of question and mechanism; a family of another package says its own, 700 and 1,200 of a question
and 300 of a mechanism unless it knows better (`geoveil.campaign.Work`). No clock is asked: what one
device refuses, all refuse.
"""

from dataclasses import dataclass

from geoveil.campaign import MECHANISMS, QUERIES
from geoveil.proto.v1 import campaign_pb2 as pb


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
            ParameterError: if a question or the mechanism is of no kind.
            NotInstalled: if it is of a family that no package here provides.
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
    return QUERIES.named_by(query).work.read + query.ByteSize() // 2


def _drawn(campaign: pb.Campaign, query: pb.Query) -> int:
    more = QUERIES.named_by(query).work.drawn
    return _answer(campaign) + (more + query.ByteSize() // 10 if more else 0)


def _answer(campaign: pb.Campaign) -> int:
    return MECHANISMS.named_by(campaign.mechanism).work.drawn
