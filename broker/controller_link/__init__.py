"""What this broker and the controller tell each other: a channel, a life, assignments, metadata."""
