"""The gateway: turns HTTP requests of browsers and curl into gRPC calls to an aggregator.

It is a separate process, so that strangers' bytes are not parsed where reports are counted. From
the ground up: `ledger` counts what each address costs and holds; `listener` takes connections;
`site` says who may ask for what; `calls`, `pages` and what is mounted answer.
"""

from geoveil.gateway.settings import GatewaySettings
from geoveil.gp import __version__ as __version__

__all__ = ["GatewaySettings"]
