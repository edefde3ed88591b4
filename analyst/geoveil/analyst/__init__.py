"""The asker of a question: which mechanism suits it, and what its answer will be worth."""

from geoveil.gp.not_private import declare_experiments
from geoveil.gp.version import __version__ as __version__

declare_experiments(__name__)
