"""The broker: keeps replicas in its log directories and serves Kafka clients."""
