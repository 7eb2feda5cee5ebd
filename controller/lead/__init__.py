"""What the active controller runs."""
