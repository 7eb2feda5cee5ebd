"""Batches of the metadata log as the core sees them, and the quorum's own records among them.

In the log they are in control batches. In a snapshot they follow the header, in its batch, and say
what counted at the last offset that the snapshot contains; at level 0 of kraft.version there are
none. `0-0.checkpoint` is such a snapshot, without data: the first voters.

Source: `org.apache.kafka.raft.internals.KRaftControlRecordStateMachine`,
`org.apache.kafka.snapshot.RecordsSnapshotWriter`; KIP-853.
"""

from __future__ import annotations

from jbodlab.metadata.records.control_records import (
    ControlRecord,
    KRaftVersionRecord,
    KRaftVotersRecord,
    decode_known_control,
)
from jbodlab.raft.messages import Batch
from jbodlab.raft.voters import VoterSet
from jbodlab.record_batch.record_batch import (
    BatchHeader,
    crc_is_valid,
    iterate_headers,
    iterate_records,
)
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import LeaderEpoch, Offset


def quorum_records(voters: VoterSet, kraft_version: int) -> tuple[ControlRecord, ...]:
    """Return the records that a snapshot has of the quorum; none at level 0."""
    if kraft_version < 1:
        return ()
    return (
        KRaftVersionRecord(k_raft_version=kraft_version),
        KRaftVotersRecord(voters=voters.voters),
    )


def quorum_of(snapshot: bytes) -> tuple[VoterSet | None, int | None]:
    """Return the voters and the level of kraft.version that a snapshot has; None without a record.

    Args:
        snapshot: Its content, or the beginning with its first batch.

    Raises:
        DecodeError: the first batch is damaged or incomplete.
        QuorumViolationError: the voter set names a node twice.
    """
    batches, _ = fetched_batches(snapshot)
    if not batches:
        raise DecodeError("the first batch of a snapshot is damaged or incomplete")
    voters, kraft_version = None, None
    for _, record in batches[0].controls:
        match record:
            case KRaftVersionRecord():
                kraft_version = record.k_raft_version
            case KRaftVotersRecord():
                voters = VoterSet.of(record.voters)
    return voters, kraft_version


def fetched_batches(data: bytes) -> tuple[tuple[Batch, ...], bool]:
    """Return the batches at the front of a Fetch response that are whole and undamaged.

    Data records are not decoded. An incomplete last batch is left out silently, as a leader may
    cut its answer anywhere.

    Returns:
        The batches, and whether damage ended them.
    """
    batches: list[Batch] = []
    try:
        for position, header in iterate_headers(data):
            if not crc_is_valid(data, position, header):
                return tuple(batches), True
            controls = controls_of(data, position, header) if header.is_control else ()
            batches.append(
                Batch(
                    base_offset=Offset(header.base_offset),
                    end_offset=Offset(header.last_offset + 1),
                    epoch=LeaderEpoch(header.partition_leader_epoch),
                    data=data[position : position + header.size],
                    controls=controls,
                )
            )
    except DecodeError:
        return tuple(batches), True
    return tuple(batches), False


def controls_of(
    data: bytes, position: int, header: BatchHeader
) -> tuple[tuple[Offset, ControlRecord], ...]:
    """Return the control records that are known, of a control batch that begins at a position."""
    return tuple(
        (Offset(record.offset), control)
        for record in iterate_records(data, position, header)
        if (control := decode_known_control(record.key, record.value)) is not None
    )
