"""What runs for ever on open log directories: checkpoints, retention, probe, condition."""
