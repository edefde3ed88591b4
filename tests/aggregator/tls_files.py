"""Certificates for tests, by the authority of `geoveil certificate`."""

from datetime import timedelta
from pathlib import Path

from geoveil.aggregator.ops.authority import Authority, Issued

DAY = timedelta(days=1)


def new_authority(name: str) -> Authority:
    return Authority(Authority.create(name, 2 * DAY))


def for_server(authority: Authority) -> Issued:
    return authority.issue("server", DAY, ["127.0.0.1"])


def for_client(authority: Authority) -> Issued:
    return authority.issue("client", DAY)


def written(issued: Issued, folder: Path, name: str) -> tuple[Path, Path]:
    files = folder / f"{name}.pem", folder / f"{name}-key.pem"
    files[0].write_bytes(issued.certificate)
    files[1].write_bytes(issued.key)
    return files
