"""The wire contract: protocol buffers and gRPC services, generated from the .proto files here."""

__version__ = "0.2.0.dev0"
"""The version of `geoveil.gp`, of which messages import nothing."""
