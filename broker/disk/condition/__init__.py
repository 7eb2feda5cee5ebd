"""The condition of a directory: full, slow, hung; its space and its response times."""
