"""Campaigns that carry channels: what comes back, and what no device would draw by."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from geoveil.audit.exact import exact_rate
from geoveil.campaign import (
    Allocation,
    Attribute,
    ChannelSpec,
    Question,
    StatisticCampaign,
    decode,
    encode,
)
from geoveil.gp import (
    ChannelMechanism,
    DebiasedLaplace,
    Disc,
    GaussianKernel,
    GeoPrivacy,
    GeoVeilError,
    LinearProgramMechanism,
    ParameterError,
    RandomSource,
    Range,
    SeededSource,
    Threshold,
    UnsupportedError,
)
from geoveil.gp.coordinates import AzimuthalEquidistant
from geoveil.proto.v1 import campaign_pb2 as pb

PRIVACY = GeoPrivacy(1.0, per=8000.0, unit="dollar")
RAMP = Threshold(100_000, 16_000)
STEP = Threshold(100_000, 16_000, "smoothstep")
BETWEEN = Range(30_000, 60_000, 16_000, "smoothstep")
BELL = GaussianKernel((0.0, 0.0), 8000.0)
QUERIES = {"ramp": RAMP, "step": STEP, "between": BETWEEN, "bell": BELL}
TOTAL = 1 << 60


@cache
def solved(query, epsilon=1.0):
    return LinearProgramMechanism(query, GeoPrivacy(epsilon, 8000.0, "dollar"), quick=True)


def campaign(*queries, epsilon=1.0, **changes):
    fields = {
        "campaign_id": "channel",
        "title": "Above a line",
        "attribute": Attribute(name="household income", unit="dollar"),
        "privacy": PRIVACY,
        "questions": tuple(Question(f"q{i}", query) for i, query in enumerate(queries)),
        "mechanism": ChannelSpec.of(*(solved(query, epsilon) for query in queries)),
        "opens": datetime(2026, 1, 1, tzinfo=UTC),
        "closes": datetime(2027, 1, 1, tzinfo=UTC),
    }
    return StatisticCampaign(**(fields | changes))


def line(query, s):
    """Points at signed distances s from what a query asks for."""
    s = np.asarray(s)
    if query is BELL:
        return np.stack([np.abs(s), 0 * s], axis=-1)
    return 100_000 + s if query in (RAMP, STEP) else 30_000 + s


# --- there and back --------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_a_channel_comes_back_bit_for_bit(name):
    query = QUERIES[name]
    asked = campaign(query)
    again = decode(encode(asked))
    assert again == asked
    (mechanism,) = again.mechanisms
    (outputs,) = again.outputs
    planned = solved(query)
    assert type(mechanism) is ChannelMechanism
    assert mechanism.channel == planned.channel
    assert again.grid_exponent == planned.step_exponent == -20
    assert again.ranges == (planned.grid_range,)
    assert outputs == set(planned.outputs)
    x = line(query, np.linspace(-20_000, 20_000, 41))
    assert mechanism.mean(x).tolist() == planned.mean(x).tolist()
    assert mechanism.variance(x).tolist() == planned.variance(x).tolist()
    assert mechanism.bias_bound == planned.bias_bound
    for seed in range(8):
        at = line(query, 1000.0 * seed)
        assert mechanism.release(at, SeededSource(seed)) == planned.release(at, SeededSource(seed))


def test_the_mean_is_what_was_planned_and_the_ramp_has_no_bias():
    ramp, step = campaign(RAMP).mechanisms[0], campaign(STEP).mechanisms[0]
    assert ramp.unbiased
    assert not step.unbiased
    assert 0 < step.bias_bound <= 1e-3
    x = np.linspace(60_000, 140_000, 8001)
    assert np.abs(step.mean(x) - STEP.value(x)).max() <= step.bias_bound + 1e-15
    # A mechanism that has no bound on its bias, and one without bias, say so.
    assert DebiasedLaplace(STEP, PRIVACY).bias_bound == 0


def test_typical_messages_are_small():
    """6 to 8 kB: docs/protocol.md names these sizes."""
    assert all(6_000 < len(encode(campaign(query))) < 8_000 for query in QUERIES.values())


def test_several_queries_have_a_channel_each():
    asked = campaign(RAMP, STEP, BETWEEN)
    again = decode(encode(asked))
    assert again == asked
    for mechanism, query in zip(again.mechanisms, (RAMP, STEP, BETWEEN), strict=True):
        assert mechanism.query is not query
        assert mechanism.query == query
        assert mechanism.channel == solved(query).channel
    assert repr(asked.mechanism).startswith("ChannelSpec(18 x 51, 18 x 51, ")


def test_each_is_held_to_what_one_answer_spends():
    half = campaign(RAMP, STEP, allocation=Allocation.SPLIT, epsilon=0.5)
    assert [m.privacy.exact_rate for m in half.mechanisms] == [Fraction(1, 16_000)] * 2
    # Channels for all of ε keep no half of it; those for a half keep all of it.
    with pytest.raises(ParameterError, match="ratio of rows"):
        campaign(RAMP, STEP, allocation=Allocation.SPLIT)
    assert campaign(RAMP, STEP, epsilon=0.5).ranges == half.ranges
    for allocation in (Allocation.PARTITION, Allocation.REPEAT):
        assert decode(encode(campaign(RAMP, STEP, allocation=allocation))).columns == 2


def test_places_are_held_to_the_privacy_of_the_plane():
    plane = AzimuthalEquidistant(-73.98, 40.72, 60_000)
    metres = GeoPrivacy(1.0, per=500.0, unit="metre")
    query = GaussianKernel((0.0, 0.0), 500.0)
    fields = {
        "attribute": Attribute(name="location", unit="metre", coordinates=plane),
        "privacy": metres,
    }
    inside = LinearProgramMechanism(query, plane.privacy(metres), quick=True)
    asked = campaign(query, mechanism=ChannelSpec.of(inside), **fields)
    assert decode(encode(asked)) == asked
    careless = LinearProgramMechanism(query, metres, quick=True)
    with pytest.raises(ParameterError, match="ratio of rows"):
        campaign(query, mechanism=ChannelSpec.of(careless), **fields)


def test_the_grid_may_be_finer_than_the_outputs_and_no_coarser():
    plain, finer = campaign(RAMP), campaign(RAMP, step_exponent=-24)
    assert decode(encode(finer)) == finer
    assert finer.ranges[0] == tuple(16 * k for k in plain.ranges[0])
    assert finer.outputs[0] == {16 * k for k in plain.outputs[0]}
    mechanism = finer.mechanisms[0]
    assert mechanism.atoms == plain.mechanisms[0].atoms
    assert mechanism.release(1e5, SeededSource(1)) in finer.outputs[0]
    with pytest.raises(ParameterError, match="step must be at most 2\\^-20"):
        campaign(RAMP, step_exponent=-19)


# --- privacy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_the_auditor_finds_no_more_than_epsilon_in_a_decoded_campaign(name):
    query = QUERIES[name]
    (mechanism,) = decode(encode(campaign(query))).mechanisms
    start = 0.0 if query is BELL else -56_000.0
    path = line(query, np.linspace(start, 56_000.0, 7001))
    finding = exact_rate(mechanism, path, mechanism.atoms)
    assert 0.98 <= finding.rate * 8000.0 <= 1 + 1e-9


def least(a, b, c):
    """The least value on [0, 1] of the quadratic with Bernstein coefficients a, b, c, exactly."""
    ends = min(a, c)
    bend, slope = a - 2 * b + c, 2 * (b - a)
    if bend > 0 and 0 < -slope < 2 * bend:
        return min(ends, a - Fraction(slope * slope) / (4 * bend))
    return ends


def keeps_everywhere(channel, rate):
    """Whether |∂P/∂s| ≤ rate·P for every output at every s, decided in fractions."""
    grid, rows = channel.grid, channel.table.rows
    row = 0
    for i, count in enumerate(grid.counts):
        width = (Fraction(grid.edges[i + 1]) - Fraction(grid.edges[i])) / count
        for k in range(count):
            for p, q, r in zip(*rows[row + k : row + k + 3], strict=True):
                a = Fraction(p) if k == 0 else Fraction(p + q, 2)
                c = Fraction(r) if k == count - 1 else Fraction(q + r, 2)
                # Degree 2 for P and, raised from degree 1, for its slope in θ.
                slope = (2 * (q - a), c - a, 2 * (c - q))
                for sign in (1, -1):
                    parts = (
                        rate * width * b - sign * d for b, d in zip((a, q, c), slope, strict=True)
                    )
                    if least(*parts) < 0:
                        return False
        row += count + 1
    return True


@pytest.mark.parametrize("name", ["ramp", "bell"])
def test_every_probability_keeps_epsilon_at_every_s(name):
    """Oracle: each column's quadratics in fractions, not the theorem. Control: 0.98 ε."""
    channel = decode(encode(campaign(QUERIES[name]))).mechanisms[0].channel
    assert keeps_everywhere(channel, Fraction(1, 8000))
    assert not keeps_everywhere(channel, Fraction(98, 100) * Fraction(1, 8000))


