"""Test that the error catalogue is complete, and that callers learn only its texts."""

import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from geoveil.aggregator.domain.errors import Code, ServiceError, public, traceback_without_values
from geoveil.aggregator.grpc.middleware import trailing_metadata
from geoveil.campaign import SignatureInvalid
from geoveil.gp import ParameterError, UnsupportedError


def test_the_protocol_page_lists_the_catalogue():
    page = Path(__file__).parents[2] / "docs" / "protocol.md"
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([A-Z_]+)` \|", page.read_text(), flags=re.MULTILINE)
    assert rows == [
        (code.name, code.value.status) for code in sorted(Code, key=lambda code: code.name)
    ]


def test_the_detail_of_a_service_error_stays_in_the_process():
    error = ServiceError(Code.TOO_FEW_REPORTS, "at /srv/x", told="every query needs 100 answers")
    assert "/srv/x" in str(error)
    assert public(error).text == f"{error.code.value.text}: {error.told}"


def test_domain_errors_are_invalid_arguments_with_their_own_text():
    told = public(ParameterError("confidence", 2.0, "a number in (0, 1)"))
    assert told.status == "INVALID_ARGUMENT"
    assert told.text == "confidence must be a number in (0, 1), got confidence=2.0"
    assert told.violation == ("confidence", "a number in (0, 1)")
    told = public(UnsupportedError("no proof"))
    assert (told.code, told.text, told.violation) == (Code.INVALID_ARGUMENT, "no proof", None)
    told = public(SignatureInvalid("it is too short"))
    assert (told.code, told.status) == (Code.SIGNATURE_INVALID, "INVALID_ARGUMENT")
    assert "too short" in told.text


def test_anything_else_is_internal_and_says_nothing():
    told = public(KeyError("4711"))
    assert (told.code, told.text, told.violation) == (Code.INTERNAL, "internal error", None)


def details_of(error: Exception) -> tuple[Status, dict[str, Any]]:
    ((key, value),) = trailing_metadata(public(error))
    assert key == "grpc-status-details-bin"
    status = Status.FromString(value)
    found: dict[str, Any] = {}
    for packed in status.details:
        for kind in (ErrorInfo, RetryInfo, BadRequest):
            message = kind()
            if packed.Unpack(message):
                found[kind.DESCRIPTOR.name] = message
    assert len(found) == len(status.details)
    return status, found


@pytest.mark.parametrize("code", Code)
def test_callers_learn_the_text_of_a_code_and_when_to_come_back(code):
    row, told = code.value, public(ServiceError(code))
    assert row.text
    assert row.status not in ("OK", "UNKNOWN")
    assert (told.code, told.status, told.text, told.retry_after_s) == (code, *row)
    status, details = details_of(ServiceError(code))
    assert (status.code, status.message) == (grpc.StatusCode[row.status].value[0], row.text)
    assert (details["ErrorInfo"].reason, details["ErrorInfo"].domain) == (code.name, "geoveil")
    # A full server says when to come back; what can't succeed never does.
    assert ("RetryInfo" in details) is (row.status in {"RESOURCE_EXHAUSTED", "UNAVAILABLE"})


def test_details_name_the_field_and_the_delay():
    _, details = details_of(ParameterError("page_size", -1, "an integer from 0 to 1,000"))
    (violation,) = details["BadRequest"].field_violations
    assert (violation.field, violation.description) == (
        "page_size",
        "must be an integer from 0 to 1,000",
    )
    _, details = details_of(ServiceError(Code.RATE_LIMITED, retry_after_s=12.5))
    assert details["RetryInfo"].retry_delay.ToMilliseconds() == 12_500


def test_errors_fit_the_headers():
    """At most 12 bytes per character once percent-encoded, 4/3 for binary; 8 KiB in all."""
    pile = "\N{PILE OF POO}" * 100_000
    error = ParameterError(pile, pile, pile)
    told = public(error)
    ((_, value),) = trailing_metadata(told)
    assert len(told.text) > 250
    assert 12 * len(told.text) + 4 * len(value) / 3 < 8000
    text = public(ParameterError("title", pile, "one line")).text
    assert text.startswith("title must be one line, got title=")


def test_tracebacks_name_the_places_and_never_the_values():
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
