"""What follows from facts: failures, moves, lag, flaps, skew, availability."""