def law_in_fractions(mechanism, s):
    """The distribution at a rational s: the table's interpolation, written once more."""
    channel = mechanism.channel
    s = abs(s) if channel.even else s
    edges = [Fraction(edge) for edge in channel.grid.edges]
    s = min(max(s, edges[0]), edges[-1])
    row = 0
    for low, high, count in zip(edges, edges[1:], channel.grid.counts, strict=False):
        if s <= high:
            place = (s - low) / (high - low) * count
            k = min(int(place), count - 1)
            t = place - k
            left = (1 - t) ** 2 * (1 if k == 0 else Fraction(1, 2))
            right = t**2 * (1 if k == count - 1 else Fraction(1, 2))
            shares = (left, 1 - left - right, right)
            rows = channel.table.rows[row + k : row + k + 3]
            return [
                sum(w * n for w, n in zip(shares, column, strict=True)) / TOTAL
                for column in zip(*rows, strict=True)
            ]
        row += count + 1
    raise AssertionError


class Chosen(RandomSource):
    """The first 128 binary digits of U as a test chose them, then zeros."""

    def __init__(self, digits):
        self.digits = digits

    def bits(self, count):
        digits, self.digits = self.digits, 0
        return digits


@pytest.mark.deep(keep=17)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("s", [-1e9, -12_345.678, -0.1, 0.0, 500.0, 2999.5, 8000.0, 77_777.0])
def test_a_release_has_exactly_the_law_of_the_table(name, s):
    """All of it: a release is a step function of U, and the steps are where the law has them.

    Just below every sum of probabilities, by 2^-127 at most, comes the output before it; just above
    it the one after. So each output has its probability, but for 2^-126.
    """
    query = QUERIES[name]
    (mechanism,) = decode(encode(campaign(query))).mechanisms
    at = (s, 0.0) if query is BELL else 100_000 + s if query in (RAMP, STEP) else 30_000 + s
    if query is BELL:
        exact = abs(Fraction(s))
    elif query is BETWEEN:
        exact = min(Fraction(at) - 30_000, 60_000 - Fraction(at))
    else:
        exact = Fraction(at) - 100_000
    law = law_in_fractions(mechanism, exact)
    assert sum(law) == 1
    total = Fraction(0)
    for before, after, p in zip(mechanism.outputs, mechanism.outputs[1:], law, strict=False):
        total += p
        floor = math.floor(total * 2**128)
        assert mechanism.release(at, Chosen(floor - 1)) == before
        assert mechanism.release(at, Chosen(floor + 1)) == after


