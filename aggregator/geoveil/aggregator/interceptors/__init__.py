"""What stands between the network and the servicers, apart from errors."""

from geoveil.aggregator.interceptors.authorise import AuthorisingInterceptor
from geoveil.aggregator.interceptors.observe import ObservingInterceptor

__all__ = ["AuthorisingInterceptor", "ObservingInterceptor"]
