"""The gateway: turns HTTP requests of browsers and curl into gRPC calls to an aggregator.

It is a separate process, so that strangers' bytes are not parsed where reports are counted. From
the ground up: `ledger` counts each address's cost and memory; `listener` accepts connections;
`site` decides access; `calls`, `pages` and mounts answer requests.
"""

from geoveil.gateway.settings import GatewaySettings
from geoveil.gp import __version__ as __version__

__all__ = ["GatewaySettings"]
