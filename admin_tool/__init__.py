"""Command line tools that speak the Kafka protocol to running brokers, ours or Apache Kafka's."""
