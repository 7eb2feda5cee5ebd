"""Settings: which there are, what they may be, where their values come from."""
