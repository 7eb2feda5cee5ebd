"""The one replay: images of the metadata, and the deltas that lead from one to the next."""
