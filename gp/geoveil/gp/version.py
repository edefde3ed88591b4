"""The version of geoveil: of all its parts, which are released together."""

__version__ = "0.2.0.dev0"
