"""Test keys of a gateway: signatures, expiry, and succession."""

import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from geoveil.campaign import SigningKey
from geoveil.gp import ParameterError
from geoveil.relay import GatewayKeys, KeyUnknown, MessageInvalid, PublishedKey
from geoveil.relay.encapsulation import seal_request

OPERATOR = SigningKey.generate()
DAY = timedelta(days=1)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1.8e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "relay.keys"


def test_a_key_that_its_operator_signed_is_read_from_what_is_published(
    file: Path, clock: Clock
) -> None:
    made = GatewayKeys.rotate(file, OPERATOR, DAY, clock)
    published = GatewayKeys(file, clock).published()
    assert published == made
    read = PublishedKey.read(made.configuration, made.signed, OPERATOR.public, clock())
    assert read == made
    # RFC 9458, appendix A, has the same form but for its list of two: length, id, KEM, key, pairs.
    assert made.configuration.hex() == (f"0029{made.key_id:02x}0020{made.public.hex()}000400010001")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_is_not_signed_by_the_operator_is_refused(file: Path, clock: Clock) -> None:
    made = GatewayKeys.rotate(file, OPERATOR, DAY, clock)
    other = SigningKey.generate()
    for key, signed, operator in (
        (made, made.signed, other.public),
        (replace(made, public=bytes([9] * 32)), made.signed, OPERATOR.public),
        (made, replace(made, expires=made.expires + 1).signed, OPERATOR.public),
        (made, replace(made, serial=made.serial + 256).signed, OPERATOR.public),
    ):
        with pytest.raises(MessageInvalid, match="is not signed by ed25519:"):
            PublishedKey.read(key.configuration, signed, operator, clock())
    for content, signed in ((b"", made.signed), (made.configuration, ""), (b"x" * 50, "1 2 %")):
        with pytest.raises(MessageInvalid, match="not a signed key of a gateway"):
            PublishedKey.read(content, signed, OPERATOR.public, clock())


def test_a_signature_of_a_campaign_signs_no_key(file: Path, clock: Clock) -> None:
    made = GatewayKeys.rotate(file, OPERATOR, DAY, clock)
    forged = replace(made, signature=OPERATOR.sign(made._statement))
    with pytest.raises(MessageInvalid, match="is not signed"):
        PublishedKey.read(forged.configuration, forged.signed, OPERATOR.public, clock())


def test_a_key_ends(file: Path, clock: Clock) -> None:
    made = GatewayKeys.rotate(file, OPERATOR, DAY, clock)
    keys = GatewayKeys(file, clock)
    sealed = seal_request(made.key_id, made.public, b"x")[0]
    clock.now += 86_400
    with pytest.raises(MessageInvalid, match="has expired"):
        PublishedKey.read(made.configuration, made.signed, OPERATOR.public, clock())
    with pytest.raises(KeyUnknown):
        keys.published()
    with pytest.raises(KeyUnknown):
        keys.open(sealed)


def test_the_key_before_still_opens_and_the_one_before_that_no_more(
    file: Path, clock: Clock
) -> None:
    keys, made = None, []
    for _ in range(3):
        made.append(GatewayKeys.rotate(file, OPERATOR, DAY, clock))
        keys = keys or GatewayKeys(file, clock)  # the same one, which reads the file again
        clock.now += 60
    assert keys is not None
    assert [key.serial - made[0].serial for key in made] == [0, 1, 2]
    assert keys.published() == made[-1]
    for key in made[1:]:
        assert keys.open(seal_request(key.key_id, key.public, b"x")[0])[0] == b"x"
    with pytest.raises(KeyUnknown, match="key other than the gateway's"):
        keys.open(seal_request(made[0].key_id, made[0].public, b"x")[0])
    assert len(file.read_text().splitlines()) == 2


def test_a_file_that_breaks_leaves_the_keys_in_use(file: Path, clock: Clock) -> None:
    with pytest.raises(ParameterError, match=r"relay_keys .*geoveil relay rotate"):
        GatewayKeys(file, clock)
    made = GatewayKeys.rotate(file, OPERATOR, DAY, clock)
    keys = GatewayKeys(file, clock)
    secret = file.read_text().split()[0]
    file.write_text("other\n")
    assert keys.published() == made
    with pytest.raises(ParameterError) as caught:
        GatewayKeys(file, clock)
    assert "other" not in str(caught.value)
    assert secret not in repr(keys._live)
