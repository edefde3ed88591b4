"""The wire contract: protocol buffers and gRPC services, generated from the .proto files here."""

__version__ = "0.1.0"
"""As `geoveil.gp.__version__`, of which messages import nothing."""
