"""Appends of producers: checks, the append, the wait for the ISR, and batches for other leaders."""
