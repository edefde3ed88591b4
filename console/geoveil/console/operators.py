"""What operators look at: rejections, rates, the queue, the store, certificates, and warnings.

All numbers are those of the metrics that Prometheus is served, read from the same registry.
"""

from geoveil.console.http import Route

ROUTES: tuple[Route, ...] = ()
