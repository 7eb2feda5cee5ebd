"""gRPC between brokers and controller: generated stubs, and their translation to values."""
