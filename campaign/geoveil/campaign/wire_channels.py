"""Channels on the wire and back."""

from collections.abc import Sequence
from functools import partial
from itertools import chain

from geoveil.campaign.channel import MOST_CHANNELS, ChannelSpec, require_size, require_sizes
from geoveil.campaign.wire_queries import within
from geoveil.gp import Channel, ParameterError
from geoveil.gp.mechanisms.channel_grid import Grid
from geoveil.gp.mechanisms.channel_table import Table
from geoveil.proto.v1 import campaign_pb2 as pb


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
    grid = Grid(tuple(message.edges), tuple(message.cells))
    table = Table(tuple(message.outputs), _rows(message.counts, grid.rows, len(message.outputs)))
    return Channel(grid, table, message.step_exponent, message.absolute)


def _rows(counts: Sequence[int], rows: int, outputs: int) -> tuple[tuple[int, ...], ...]:
    if len(counts) != rows * outputs:
        raise ParameterError("number of counts", len(counts), f"{rows} times {outputs}")
    return tuple(tuple(counts[i : i + outputs]) for i in range(0, len(counts), outputs))
