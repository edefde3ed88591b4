"""How many fields a form may have: each takes time of the process that answers."""

import pytest

from geoveil.console.http import RefusedError, form_of

_FORM = "application/x-www-form-urlencoded"


def test_two_hundred_fields_are_read_and_one_more_is_refused() -> None:
    fields = form_of(_FORM, b"&".join(b"a%d=%%25" % n for n in range(200)))
    assert fields == {f"a{n}": ["%"] for n in range(200)}
    with pytest.raises(RefusedError, match="too many fields"):
        form_of(_FORM, b"&".join([b"a=1"] * 201))
