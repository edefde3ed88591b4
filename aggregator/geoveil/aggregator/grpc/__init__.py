"""The server's gRPC interface, its middleware, and the limits of its callers."""
