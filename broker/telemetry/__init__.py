"""The metrics that clients push to this broker (KIP-714)."""
