"""What the tools ask of brokers, in typed values; the only place that knows kafka-python."""
