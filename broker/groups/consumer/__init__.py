"""Consumer groups of KIP-848 as pure decisions: the broker computes who has which partition."""
