"""Checks of the header fields outside a batch's CRC against the batches before it.

The CRC does not cover base offset, epoch and magic. Kafka's tool prints them unchecked; the JSON
form, which other programs read, also reports impossible values. This module does not check offsets:
the code that prints records compares them.
"""

from __future__ import annotations

from jbodlab.record_batch.record_batch import MAGIC, BatchHeader


class HeaderChecks:
    """The checks of one file, batch after batch."""

    def __init__(self, *, is_metadata: bool, epoch: int | None) -> None:
        """Begin a file.

        Args:
            is_metadata: Whether it belongs to a metadata log, where epochs begin with a control
                batch. In other logs each batch has the epoch of its leader.
            epoch: Epoch that all its batches must have, as in a snapshot; None if epochs may
                differ.
        """
        self._is_metadata = is_metadata
        self._epoch = epoch
        self._previous: int | None = None

    def complaints(self, header: BatchHeader) -> list[str]:
        """Return the errors in the header of the next batch."""
        found = []
        if header.magic != MAGIC:
            found.append(f"unknown magic {header.magic}; reading the batch as magic {MAGIC}")
        epoch, previous = header.partition_leader_epoch, self._previous
        self._previous = epoch
        if not self._is_metadata:
            return found
        if self._epoch is not None:
            if epoch != self._epoch:
                found.append(f"expected at most epoch {self._epoch} in the snapshot, got {epoch}")
        elif epoch < (previous or 0):
            found.append(f"epoch {epoch} follows epoch {previous or 0}")
        elif previous is not None and epoch > previous and not header.is_control:
            found.append(f"epoch {epoch} follows epoch {previous} without a leader change")
        return found
