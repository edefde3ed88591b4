"""How the server is asked: gRPC, its middleware, and what callers may take of it."""
