"""Which directory holds which replica: chosen, found, created, returned, reported."""
