"""The bytes of a metadata log: its files, where batches begin, what does not fit together.

Nothing here knows what a record means.
"""
