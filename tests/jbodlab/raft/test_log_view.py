"""Where positions stand in a log, where two logs part, and what counts from which offset."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jbodlab.metadata.records.control_records import KRaftVersionRecord, KRaftVotersRecord
from jbodlab.raft.log_view import VALID, LogView, OffsetAndEpoch, Position
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, History, ReplicaKey, VoterSet
from jbodlab.vocabulary.errors import QuorumViolationError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.jbodlab.raft.lone_node import at, log_of
from tests.jbodlab.raft.world import key_of, voter

E137 = ((1, 0), (3, 10), (7, 20))
"""Epochs 1, 3 and 7 of a log that ends at 30."""


@pytest.mark.parametrize(
    ("offset", "epoch", "diverging"),
    [
        (0, 0, None),
        (5, 1, None),
        (10, 1, None),
        (11, 1, at(10, 1)),
        (20, 3, None),
        (21, 3, at(20, 3)),
        (8, 2, at(10, 1)),
        (15, 2, at(10, 1)),
        (18, 5, at(20, 3)),
        (25, 5, at(20, 3)),
        (30, 7, None),
        (31, 7, at(30, 7)),
        (31, 9, at(30, 7)),
    ],
)
def test_a_position_is_valid_or_diverges_where_the_epoch_ends(
    offset: int, epoch: int, diverging: OffsetAndEpoch | None
) -> None:
    log = log_of(*E137, end=30)

    assert log.position_of(offset, epoch) == Position(diverging=diverging)


def cleaned() -> LogView:
    """Of the same log: it begins at 10 now, and a second snapshot ends at 25."""
    log = log_of(*E137, end=30)
    log.set_snapshots((at(10, 1), at(25, 7)), Offset(10))
    return log


@pytest.mark.parametrize(
    ("offset", "epoch", "is_valid"),
    [(0, 0, False), (9, 1, False), (10, 1, True), (10, 3, False), (15, 0, False), (20, 3, True)],
)
def test_a_position_below_the_log_needs_the_newest_snapshot(
    offset: int, epoch: int, is_valid: bool
) -> None:
    expected = VALID if is_valid else Position(snapshot=at(25, 7))

    assert cleaned().position_of(offset, epoch) == expected


def test_epochs_below_the_log_start_are_forgotten() -> None:
    assert cleaned().epochs == ((3, 10), (7, 20))
    log = log_of(*E137, end=30)
    log.set_snapshots((at(15, 3),), Offset(15))
    assert log.epochs == ((3, 15), (7, 20))


@pytest.mark.parametrize(
    ("diverging", "target"),
    [
        (at(25, 7), 25),
        (at(40, 7), 30),
        (at(15, 3), 15),
        (at(40, 3), 20),
        # The leader names an epoch that this log lacks: the end of the next lower one.
        (at(28, 5), 20),
        (at(15, 2), 10),
        (at(4, 0), 4),
    ],
)
def test_a_log_is_cut_at_the_smaller_end_of_the_common_epoch(
    diverging: OffsetAndEpoch, target: int
) -> None:
    assert log_of(*E137, end=30).truncation_for(diverging) == target


def test_logs_that_part_over_three_epochs_agree_after_a_round_for_each() -> None:
    leader = log_of((1, 0), (3, 10), (5, 20), (7, 30), end=40)
    log, ends = log_of((1, 0), (2, 10), (4, 20), (6, 30), end=40), []

    while (diverging := leader.position_of(*log.end).diverging) is not None:
        log.truncate_to(log.truncation_for(diverging))
        ends.append(log.end)

    assert ends == [at(30, 4), at(20, 2), at(10, 1)]
    assert leader.position_of(*log.end) == VALID


def test_an_empty_log_ends_in_the_epoch_of_its_snapshot() -> None:
    assert log_of().end == at(0, 0)
    log = log_of(*E137, end=30)
    log.restart_at(at(50, 8), None, None)
    assert log.end == at(50, 8)
    assert (log.start_offset, log.epochs) == (50, ())
    assert log.position_of(50, 8) == VALID
    assert log.position_of(40, 7) == Position(snapshot=at(50, 8))


def test_a_snapshot_that_reaches_no_further_than_the_log_is_not_taken() -> None:
    with pytest.raises(QuorumViolationError, match="does not reach"):
        log_of(*E137, end=30).restart_at(at(29, 7), None, None)


def test_a_log_counts_as_synced_when_the_thread_says_so() -> None:
    log = log_of((1, 0), end=10)
    first, second = log.append(Offset(12)), log.append(Offset(15))

    assert (log.end_offset, log.synced_offset) == (15, 10)
    log.note_synced(first)
    assert (log.synced_offset, log.is_synced) == (12, False)
    log.note_synced(second)
    assert (log.synced_offset, log.is_synced) == (15, True)


def test_a_report_of_an_append_that_was_cut_counts_up_to_the_cut_only() -> None:
    log = log_of((1, 0), end=10)
    old = log.append(Offset(20))
    log.truncate_to(Offset(14))
    new = log.append(Offset(18))

    log.note_synced(old)
    assert log.synced_offset == 14
    log.note_synced(new)
    assert log.synced_offset == 18


def test_a_truncation_forgets_epochs_voters_and_levels_behind_it() -> None:
    log = log_of((1, 0), end=10)
    log.begin_epoch(LeaderEpoch(2))
    log.append(Offset(13))
    log.add_controls([(Offset(11), KRaftVersionRecord(k_raft_version=1))])
    log.add_controls([(Offset(12), KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 3, 4)))))])
    assert log.voters.last.ids == (1, 2, 3, 4)

    log.truncate_to(Offset(12))
    assert log.voters.last.ids == (1, 2, 3)
    assert log.kraft_versions.last_offset == 11
    log.truncate_to(Offset(10))
    assert log.kraft_versions.last_offset is None
    assert log.end == at(10, 1)


def test_a_downloaded_snapshot_has_the_only_voters() -> None:
    log = log_of((1, 0), end=10)
    log.add_controls([(Offset(3), KRaftVotersRecord(voters=tuple(map(voter, (1, 2)))))])

    log.restart_at(at(50, 4), VoterSet.of([voter(2), voter(5)]), 1)

    assert log.voters.last.ids == (2, 5)
    assert log.voters.last_offset == 49
    assert log.kraft_versions.last == 1


def sets(*entries: tuple[int, str]) -> History[str]:
    history = History("static")
    for offset, value in entries:
        history.add(offset, value)
    return history


def test_a_snapshot_has_the_value_at_its_last_offset() -> None:
    history = sets((-1, "first"), (10, "second"), (20, "third"))

    assert history.at(9) == "first"
    assert history.at(10) == "second"
    assert history.at(19) == "second"
    assert history.last == "third"
    assert sets().at(5) == "static"


def test_what_no_offset_needs_is_trimmed() -> None:
    history = sets((-1, "first"), (10, "second"), (20, "third"))

    history.trim_to(Offset(11))
    assert history.at(10) == "second"
    assert history.at(9) == "static"
    history.trim_to(Offset(20))
    assert history.at(19) == "second"


def test_a_set_with_known_directories_takes_no_other_directory() -> None:
    known = VoterSet.of([voter(1), voter(2)])

    assert known.key_of(key_of(1)) == key_of(1)
    assert known.key_of(ReplicaKey(BrokerId(1), key_of(2).directory_id)) is None
    assert known.key_of(ReplicaKey(BrokerId(9), key_of(1).directory_id)) is None
    assert not known.is_only(key_of(1))
    assert known.others(key_of(1)) == (key_of(2),)


def test_a_static_set_takes_any_directory() -> None:
    static = VoterSet.of([replace(voter(1), voter_directory_id=UNKNOWN_DIRECTORY)])

    assert static.key_of(key_of(1)) == ReplicaKey(BrokerId(1))
    assert static.is_only(key_of(1))


@pytest.mark.parametrize(("count", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_majority_is_more_than_half(count: int, majority: int) -> None:
    assert VoterSet.of(map(voter, range(count))).majority == majority


def test_sets_that_follow_each_other_have_a_common_majority() -> None:
    log = log_of()
    log.add_controls([(Offset(0), KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 3)))))])
    log.add_controls([(Offset(1), KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 4)))))])

    with pytest.raises(QuorumViolationError, match="common majority"):
        log.add_controls([(Offset(2), KRaftVotersRecord(voters=tuple(map(voter, (4, 5, 6)))))])


def test_a_set_names_each_node_once() -> None:
    with pytest.raises(QuorumViolationError, match="twice"):
        VoterSet.of([voter(1), voter(1)])


def test_the_voters_of_the_log_replace_those_that_the_node_was_formatted_with() -> None:
    log = log_of(voters=(7, 8, 9))
    log.voters.restart(-1, log.voters.last)
    living = KRaftVotersRecord(voters=tuple(map(voter, (1, 2, 3))))

    log.append(Offset(1))
    log.add_controls([(Offset(0), living)])

    assert log.voters.last.ids == (1, 2, 3)
