"""Names, numbers, ids and errors that every room uses."""
