"""What the checkpoints of a directory say of one log while it is in use.

None of it is above what the log holds, or will hold after a cut that is about to be made; so after
a crash at any moment a start believes nothing that is not there.

The log start is written before a segment below it goes, and it is written of every log with
records. So where the first segment of a log begins above it, no retention was at work, but a loss:
see `LogState.lost_from`. Apache Kafka writes it only of logs that begin inside their first segment,
and takes the name of the first segment for the start of all others. Of these, and of any that a
checkpoint does not name, nothing is known, and nothing is taken for lost.
"""

from __future__ import annotations

from jbodlab.storage.log.log_state import LogState


def recovery_point(state: LogState) -> int:
    """Return the recovery point for `recovery-point-offset-checkpoint`.

    Not above the active segment's beginning, which is read at a recovery anyway. So nothing is
    wrong on the disk when the active segment is cut.
    """
    return state.disk.below_cut(min(state.recovery_point, state.active.base_offset))


def high_watermark(state: LogState, offset: int) -> int:
    """Return the high watermark for `replication-offset-checkpoint`."""
    return state.disk.below_cut(min(offset, state.end_offset))


def start_offset(state: LogState) -> int | None:
    """Return the log start for `log-start-offset-checkpoint`.

    None for a log that holds nothing and whose first segment says where it begins.
    """
    start = state.start_offset if state.lost_from is None else state.lost_from
    if start == state.end_offset and start <= state.segments.first_base_offset:
        return None
    return state.disk.below_cut(start)


def cleaned_to(state: LogState) -> int | None:
    """Return up to where it is clean, for `cleaner-offset-checkpoint`; None if it never was."""
    offset = state.disk.cleaned_to
    if offset is None:
        return None
    return state.disk.below_cut(min(offset, state.active.base_offset))
