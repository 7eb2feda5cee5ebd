"""One log directory: its state, its threads, its files, its space."""
