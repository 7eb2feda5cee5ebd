"""The offsets that the checkpoints of a directory name for one log in use.

No checkpointed offset is above the end of the log, or above the end that a pending truncation will
leave; so after a crash at any moment a start trusts no offset that the log does not hold.

The log start is written before a segment below it is deleted, and it is written for every log with
records. So if the first segment of a log begins above it, retention did not delete the segments
before it: the disk lost them, see `LogState.lost_from`. Apache Kafka writes the log start only for
logs that begin inside their first segment, and uses the base offset of the first segment as the
start of all other logs. For these, and for any log that a checkpoint does not name, the start is
unknown and no segment counts as lost.
"""

from __future__ import annotations

from jbodlab.storage.log.log_state import LogState


def recovery_point(state: LogState) -> int:
    """Return the recovery point for `recovery-point-offset-checkpoint`.

    It is not above the base offset of the active segment, which a recovery reads anyway. So the
    checkpoint stays valid when the active segment is truncated.
    """
    return state.disk.below_cut(min(state.recovery_point, state.active.base_offset))


def high_watermark(state: LogState, offset: int) -> int:
    """Return the high watermark for `replication-offset-checkpoint`."""
    return state.disk.below_cut(min(offset, state.end_offset))


def start_offset(state: LogState) -> int | None:
    """Return the log start for `log-start-offset-checkpoint`.

    None for an empty log whose log start is the base offset of its first segment.
    """
    start = state.start_offset if state.lost_from is None else state.lost_from
    if start == state.end_offset and start <= state.segments.first_base_offset:
        return None
    return state.disk.below_cut(start)


def cleaned_to(state: LogState) -> int | None:
    """Return the clean offset for `cleaner-offset-checkpoint`; None if never compacted."""
    offset = state.disk.cleaned_to
    if offset is None:
        return None
    return state.disk.below_cut(min(offset, state.active.base_offset))
