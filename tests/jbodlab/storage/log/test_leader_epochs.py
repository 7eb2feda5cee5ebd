from __future__ import annotations

import pytest

from jbodlab.storage.directory.posix_filesystem import PosixFileSystem
from jbodlab.storage.log.leader_epochs import LeaderEpochs, read_leader_epochs
from jbodlab.vocabulary.errors import CorruptRecordError

FS = PosixFileSystem()


def test_epochs_and_starts_stay_strictly_increasing():
    epochs = LeaderEpochs([(2, 0), (4, 10), (6, 20)])

    assert epochs.assign(7, 20)
    assert epochs.entries == ((2, 0), (4, 10), (7, 20))
    assert epochs.assign(5, 30)
    assert epochs.entries == ((2, 0), (4, 10), (5, 30))
    assert epochs.assign(9, 5)
    assert epochs.entries == ((2, 0), (9, 5))
    assert epochs.latest_epoch == 9


def test_assigning_the_newest_epoch_again_changes_nothing():
    epochs = LeaderEpochs([(2, 0), (4, 10)])

    assert not epochs.assign(4, 30)
    assert epochs.entries == ((2, 0), (4, 10))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (6, (6, 30)),  # the newest ends at the log end
        (7, (-1, -1)),  # newer than all
        (5, (4, 20)),  # unknown, larger one exists: largest below it
        (4, (4, 20)),
        (3, (2, 10)),
        (1, (1, 3)),  # none at or below: the asked epoch ends where the first known begins
        (-1, (-1, -1)),
    ],
)
def test_end_offset_for_an_epoch(asked, expected):
    epochs = LeaderEpochs([(2, 3), (4, 10), (6, 20)])

    assert epochs.end_offset_for(asked, 30) == expected


def test_without_entries_no_end_offset_is_known():
    assert LeaderEpochs().end_offset_for(0, 30) == (-1, -1)
    assert LeaderEpochs().latest_epoch == -1


def test_truncation_from_the_end_drops_what_begins_there_or_later():
    epochs = LeaderEpochs([(2, 3), (4, 10), (6, 20)])

    assert not epochs.truncate_to(21)
    assert epochs.truncate_to(20)
    assert epochs.entries == ((2, 3), (4, 10))
    assert epochs.truncate_to(0)
    assert epochs.entries == ()


def test_truncation_from_the_start_keeps_the_epoch_that_the_new_start_lies_in():
    epochs = LeaderEpochs([(2, 3), (4, 10), (6, 20)])

    assert not epochs.truncate_from(2)
    assert epochs.truncate_from(15)
    assert epochs.entries == ((4, 15), (6, 20))
    assert epochs.truncate_from(20)
    assert epochs.entries == ((6, 20),)


def test_epoch_of_an_offset():
    epochs = LeaderEpochs([(2, 3), (4, 10)])

    assert [epochs.epoch_for(offset) for offset in (2, 3, 9, 10, 99)] == [-1, 2, 2, 4, 4]


def test_the_file_has_one_line_per_epoch(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_text("0\n2\n0 0\n5 12\n")

    assert read_leader_epochs(FS, path).entries == ((0, 0), (5, 12))
    assert read_leader_epochs(FS, tmp_path / "missing").entries == ()


def test_a_malformed_file_is_damaged(tmp_path):
    (tmp_path / "f").write_text("0\n1\n0 0 0\n")

    with pytest.raises(CorruptRecordError, match="Malformed line"):
        read_leader_epochs(FS, tmp_path / "f")


def test_a_copy_is_independent():
    epochs = LeaderEpochs([(1, 0)])

    epochs.copy().assign(2, 5)

    assert epochs.entries == ((1, 0),)
