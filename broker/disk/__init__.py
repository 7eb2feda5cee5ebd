"""The log directories of this broker: one thread each, their failures, their upkeep."""
