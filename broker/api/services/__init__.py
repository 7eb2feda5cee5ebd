"""What several handlers share: producer ids, topics made on demand, own settings, coordinators."""