# --- what is refused -------------------------------------------------------------------------


def test_one_count_too_many_is_refused_and_one_fewer_is_not():
    """The smallest breach that integers can have: by 2^-60 of probability, in one entry."""
    asked = campaign(RAMP)
    channel = asked.mechanisms[0].channel
    first, second = channel.table.rows[:2]
    ratio = channel.grid.ratios(PRIVACY.exact_rate)[0]
    tight = [i for i in range(len(first)) if first[i] > 0.9999 * ratio * second[i]]
    column = min(tight, key=first.__getitem__)
    largest = max(range(len(first)), key=lambda i: first[i] if i != column else 0)
    most = math.floor(ratio * second[column])
    for count, holds in ((most, True), (most + 1, False)):
        message = pb.Campaign.FromString(encode(asked))
        counts = message.mechanism.channels.per_query[0].counts
        counts[largest] += counts[column] - count
        counts[column] = count
        content = message.SerializeToString(deterministic=True)
        if holds:
            assert decode(content).mechanisms[0].channel != channel
            continue
        with pytest.raises(ParameterError, match=r"ratio of rows 0 and 1 must be at most 1\.06"):
            decode(content)


def changed(change):
    message = pb.Campaign.FromString(encode(campaign(RAMP)))
    change(message, message.mechanism.channels.per_query[0])
    return message.SerializeToString(deterministic=True)


def set_at(field, index, value):
    def change(message, channel):
        getattr(channel, field)[index] = value

    return change


def without_channels(message, channel):
    del message.mechanism.channels.per_query[:]


def twice(message, channel):
    message.mechanism.channels.per_query.append(channel)


def sixty_five(message, channel):
    message.mechanism.channels.per_query.extend([channel] * 64)


def more_segments(message, channel):
    channel.edges.extend(channel.edges[-1] + i for i in range(1, 17))
    channel.cells.extend([1] * 16)


def more_outputs(message, channel):
    channel.outputs.extend(range(10**9, 10**9 + 300))


def less_privacy(message, channel):
    message.privacy.epsilon = 0.9999


def another_query(message, channel):
    message.queries[0].threshold.width = 40_000


def absolute(message, channel):
    channel.absolute = True


def absolute_from_zero(message, channel):
    channel.absolute = True
    low = channel.edges[0]
    channel.edges[:] = [edge - low for edge in channel.edges]


def no_counts(message, channel):
    del channel.counts[:]


def one_count_fewer(message, channel):
    del channel.counts[-1]


