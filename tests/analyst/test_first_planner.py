"""No choice errs more than that of the first planner: `python -m benchmarks first_planner`."""

import pytest

from benchmarks import first_planner
from benchmarks.first_planner import Setting

MOST = 1_600_000
ROUNDING = 5e-4


def test_every_setting_has_a_choice_of_the_first_planner():
    """Control: its command took no channel at $55,500, and that is seen by every error."""
    first = first_planner.first()
    assert list(first) == list(first_planner.settings())
    setting = Setting("survey", (55_500.0,), MOST, 1.0)
    chosen = first[setting]
    assert min(first_planner.ratios(setting, chosen["command"], chosen["library"])) > 1.01


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::geoveil.gp.NotPrivateWarning")
@pytest.mark.parametrize(
    "setting",
    [
        Setting("survey", (55_500.0,), MOST, 1.0),
        Setting("half", (30_000.0,), MOST, 1.0),
        Setting("survey", (50_000.0, 100_000.0), 200_000, 0.5),
    ],
    ids=str,
)
def test_no_choice_errs_more_than_the_first_planner(setting: Setting):
    """By the errors that count V/N once and twice; as a library also by the noise alone."""
    before, now = first_planner.first()[setting], first_planner.choices(setting)
    for way in first_planner.WAYS:
        noise, once, twice = first_planner.ratios(setting, now[way], before[way])
        assert max(once, twice) < 1 + ROUNDING
        assert way == "command" or noise < 1 + ROUNDING
