"""The files of the metadata log, the same on controllers and brokers."""
