"""The server's logic, independent of transport and storage."""
