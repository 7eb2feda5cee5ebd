"""Measurements: speed and memory of real clusters, beside Apache Kafka where its jars are given."""
