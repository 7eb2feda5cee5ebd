"""What clients and followers read: fetches and their sessions, offsets, what lies where."""
