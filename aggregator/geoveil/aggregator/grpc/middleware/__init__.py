"""What stands between the network and the servicers: layers around every method of a server."""

from geoveil.aggregator.grpc.middleware.authorise import Authorise
from geoveil.aggregator.grpc.middleware.confine import Confine
from geoveil.aggregator.grpc.middleware.guard import guard
from geoveil.aggregator.grpc.middleware.hold import Hold
from geoveil.aggregator.grpc.middleware.layered import Layered
from geoveil.aggregator.grpc.middleware.observe import Observe

__all__ = ["Authorise", "Confine", "Hold", "Layered", "Observe", "guard"]
