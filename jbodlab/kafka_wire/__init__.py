"""Kafka's bytes to and from clients, without any input or output of its own."""
