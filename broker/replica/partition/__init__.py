"""One replica: its states and transitions, its settings, and what it refuses."""
