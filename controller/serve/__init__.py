"""Requests of brokers over gRPC."""
