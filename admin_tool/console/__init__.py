"""Records from and to the terminal, with an unmodified client: librdkafka."""
