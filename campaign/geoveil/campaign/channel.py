"""Channels in campaigns: tables that travel, and are checked by whoever draws by them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Self

from geoveil.campaign.families import MechanismSpec
from geoveil.campaign.queries import within
from geoveil.gp import Channel, ChannelMechanism, GeoPrivacy, ParameterError, Query, QueryMechanism
from geoveil.gp.mechanisms.channel import ProbabilityTable
from geoveil.gp.mechanisms.channel_spline import SplineGrid
from geoveil.proto.v1 import campaign_pb2 as pb

MOST_CHANNELS = 64
MOST_SEGMENTS = 16
MOST_ROWS = 256
MOST_OUTPUTS = 256
"""What a device may be asked to check. Planned channels have 1 to 7 segments, 18 to 160 rows and 50
to 75 outputs."""


@dataclass(frozen=True, slots=True, repr=False)
class ChannelSpec(MechanismSpec):
    """A `ChannelMechanism` for each query: a table of probabilities, in the order of the queries.

    The tables are in the campaign, so that no device has to solve anything. Nor does it have to
    trust them: a campaign is not made, here or on a device, unless every table keeps the privacy of
    an answer, decided in integers.

    Args:
        channels: one per query, in order, 1 to 64.

    Raises:
        ParameterError: if there are none or too many, or one has more than 16 segments, 256 rows or
            256 outputs.

    Example:
        >>> from geoveil.gp import LinearProgramMechanism, Threshold
        >>> q, p = Threshold(at=100_000, width=16_000), GeoPrivacy(epsilon=1.0, per=8000.0)
        >>> spec = ChannelSpec.of(LinearProgramMechanism(q, p, quick=True))
        >>> spec
        ChannelSpec(18 x 51)
        >>> spec.build(q, p).unbiased
        True
    """

    channels: tuple[Channel, ...]

    def __post_init__(self) -> None:
        require_size("number of channels", len(self.channels), MOST_CHANNELS)
        for channel in self.channels:
            if not isinstance(channel, Channel):
                raise ParameterError("channels", channel, "each a Channel")
            require_sizes(channel.grid.counts, len(channel.table.outputs))

    @classmethod
    def of(cls, *mechanisms: ChannelMechanism) -> Self:
        """Return what a campaign says of mechanisms that were solved or planned, one per query.

        They are to be made for what one answer spends: in a campaign that splits ε over m queries,
        for ε/m; about places, for the privacy in the plane.

        Args:
            mechanisms: one per query, in their order; a `LinearProgramMechanism` is one.
        """
        for mechanism in mechanisms:
            if not isinstance(mechanism, ChannelMechanism):
                raise ParameterError("mechanism", mechanism, "a ChannelMechanism")
        return cls(tuple(mechanism.channel for mechanism in mechanisms))

    def each(self, queries: int) -> Sequence[MechanismSpec]:
        if queries != len(self.channels):
            raise ParameterError(
                "number of channels", len(self.channels), f"{queries}, one per query"
            )
        return [type(self)((channel,)) for channel in self.channels]

    def joined(self, others: Sequence[MechanismSpec]) -> MechanismSpec:
        specs = [self, *(other for other in others if isinstance(other, ChannelSpec))]
        return ChannelSpec(tuple(channel for spec in specs for channel in spec.channels))

    def build(self, query: Query, privacy: GeoPrivacy, step: float | None = None) -> QueryMechanism:
        if len(self.channels) != 1:
            raise ParameterError("number of channels", len(self.channels), "1 for one query")
        return ChannelMechanism(query, privacy, self.channels[0], step=step)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{c.grid.rows} x {len(c.table.outputs)}" for c in self.channels)
        return f"ChannelSpec({sizes})"


def require_sizes(counts: Sequence[int], outputs: int) -> None:
    """Refuse a channel that is too large to be checked, before anything is made of it.

    Args:
        counts: number of cells of each segment.
        outputs: how many.
    """
    require_size("number of segments", len(counts), MOST_SEGMENTS)
    require_size("number of rows", sum(counts) + len(counts) + 1, MOST_ROWS)
    require_size("number of outputs", outputs, MOST_OUTPUTS)


def require_size(name: str, size: int, most: int) -> None:
    """Refuse a number that is not from 1 to `most`."""
    if not 1 <= size <= most:
        raise ParameterError(name, size, f"1 to {most}")


def encode_channels(spec: ChannelSpec) -> pb.Channels:
    """Return channels as they are written in a campaign."""
    return pb.Channels(per_query=map(_encode, spec.channels))


def decode_channels(message: pb.Channels) -> ChannelSpec:
    """Return the channels of a campaign. Sizes are checked before anything is computed.

    Raises:
        ParameterError: naming the field, its value and what is permitted.
    """
    require_size("number of channels", len(message.per_query), MOST_CHANNELS)
    return ChannelSpec(
        tuple(
            within(f"per_query[{i}]", partial(_decode, channel))
            for i, channel in enumerate(message.per_query)
        )
    )


def _encode(channel: Channel) -> pb.Channel:
    return pb.Channel(
        edges=channel.grid.edges,
        cells=channel.grid.counts,
        absolute=channel.even,
        step_exponent=channel.step_exponent,
        outputs=channel.table.outputs,
        counts=chain.from_iterable(channel.table.rows),
    )


def _decode(message: pb.Channel) -> Channel:
    require_sizes(message.cells, len(message.outputs))
    grid = SplineGrid(tuple(message.edges), tuple(message.cells))
    table = ProbabilityTable(
        tuple(message.outputs), _rows(message.counts, grid.rows, len(message.outputs))
    )
    return Channel(grid, table, message.step_exponent, message.absolute)


def _rows(counts: Sequence[int], rows: int, outputs: int) -> tuple[tuple[int, ...], ...]:
    if len(counts) != rows * outputs:
        raise ParameterError("number of counts", len(counts), f"{rows} times {outputs}")
    return tuple(tuple(counts[i : i + outputs]) for i in range(0, len(counts), outputs))
