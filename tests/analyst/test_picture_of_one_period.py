"""Test that a curve of one point, as in a campaign's first period, is visible."""

import numpy as np
import pytest

from geoveil.analyst.pictures import draw_curve


@pytest.mark.parametrize("count", [1, 2])
def test_every_point_of_a_curve_is_drawn(count):
    at, values = np.arange(count, dtype=float), np.full(count, 0.5)
    axes = draw_curve(None, "a curve", ("days", "mean"), at, values, (values - 0.1, values + 0.1))
    (line,) = axes.get_lines()
    assert (line.get_marker() in ("", "None")) == (count > 1)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "band of the whole curve",
        "estimate",
    ]
