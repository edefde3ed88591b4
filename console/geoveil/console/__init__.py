"""The console: pages on which analysts and operators see, plan and publish surveys.

It hangs on the web door of a server (`geoveil serve --console`), and asks that server through the
same layers as any other client: limits, access by tokens, metrics and log.
"""

from geoveil.console.app import Console
from geoveil.gp.version import __version__ as __version__

__all__ = ["Console"]
