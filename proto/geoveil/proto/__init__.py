"""The wire contract: protocol buffers and gRPC services, generated from the .proto files here."""
