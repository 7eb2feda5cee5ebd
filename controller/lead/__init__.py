"""The parts that the active controller runs."""
