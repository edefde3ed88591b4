"""Fresh connections to a bare grpc.aio server: the cost of TLS by kind of key.

The floor is the same without TLS. Only the server's processor time counts.
"""

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from benchmarks.serving import ECHO, served
from benchmarks.timing import Figure, show
from geoveil.aggregator.ops.authority import Authority, Issued

CONNECTIONS, ROUNDS = 200, 3
_DAY = timedelta(days=1)


def table() -> list[Figure]:
    """Print milliseconds of the server's processor time per connection with one call."""
    contestants: dict[str, Callable[[], Issued] | None] = {
        "without TLS": None,
        "P-256 (geoveil certificate)": issued,
        "RSA of 4,096 bits": _rsa,
    }
    costs = {name: _cost(make and make()) for name, make in contestants.items()}
    return show("fresh connections", "ms per connection", 1e3, costs, "without TLS")


def _cost(made: Issued | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        files = () if made is None else files_of(made, Path(folder))
        with served("echo", *files) as server:
            costs = []
            for _ in range(1 + ROUNDS):
                before = server.processor_s()
                for _ in range(CONNECTIONS):
                    _connect(server.address, made)
                costs.append((server.processor_s() - before) / CONNECTIONS)
    return min(costs[1:])


def files_of(made: Issued, folder: Path) -> tuple[str, str]:
    """Write a certificate and its key, and return their files."""
    certificate, key = folder / "server.pem", folder / "server-key.pem"
    certificate.write_bytes(made.certificate)
    key.write_bytes(made.key)
    return str(certificate), str(key)


def _connect(address: str, made: Issued | None) -> None:
    options: list[tuple[str, object]] = [("grpc.use_local_subchannel_pool", 1)]
    if made is None:
        channel = grpc.insecure_channel(address, options)
    else:
        credentials = grpc.ssl_channel_credentials(made.certificate)
        options.append(("grpc.ssl_target_name_override", "localhost"))
        channel = grpc.secure_channel(address, credentials, options)
    with channel:
        channel.unary_unary(ECHO)(b"", timeout=20)


def issued() -> Issued:
    """Return a certificate for "localhost" from a new authority, made as by the command."""
    authority = Authority(Authority.create("benchmark", 2 * _DAY))
    made = authority.issue("server", _DAY, ["localhost"])
    return Issued(made.certificate + authority.certificate, made.key)


def _rsa() -> Issued:
    """Return a self-signed certificate for the same name, with an RSA key."""
    like = x509.load_pem_x509_certificate(issued().certificate)
    key = rsa.generate_private_key(65_537, 4_096)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(like.subject)
        .issuer_name(like.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(like.not_valid_before_utc)
        .not_valid_after(like.not_valid_after_utc)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Issued(signed.public_bytes(Encoding.PEM), pem)
