"""What stands between the network and the servicers: layers around every method of a server."""

from geoveil.aggregator.edge.authorise import Authorise
from geoveil.aggregator.edge.confine import Confine
from geoveil.aggregator.edge.guard import guard
from geoveil.aggregator.edge.hold import Hold
from geoveil.aggregator.edge.layered import Layered
from geoveil.aggregator.edge.observe import Observe

__all__ = ["Authorise", "Confine", "Hold", "Layered", "Observe", "guard"]
