"""The bounds of storage and the metadata log, each with what it costs."""

# Files of a directory.
OPEN_FILES_MAX = 4_096
"""`.log` files that a directory keeps open: one descriptor each. See `broker.limits.divide`."""
INDEX_BYTES_MAX = 16 << 20
"""Memory of a directory for indexes that are kept between reads."""
READ_BYTES = 1 << 20
"""Bytes of one call that reads a file as a whole."""
WRITE_BACK_BYTES = 8 << 20
"""Bytes of a piece. A sync first hands a file to the disk in pieces, so that each call is short."""


# Logs.
POSITIONS_REMEMBERED_MAX = 64
"""Places in a log where a reader is expected next; consumers and followers read in sequence."""
SCAN_BLOCK_SIZE = 1 << 20
"""Bytes in memory while a segment is scanned; a single larger batch is read whole."""
SEARCH_BLOCK_BYTES = 4 << 20
"""Bytes in memory while a batch behind damage is searched."""
DAMAGED_COPY_BYTES = 8 << 20
"""Bytes of one call that copies a damaged tail."""


# Compaction.
COMPACTED_WRITE_BYTES = 1 << 20
"""Bytes of compacted batches that are collected for one write."""
FOLLOW_S = 0.05
"""Longest sleep of a round that its rate delays; then a changed rate counts."""
CLEANER_END_S = 5.0
"""Longest wait for a cleaner process that was told to end; then it is killed."""
CLEANER_LOOK_S = 0.05
"""Interval at which a running round is asked whether it shall go on."""


# Metadata log.
COPY_CHUNK_BYTES = 8 << 20
"""Bytes of one call that copies a metadata segment."""
LONG_PIECE_S = 0.05
"""Longest pause between two pieces of a snapshot: a slow disk alone leaves enough time."""
