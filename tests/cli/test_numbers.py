"""Test that no number is misread, and that the command asks about doubtful ones."""

import json
from pathlib import Path
from random import Random

from geoveil.cli.numbers import Separators, read, spelled

VECTORS = Path(__file__).parents[2] / "proto" / "vectors" / "numbers.json"
ITEMS = json.loads(VECTORS.read_text())["numbers"]


def locales():
    """Return how numbers are written where."""
    return {
        item["locale"]: Separators(item["decimal"], item["group"], item["indian"])
        for item in ITEMS
        if "locale" in item
    }


def test_forty_inputs_in_nine_locales():
    typed = [item for item in ITEMS if "text" in item]
    assert len(typed) >= 40
    assert len(locales()) >= 8
    for item in typed:
        for locale, written in locales().items():
            sure = locale in item["sure"]
            expected = item["numbers"][-1:] if sure else item["numbers"]
            assert read(item["text"], written, "dollar") == (expected, sure), (item, locale)


def test_what_a_locale_writes_is_read_there_and_nowhere_as_another_number():
    """Numbers by chance, written as each locale does, and read in each: right, or asked about.

    With three decimals and thousands, 1,234 is one number here and another there: between locales
    only numbers without three decimals are compared.
    """
    draw = Random(5)
    places = locales()
    asked = 0
    for _ in range(200):
        whole, decimals = draw.randrange(10 ** draw.randint(1, 9)), draw.choice([0, 0, 1, 2, 4])
        part = "".join(draw.choices("0123456789", k=decimals))
        meant = float(f"{whole}.{part or 0}")
        for home in places.values():
            text = written_as(whole, part, home)
            for away in places.values():
                numbers, sure = read(text, away)
                assert meant in numbers, (text, away)
                assert sure <= (numbers == [meant]), (text, home, away)
                asked += not sure
                if home == away:
                    doubtful = len(part) == 3 or (not part and home.group in ".," and sure is False)
                    assert sure or doubtful, (text, home)
    assert asked > 100  # a reader that trusts whatever it sees would have been wrong that often


def written_as(whole, part, home):
    text = str(whole)
    sizes = [3] + ([2] * 9 if home.indian else [3] * 9)
    groups = []
    for size in sizes:
        if text:
            groups.append(text[-size:])
            text = text[:-size]
    return home.group.join(reversed(groups)) + (home.decimal + part if part else "")


def test_numbers_are_spelled():
    told = [item for item in ITEMS if "spelled" in item]
    assert len(told) >= 10
    for item in told:
        assert spelled(item["number"]) == item["spelled"]
