"""The gateway: what browsers and curl ask over HTTP, it asks an aggregator over gRPC.

It runs in a process of its own, so that nothing that strangers send is parsed where reports are
counted. From the ground up: `ledger` counts what each address costs and holds; `listener` takes
connections; `site` says who may ask for what; `calls`, `pages` and what is mounted answer.
"""

from geoveil.gateway.settings import GatewaySettings
from geoveil.gp import __version__ as __version__

__all__ = ["GatewaySettings"]
