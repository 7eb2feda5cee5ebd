"""Applications on Apache Kafka's own libraries that run as the load of a cluster."""
