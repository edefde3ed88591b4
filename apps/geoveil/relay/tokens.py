"""Tokens by which a person has one report, as a device gets them and sends them.

Nothing of a token has to be kept. What blinds it is made of a secret of the device and the id of
the report, which the journal has before anything is sent: a device that crashes asks its issuer the
very same again, and gets the very same answer.
"""

import hashlib
import hmac
import os
import time
from pathlib import Path

from geoveil.campaign import TokenRule, decode, digest
from geoveil.client import Transport, TransportError
from geoveil.gp import ParameterError
from geoveil.proto.v1 import collector_pb2
from geoveil.relay.binary_http import MessageInvalid
from geoveil.relay.blind_rsa import SALT_BYTES, blind, unblind
from geoveil.relay.web import WebAddress

SECRET = "token.secret"  # noqa: S105 - the name of its file
REQUEST_TYPE, RESPONSE_TYPE = (
    "application/private-token-request",
    "application/private-token-response",
)
_SECRET_BYTES = 32
_REFUSALS = (401, 403, 404, 409)
"""What no other try mends."""


class TokenTransport(Transport):
    """Gets a token for each report whose campaign asks for one, and sends it along.

    Args:
        transport: carries reports, and fetches campaigns.
        issuer: URL of the campaign's issuer; https:// unless it is on this machine.
        credential: what the issuer knows this person by, such as an invitation code.
        state_dir: the directory of the client, where the secret is kept, or made.
        root_certificates: PEM of the authorities to trust of the issuer; None: the system's.

    Raises:
        ParameterError: if the issuer is no URL, or the secret can't be kept.
        PlaintextRefused: if it is elsewhere and has no TLS.
    """

    gives_tokens = True

    def __init__(
        self,
        transport: Transport,
        *,
        issuer: str,
        credential: str,
        state_dir: str | os.PathLike[str],
        root_certificates: bytes | None = None,
    ) -> None:
        if not (isinstance(credential, str) and credential.isascii() and credential.isprintable()):
            raise ParameterError("credential", "(not shown)", "printable characters of ASCII")
        self._transport = transport
        self._credential = credential
        self._issuer = WebAddress("issuer", issuer, root_certificates)
        self._secret = _secret_in(Path(state_dir))
        self._rules: dict[bytes, TokenRule | None] = {}
        self.operator = getattr(transport, "operator", None)

    def get_campaign(
        self, request: collector_pb2.GetCampaignRequest, timeout_s: float
    ) -> collector_pb2.GetCampaignResponse:
        return self._transport.get_campaign(request, timeout_s)

    def submit_reports(
        self, request: collector_pb2.SubmitReportsRequest, timeout_s: float
    ) -> collector_pb2.SubmitReportsResponse:
        end = time.monotonic() + timeout_s
        rule = self._rule(request, end)
        if rule is not None:
            with_tokens = collector_pb2.SubmitReportsRequest()
            with_tokens.CopyFrom(request)
            for report in with_tokens.reports:
                report.token = self._token(rule, report.report_id, end)
            request = with_tokens
        return self._transport.submit_reports(request, _left(end))

    def _rule(self, request: collector_pb2.SubmitReportsRequest, end: float) -> TokenRule | None:
        """Return what a token must be of the campaign that reports are for."""
        if request.campaign_digest not in self._rules:
            wanted = collector_pb2.GetCampaignRequest(campaign_id=request.campaign_id)
            campaign = self._transport.get_campaign(wanted, _left(end)).envelope.campaign
            if digest(campaign) != request.campaign_digest:
                raise TransportError("FAILED_PRECONDITION", "the campaign has another digest")
            self._rules[request.campaign_digest] = TokenRule.of(decode(campaign))
        return self._rules[request.campaign_digest]

    def _token(self, rule: TokenRule, report_id: bytes, end: float) -> bytes:
        """Return the token for a report."""
        key, message = rule.key, rule.message(report_id)
        salt = self._made(b"salt", message, SALT_BYTES)
        # So many bits more than the modulus has that what is left is uniform, but for 2^-128.
        modulus = int.from_bytes(key, "big")
        factor = int.from_bytes(self._made(b"blind", message, len(key) + 16), "big") % modulus
        try:
            content = blind(key, message, salt, factor)
        except MessageInvalid as error:
            raise TransportError("FAILED_PRECONDITION", str(error)) from None
        head = {"Content-Type": REQUEST_TYPE, "Authorization": f"Bearer {self._credential}"}
        named = message[-32:].hex()
        truncated = bytes([0, 2]) + message[-1:]
        answer = self._issuer.ask("POST", truncated + content, head, end, f"/{named}")
        if answer.status != 200:
            code = "PERMISSION_DENIED" if answer.status in _REFUSALS else "UNAVAILABLE"
            text = f"the issuer gives no token: status {answer.status}"
            raise TransportError(code, text, retry_after_s=answer.retry_after_s)
        token = unblind(key, answer.content, factor)
        if len(answer.content) != len(key) or not rule.is_sound(report_id, token):
            raise TransportError("DATA_LOSS", "the issuer answered with no token")
        return token

    def _made(self, label: bytes, message: bytes, size: int) -> bytes:
        """Return bytes that are random to whoever has not the secret, always the same."""
        keyed = hmac.digest(self._secret, label + message, "sha256")
        return hashlib.shake_256(keyed).digest(size)


def _left(end: float) -> float:
    left_s = end - time.monotonic()
    if left_s <= 0:
        raise TransportError("DEADLINE_EXCEEDED", "no time is left")
    return left_s


def _secret_in(folder: Path) -> bytes:
    """Return the secret of a device, made and on the disk if there was none."""
    path = folder / SECRET
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            beside = folder / f"{SECRET}.{os.getpid()}.{os.urandom(4).hex()}"
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(beside, path)  # unless another process was faster
            except FileExistsError:
                pass
            finally:
                beside.unlink()
            directory = os.open(folder, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        secret = path.read_bytes()
    except OSError as error:
        raise ParameterError("state_dir", str(folder), f"usable ({error.strerror})") from error
    if len(secret) != _SECRET_BYTES:
        raise ParameterError("state_dir", str(folder), f"with {SECRET} as it was made")
    return secret
