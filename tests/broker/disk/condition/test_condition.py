from __future__ import annotations

from broker.disk.condition.condition import (
    HEALTHY,
    DegradedLogDirs,
    DirectoryCondition,
    degraded_log_dirs,
    hung,
    is_hung,
    space_text,
)
from broker.disk.condition.disk_space import DiskSpace
from tests.broker.disks import directory_id

FULL, SLOW = DirectoryCondition(is_full=True), DirectoryCondition(is_slow=True)
BOTH = DirectoryCondition(is_full=True, is_slow=True)
D1, D2, D3, D4 = (directory_id(number) for number in (1, 2, 3, 4))
CONDITIONS = [(D1, HEALTHY), (D2, FULL), (D3, SLOW), (D4, BOTH)]


def test_names() -> None:
    named = [each.name for each in (HEALTHY, FULL, SLOW, BOTH)]

    assert named == ["HEALTHY", "FULL", "SLOW", "FULL+SLOW"]


def test_worse_is_what_has_something_new_that_is_wrong() -> None:
    assert FULL.is_worse_than(HEALTHY)
    assert BOTH.is_worse_than(SLOW)
    assert FULL.is_worse_than(SLOW)
    assert not HEALTHY.is_worse_than(BOTH)
    assert not FULL.is_worse_than(BOTH)


def test_the_controller_hears_of_full_and_slow_directories() -> None:
    assert degraded_log_dirs(CONDITIONS, slow_moves_leaders=True) == DegradedLogDirs(
        degraded=(D2, D3, D4), full=(D2, D4), tolerated=()
    )


def test_slow_is_tolerated_where_it_is_only_reported_but_full_never_is() -> None:
    assert degraded_log_dirs(CONDITIONS, slow_moves_leaders=False) == DegradedLogDirs(
        degraded=(D2, D3, D4), full=(D2, D4), tolerated=(D3,)
    )


def test_the_numbers_behind_full() -> None:
    disk = DiskSpace(100)
    disk.looked(10_000, 90)

    assert space_text(disk) == (
        "90 of 10000 bytes usable, 100 reserved; no longer FULL from 150 usable bytes on"
    )


def test_a_hung_directory_is_told_from_one_with_an_io_error() -> None:
    assert hung("2000 ms") == "HUNG: no answer within 2000 ms"
    assert is_hung(hung("2000 ms"))
    assert is_hung(f"[Errno 110] {hung('5 s')}")
    assert not is_hung("[Errno 5] Input/output error")
    assert not is_hung(None)
