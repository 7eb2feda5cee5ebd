"""The verbs of `jbodlab reassign`, and what they share."""
