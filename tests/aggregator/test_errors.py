import grpc
import pytest

from geoveil.aggregator.diagnostics import traceback_without_values
from geoveil.aggregator.errors import CATALOGUE, Code, Row, ServiceError, public
from geoveil.gp import GeoVeilError, ParameterError, UnsupportedError


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_row_with_a_real_status_and_a_text(code: Code) -> None:
    row = CATALOGUE[code]
    assert row.status in grpc.StatusCode.__members__
    assert row.status not in ("OK", "UNKNOWN")
    assert row.text
    assert public(ServiceError(code)) == row


def test_catalogue_has_no_row_without_a_code() -> None:
    assert set(CATALOGUE) == set(Code)


def test_detail_of_a_service_error_stays_in_the_process() -> None:
    error = ServiceError(Code.STORE_UNAVAILABLE, "disk full at /srv/x")
    assert "/srv/x" in str(error)
    assert "/srv/x" not in public(error).text
    assert isinstance(error, GeoVeilError)


def test_domain_errors_are_invalid_arguments_with_their_own_text() -> None:
    assert public(ParameterError("confidence", 2.0, "a number in (0, 1)")) == Row(
        "INVALID_ARGUMENT", "confidence must be a number in (0, 1), got confidence=2.0"
    )
    assert public(UnsupportedError("no proof")) == Row("INVALID_ARGUMENT", "no proof")


def test_anything_else_is_internal_and_says_nothing() -> None:
    assert public(KeyError("4711")) == Row("INTERNAL", "internal error")


def test_texts_fit_a_header() -> None:
    # At most 12 bytes per character once UTF-8 is percent-encoded; headers end at 8 KiB.
    text = public(ParameterError("title", "\N{PILE OF POO}" * 100_000, "one line")).text
    assert text.startswith("title must be one line, got title=")
    assert 12 * len(text) < 8192


def test_tracebacks_name_the_places_and_never_the_values() -> None:
    def inner() -> None:
        raise ValueError("secret 4711")

    def outer() -> None:
        try:
            inner()
        except ValueError as error:
            raise RuntimeError("secret 4712") from error

    with pytest.raises(RuntimeError) as caught:
        outer()
    text = traceback_without_values(caught.value)
    assert "in inner" in text
    assert "in outer" in text
    assert "builtins.ValueError" in text
    assert "builtins.RuntimeError" in text
    # The source line is shown, as in any traceback; what it evaluated to is not.
    assert "secret" not in text.replace('"secret 4711"', "").replace('"secret 4712"', "")
