"""The web door: the services over Connect, gRPC-Web and JSON, for browsers and curl."""
