"""Services of several handlers: producer ids, topics on demand, own settings, coordinators."""