def swapped_counts(message, channel):
    channel.counts[0], channel.counts[30] = channel.counts[30], channel.counts[0]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (set_at("counts", 0, 0), r"per_query\[0\]\.rows\[0\] must be 51 counts > 0"),
        (set_at("counts", 5, 2**64 - 1), r"per_query\[0\]\.rows\[0\]"),
        (set_at("counts", 51, 1), r"rows\[1\] must be 51 counts > 0 that add up to 2\^60"),
        (swapped_counts, "ratio of rows 0 and 1 must be at most"),
        (no_counts, r"number of counts must be 18 times 51"),
        (one_count_fewer, r"number of counts must be 18 times 51"),
        (set_at("cells", 0, 2**32 - 1), r"number of rows must be 1 to 256, got .*4294967297"),
        (set_at("cells", 0, 0), r"counts must be integers >= 1"),
        (set_at("cells", 0, 17), r"number of counts must be 19 times 51"),
        (more_segments, r"number of segments must be 1 to 16"),
        (more_outputs, r"number of outputs must be 1 to 256"),
        (set_at("edges", 0, math.nan), r"edges must be increasing numbers"),
        (set_at("edges", 1, math.nan), r"edges must be increasing numbers"),
        (set_at("edges", 1, math.inf), r"edges must be increasing numbers"),
        (set_at("edges", 1, -1e9), r"edges must be increasing numbers"),
        (set_at("edges", 1, -8000 * (1 - 2**-52)), r"counts must be so few"),
        (set_at("edges", 1, 1e90), r"too coarse for the guarantee"),
        (set_at("edges", 1, 7999.0), r"ratio of rows 0 and 1"),
        (set_at("outputs", 1, -1_572_864), r"outputs must be increasing"),
        (set_at("outputs", 0, 2**40), r"outputs must be increasing"),
        (set_at("outputs", 0, -(2**63)), "fit into 64 bits"),
        (set_at("outputs", 0, -(2**40)), "bias of the channel must be at most 0.1"),
        (lambda m, c: setattr(c, "step_exponent", 1), r"step_exponent must be an integer"),
        (lambda m, c: setattr(c, "step_exponent", -201), r"step_exponent must be an integer"),
        (lambda m, c: setattr(m.grid, "step_exponent", -3), "step must be at most"),
        (without_channels, r"number of channels must be 1 to 64"),
        (sixty_five, r"number of channels must be 1 to 64, got .*65"),
        (twice, r"number of channels must be 1, one per query"),
        (less_privacy, "ratio of rows 0 and 1 must be at most"),
        (another_query, r"bias of the channel must be at most 0\.1"),
        (absolute, r"edges\[0\] must be 0"),
        (absolute_from_zero, r"channel must be one on s"),
    ],
)  # fmt: skip
def test_hostile_channels_are_refused(change, match):
    with pytest.raises(GeoVeilError, match=match):
        decode(changed(change))


def test_control_the_unchanged_channel_is_taken():
    assert decode(changed(lambda message, channel: None)) == campaign(RAMP)


def test_channels_of_no_campaign_are_refused():
    with pytest.raises(ParameterError, match="ChannelMechanism"):
        ChannelSpec.of(DebiasedLaplace(STEP, PRIVACY))
    with pytest.raises(ParameterError, match="number of channels must be 1 to 64"):
        ChannelSpec(())
    with pytest.raises(ParameterError, match="channels must be each a Channel"):
        ChannelSpec(("table",))
    with pytest.raises(ParameterError, match="1 for one query"):
        ChannelSpec.of(solved(RAMP), solved(STEP)).build(RAMP, PRIVACY)
    with pytest.raises(ParameterError, match="number of channels must be 1, one per query"):
        replace(campaign(RAMP), mechanism=ChannelSpec.of(solved(RAMP), solved(STEP)))
    with pytest.raises(ParameterError, match="channel must be a Channel"):
        ChannelMechanism(RAMP, PRIVACY, solved(RAMP))
    with pytest.raises(UnsupportedError, match="too coarse"):
        ChannelMechanism(RAMP, GeoPrivacy(17.0, 8000.0, "dollar"), solved(RAMP).channel)


@pytest.mark.deep
def test_no_plan_makes_a_channel_that_a_campaign_can_not_hold():
    wide = LinearProgramMechanism(Threshold(0, 16_000 * 18), PRIVACY, quick=True)
    assert wide.channel.grid.rows <= 256


def test_a_disc_keeps_its_corner_free_profile_and_recurs():
    query = Disc((0.0, 0.0), 20_000.0, 16_000.0)
    asked = campaign(
        query,
        mechanism=ChannelSpec.of(solved(query)),
        period=timedelta(days=30),
        minimum_participants=5,
    )
    assert decode(encode(asked)) == asked
