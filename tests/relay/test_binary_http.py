"""Test messages of RFC 9292: its examples, invalid bytes, and random round trips."""

from contextlib import suppress

import pytest
from hypothesis import given, settings, strategies as st

from geoveil.relay import MessageInvalid
from geoveil.relay.binary_http import (
    InnerRequest,
    InnerResponse,
    read_request,
    read_response,
    write_request,
    write_response,
)

# RFC 9292: figures 8 and 9, a request with known and with indeterminate lengths, ...
_LINES = (
    "0a757365722d6167656e74346375726c2f372e31362e33206c69626375726c2f372e31362e33204f70656e53534c"
    "2f302e392e376c207a6c69622f312e322e3304686f73740f7777772e6578616d706c652e636f6d0f616363657074"
    "2d6c616e677561676506656e2c206d69"
)
REQUEST = bytes.fromhex("0003474554056874747073000a2f68656c6c6f2e747874406c" + _LINES + "0000")
INDETERMINATE = bytes.fromhex(
    "0203474554056874747073000a2f68656c6c6f2e747874" + _LINES + "00" + 12 * "00"
)
PARSED = InnerRequest(
    b"GET", b"https", b"", b"/hello.txt",
    (
        (b"user-agent", b"curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
        (b"host", b"www.example.com"),
        (b"accept-language", b"en, mi"),
    ),
)  # fmt: skip
# ... figure 11, a response after two informational ones, and 13, one with a trailer.
INFORMED = bytes.fromhex(
    "0340660772756e6e696e670a22736c65657020313522004067046c696e6b233c2f7374796c652e6373733e3b2072"
    "656c3d7072656c6f61643b2061733d7374796c65046c696e6b243c2f7363726970742e6a733e3b2072656c3d7072"
    "656c6f61643b2061733d7363726970740040c804646174651d4d6f6e2c203237204a756c20323030392031323a32"
    "383a353320474d5406736572766572064170616368650d6c6173742d6d6f6469666965641d5765642c203232204a"
    "756c20323030392031393a31353a353620474d5404657461671422333461613338372d642d313536386562303022"
    "0d6163636570742d72616e6765730562797465730e636f6e74656e742d6c656e67746802353104766172790f4163"
    "636570742d456e636f64696e670c636f6e74656e742d747970650a746578742f706c61696e003348656c6c6f2057"
    "6f726c6421204d7920636f6e74656e7420696e636c75646573206120747261696c696e672043524c462e0d0a0000"
)
TRAILED = bytes.fromhex(
    "0140c8001d5468697320636f6e74656e7420636f6e7461696e732043524c462e0d0a0d07747261696c6572047465"
    "7874"
)


@pytest.mark.parametrize(
    "data", [REQUEST, REQUEST[:-2], REQUEST + bytes(9), INDETERMINATE, INDETERMINATE[:-12]]
)
def test_the_request_of_the_standard_is_read(data: bytes) -> None:
    assert read_request(data) == PARSED


def test_the_request_of_the_standard_is_written() -> None:
    assert write_request(PARSED) == REQUEST


@pytest.mark.parametrize("data", [TRAILED, TRAILED + bytes(50)])
def test_the_responses_of_the_standard_are_read(data: bytes) -> None:
    content = b"This content contains CRLF.\r\n"
    assert read_response(data) == InnerResponse(200, (), content)


def test_informational_responses_are_passed_over() -> None:
    read = read_response(INFORMED)
    content = b"Hello World! My content includes a trailing CRLF.\r\n"
    assert (read.status, read.content) == (200, content)
    assert read.fields[0] == (b"date", b"Mon, 27 Jul 2009 12:28:53 GMT")
    assert len(read.fields) == 8


FIELDS = st.lists(st.tuples(st.binary(min_size=1, max_size=70), st.binary(max_size=70)), max_size=4)


@settings(max_examples=50, derandomize=True, deadline=None)
@given(st.lists(st.binary(max_size=70), min_size=4, max_size=4), FIELDS, st.binary(max_size=20_000))
def test_what_is_written_is_read(control: list[bytes], fields: list[tuple[bytes, bytes]],
                                 content: bytes) -> None:  # fmt: skip
    lower = tuple((name.lower(), value) for name, value in fields)
    request = InnerRequest(*control, lower, content)
    assert read_request(write_request(request) + bytes(30)) == request
    response = InnerResponse(503, lower, content)
    assert read_response(write_response(response)) == response


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.binary(max_size=60))
def test_other_bytes_are_refused_by_name_or_read(data: bytes) -> None:
    for read in (read_request, read_response):
        with suppress(MessageInvalid):
            read(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", b"\x04", REQUEST[:30], REQUEST + b"\x01", b"\x01\x40\xc8\x02\x00\x00",
     b"\x01\x40\x64", b"\x01\x01\0", b"\x00\x03GET\x05https\x00\x01/\x03\x01a\x05"],
)  # fmt: skip
def test_broken_messages_are_refused(data: bytes) -> None:
    for read in (read_request, read_response):
        with pytest.raises(MessageInvalid):
            read(data)
