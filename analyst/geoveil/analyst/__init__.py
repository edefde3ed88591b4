"""The asker of a question: which mechanism suits it, and what its answer will be worth."""

from geoveil.gp.version import __version__ as __version__
