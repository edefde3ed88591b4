"""Test the limits of a form's fields and escapes, which cost processor time."""

import pytest

from geoveil.console.http import RefusedError, form_of

_FORM = "application/x-www-form-urlencoded"


def test_two_hundred_fields_are_read_and_one_more_is_refused():
    fields = form_of(_FORM, b"&".join(b"a%d=%%25" % n for n in range(200)))
    assert fields == {f"a{n}": ["%"] for n in range(200)}
    with pytest.raises(RefusedError, match="too many fields"):
        form_of(_FORM, b"&".join([b"a=1"] * 201))


@pytest.mark.parametrize("content", [b"a=%", b"a=%2", b"a=%zz", b"%" * 4096])
def test_a_percent_sign_that_begins_no_escape_is_refused(content):
    """Each would take as long to split off as a field."""
    with pytest.raises(RefusedError, match="%25"):
        form_of(_FORM, content)
