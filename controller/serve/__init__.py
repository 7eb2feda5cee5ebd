"""What brokers ask over gRPC."""
