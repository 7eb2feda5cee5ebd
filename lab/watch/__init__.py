"""Sightings of a cluster from outside: logs, metrics, the metadata log, answers of brokers."""
