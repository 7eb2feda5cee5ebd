"""A fault that was interrupted at any point is healed from what the journal says."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fault_injection import kinds, operations, process_control
from fault_injection.journal import Fault, FaultError, open_journal, read_faults
from fault_injection.mechanisms.file_operations import FileOperations

FAULTS = FileOperations()
KINDS = ("permission", "read-only-bits", "file-in-place", "deleted", "replaced", "files-deleted")


class StoppedError(Exception):
    pass


def begin(journal_file: Path, kind: str, log_dir: Path, **keys: str) -> None:
    """Write what an injection writes before it touches anything."""
    with open_journal(journal_file) as journal:
        target = operations.directory_target(str(log_dir), None)
        undo = FAULTS.prepare(kinds.spec(kind, keys), target, 1)
        journal.write("begin", 1, kind=kind, path=str(log_dir), uid=1, undo=undo)


def heal(journal_file: Path) -> str:
    with open_journal(journal_file) as journal:
        return operations.heal(1, journal, start=process_control.start).note


def make(journal_file: Path) -> None:
    with open_journal(journal_file) as journal:
        FAULTS.make(
            journal.faults[1], lambda more: journal.write("more", 1, **more), process_control.start
        )


@pytest.fixture
def journal_file(tmp_path: Path) -> Path:
    return tmp_path / "faults.jsonl"


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_before_anything_was_done(journal_file: Path, log_dir: Path, kind: str) -> None:
    inode = log_dir.stat().st_ino
    begin(journal_file, kind, log_dir)

    heal(journal_file)

    assert log_dir.stat().st_ino == inode
    assert stat.S_IMODE(log_dir.stat().st_mode) == 0o750
    assert read_faults(journal_file) == []


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_before_the_effect_was_written_down(
    journal_file: Path, log_dir: Path, kind: str
) -> None:
    inode = log_dir.stat().st_ino
    begin(journal_file, kind, log_dir)
    make(journal_file)
    (open_fault,) = read_faults(journal_file)
    assert open_fault.injected_ns is None

    heal(journal_file)

    assert log_dir.stat().st_ino == inode
    assert stat.S_IMODE(log_dir.stat().st_mode) == 0o750
    assert (log_dir / "foo-0" / "00000000000000000000.log").read_bytes() == b"records"


def test_interrupted_between_moving_aside_and_putting_the_file(
    journal_file: Path, log_dir: Path
) -> None:
    begin(journal_file, "file-in-place", log_dir)
    (fault,) = read_faults(journal_file)
    log_dir.rename(fault.undo["aside"])

    heal(journal_file)

    assert (log_dir / "meta.properties").exists()


def test_an_empty_file_left_by_an_interruption_is_no_content_of_anybody(
    journal_file: Path, log_dir: Path
) -> None:
    begin(journal_file, "file-in-place", log_dir)
    (fault,) = read_faults(journal_file)
    log_dir.rename(fault.undo["aside"])
    log_dir.touch()

    heal(journal_file)

    assert sorted(path.name for path in log_dir.parent.iterdir()) == ["data"]


def test_a_healing_that_was_interrupted_is_run_again(journal_file: Path, log_dir: Path) -> None:
    begin(journal_file, "deleted", log_dir)
    make(journal_file)
    (fault,) = read_faults(journal_file)
    FAULTS.undo(fault, process_control.start)  # ... and its `healed` line was never written.

    heal(journal_file)

    assert (log_dir / "meta.properties").exists()
    assert read_faults(journal_file) == []


def test_files_that_appear_while_the_fault_is_made_are_restored_too(
    journal_file: Path, log_dir: Path
) -> None:
    begin(journal_file, "read-only-bits", log_dir)
    late = log_dir / "late"
    late.touch()
    late.chmod(0o664)

    make(journal_file)
    assert stat.S_IMODE(late.stat().st_mode) == 0o444
    heal(journal_file)

    assert stat.S_IMODE(late.stat().st_mode) == 0o664


def test_a_file_is_written_down_before_its_permissions_change(
    journal_file: Path, log_dir: Path
) -> None:
    begin(journal_file, "read-only-bits", log_dir)
    (fault,) = read_faults(journal_file)
    (log_dir / "late").touch(mode=0o644)

    def found_more(modes: dict[str, int]) -> None:
        raise StoppedError

    with pytest.raises(StoppedError):
        FAULTS.make(fault, found_more, process_control.start)

    assert stat.S_IMODE((log_dir / "late").stat().st_mode) & 0o200


def test_a_torn_last_line_is_cut_off(journal_file: Path, log_dir: Path) -> None:
    begin(journal_file, "permission", log_dir)
    whole = journal_file.read_bytes()
    journal_file.write_bytes(whole + b'{"event": "injec')

    assert [fault.fault_id for fault in read_faults(journal_file)] == [1]
    heal(journal_file)

    assert journal_file.read_bytes().startswith(whole + b'{"event": "healing"')


def test_a_damaged_line_in_the_middle_is_an_error(journal_file: Path, log_dir: Path) -> None:
    begin(journal_file, "permission", log_dir)
    journal_file.write_bytes(b"rubbish\n" + journal_file.read_bytes())

    with pytest.raises(FaultError, match="damaged in line 1"):
        heal(journal_file)


def test_ids_are_never_used_twice(journal_file: Path, log_dir: Path) -> None:
    begin(journal_file, "permission", log_dir)
    heal(journal_file)

    with open_journal(journal_file) as journal:
        with journal.begin(lambda _: {"kind": "x", "path": "/x", "uid": 0, "undo": {}}) as fault:
            assert fault.fault_id == 2
        assert isinstance(journal.faults[1], Fault)


def test_only_files_that_match_are_moved_away_and_they_come_back(
    journal_file: Path, log_dir: Path
) -> None:
    metadata = log_dir / "foo-0" / "partition.metadata"
    metadata.write_text("version: 0\n")
    begin(journal_file, "files-deleted", log_dir, files="partition.*")
    make(journal_file)

    assert [file.name for file in metadata.parent.iterdir()] == ["00000000000000000000.log"]
    (fault,) = read_faults(journal_file)
    assert FAULTS.verify(fault) == ""
    assert FAULTS.broken(fault).count == 1

    assert heal(journal_file) == ""
    assert metadata.read_text() == "version: 0\n"
    assert not Path(fault.undo["aside"]).exists()


def test_a_file_that_was_made_again_stays_and_the_former_one_is_kept(
    journal_file: Path, log_dir: Path
) -> None:
    metadata = log_dir / "foo-0" / "partition.metadata"
    metadata.write_text("old")
    begin(journal_file, "files-deleted", log_dir, files="partition.metadata")
    make(journal_file)
    metadata.write_text("new")
    (fault,) = read_faults(journal_file)
    assert FAULTS.verify(fault) == f"foo-0/partition.metadata was made again in {log_dir}"

    note = heal(journal_file)

    assert metadata.read_text() == "new"
    assert note == f"what the broker replaced meanwhile is kept in {fault.undo['aside']}"
    assert [file.read_text() for file in Path(fault.undo["aside"]).iterdir()] == ["old"]


def test_no_file_that_matches_is_no_effect(journal_file: Path, log_dir: Path) -> None:
    begin(journal_file, "files-deleted", log_dir, files="partition.metadata")
    make(journal_file)

    (fault,) = read_faults(journal_file)
    assert FAULTS.verify(fault) == f"{log_dir} has no such file"
