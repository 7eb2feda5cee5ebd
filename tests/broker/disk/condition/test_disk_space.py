from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.bounds.limits import DENIAL_S_MAX
from broker.disk.condition.disk_space import FILES_BYTES, DirectorySpace, DiskSpace, reserve_of

MIB = 1 << 20


def disk(usable_bytes: int, *, reserved_bytes: int = 1_000) -> DiskSpace:
    made = DiskSpace(reserved_bytes)
    made.looked(100_000, usable_bytes)
    return made


def space(usable_bytes: int, *, reserved_bytes: int = 1_000) -> DirectorySpace:
    made = DirectorySpace()
    made.disk = disk(usable_bytes, reserved_bytes=reserved_bytes)
    return made


def test_the_reserve_is_one_percent_unless_configured() -> None:
    assert reserve_of(-1, 64 * MIB) == 671_088
    assert reserve_of(5_000, 64 * MIB) == 5_000
    assert reserve_of(0, 64 * MIB) == 0


@pytest.mark.parametrize(("usable_bytes", "is_full"), [(1_000, False), (999, True)])
def test_less_than_the_reserve_is_full(usable_bytes: int, is_full: bool) -> None:
    assert disk(usable_bytes).is_full is is_full


def test_full_is_left_only_with_clearly_more_than_the_reserve() -> None:
    found = disk(999)

    for usable_bytes, is_full in ((1_000, True), (1_499, True), (1_500, False), (1_000, False)):
        found.looked(100_000, usable_bytes)
        assert found.is_full is is_full


def test_appends_fill_the_room_between_two_looks_up_to_the_reserve() -> None:
    found = space(2_000)
    told: list[bool] = []
    found.on_full = lambda: told.append(found.disk.is_full)

    for _ in range(5):
        assert found.takes(200)
        found.charge(200)

    assert not told
    assert not found.takes(1)
    assert not found.takes(1)
    assert told == [True], "told once, when it is so"
    assert found.refused_count == 2


def test_an_append_that_does_not_fit_is_refused_and_room_for_it_is_waited_for() -> None:
    found = space(3_000)

    assert not found.takes(2_500)
    assert not found.takes(1), "a later append must not overtake the one that was refused"

    found.disk.looked(100_000, 3_400)
    assert found.disk.is_full, "more than half as much again as the reserve, but it does not fit"
    found.disk.looked(100_000, 3_500)
    assert not found.disk.is_full
    assert found.takes(2_500)


def test_without_a_reserve_or_before_the_first_look_nothing_is_refused() -> None:
    assert DirectorySpace().takes(1 << 60)
    assert space(10, reserved_bytes=0).takes(1 << 60)
    assert not space(0, reserved_bytes=0).disk.is_full


def test_what_is_on_its_way_when_a_look_comes_in_counts_as_used() -> None:
    found = space(50_000)
    for size in (10_000, 7_000):
        found.charge(size)
    found.settle(10_000)

    # The look came behind the first append, and before the second.
    found.looked(100_000, 40_000, ())

    assert found.disk.usable_bytes == 33_000
    found.settle(7_000)
    found.looked(100_000, 33_000, ())
    assert found.disk.usable_bytes == 33_000


def test_directories_on_one_disk_share_its_room() -> None:
    one, two = DirectorySpace(), DirectorySpace()
    one.disk = two.disk = disk(5_000)

    one.charge(2_000)
    two.charge(1_500)

    assert not two.takes(501)
    assert one.disk.is_full


def test_a_neighbour_may_have_written_since_the_look_whatever_is_settled() -> None:
    one, two = DirectorySpace(), DirectorySpace()
    one.disk = two.disk = disk(50_000)
    two.charge(8_000)
    two.settle(8_000)

    # Whether the thread of `two` wrote before or after this look, nobody knows.
    one.looked(100_000, 50_000, (two,))
    assert one.disk.usable_bytes == 42_000

    two.looked(100_000, 42_000, (one,))
    one.looked(100_000, 42_000, (two,))
    assert one.disk.usable_bytes == 42_000


def test_empty_replicas_may_take_half_of_the_reserve_and_no_more() -> None:
    found = DirectorySpace()
    found.disk = disk(8 * FILES_BYTES - 1, reserved_bytes=8 * FILES_BYTES)

    created = 0
    while found.disk.takes_files():
        found.charge(FILES_BYTES)
        created += 1

    assert created == 3


def test_a_directory_that_leaves_has_no_part_in_the_disk_any_more() -> None:
    found = space(0)

    found.leave()

    assert found.takes(1)
    assert not found.disk.is_full


def test_a_disk_that_soon_takes_no_more_again_is_full_for_longer() -> None:
    found = DirectorySpace()
    disk = found.disk = DiskSpace(100)
    disk.looked(1_000_000, 500_000)
    now_s, pauses = 0.0, []
    for _ in range(7):
        found.denied("[Errno 122] Disk quota exceeded", now_s)
        assert not disk.takes(1)
        assert not disk.has_room(1)
        assert not disk.takes_files()
        begun_s = now_s
        while disk.denial is not None:
            now_s += 1
            found.written(now_s)
            disk.looked(1_000_000, 500_000)
        assert disk.takes(1)
        pauses.append(now_s - begun_s)
    assert pauses == [1, 5, 10, 20, 40, 60, 60]
    found.denied("[Errno 28] No space left on device", now_s + DENIAL_S_MAX)
    found.written(now_s + DENIAL_S_MAX)
    assert disk.denial is None


def test_a_disk_that_took_what_it_had_no_room_for_is_believed_at_once() -> None:
    told = []
    found = DirectorySpace()
    found.on_taken = lambda: told.append("taken")
    found.looked(1_000_000, 500_000, ())
    found.denied("[Errno 28] No space left on device", 0.0)
    assert not found.takes(1)

    found.taken()
    found.looked(1_000_000, 500_000, ())

    assert found.takes(1)
    assert told == ["taken"]


def test_what_a_disk_takes_from_one_directory_tells_nothing_of_another() -> None:
    one, two = DirectorySpace(), DirectorySpace()
    one.disk = two.disk = disk(50_000)
    two.denied("[Errno 28] No space left on device", 0.0)

    one.written(1.0)
    one.looked(100_000, 50_000, (two,))
    assert one.disk.is_full

    two.written(1.1)
    one.looked(100_000, 50_000, (two,))
    assert not one.disk.is_full


def test_a_small_file_tells_nothing_while_logs_wait_for_room() -> None:
    found = space(50_000)
    found.denied("[Errno 28] No space left on device", 0.0)
    found.logs_wait = True
    found.written(1.0)
    assert found.disk.denial is not None

    found.logs_wait = False
    found.written(1.1)
    assert found.disk.denial is None


@pytest.mark.parametrize("end", [DirectorySpace.taken, DirectorySpace.leave])
def test_a_disk_has_room_again_when_no_directory_knows_otherwise(
    end: Callable[[DirectorySpace], None],
) -> None:
    one, two = DirectorySpace(), DirectorySpace()
    shared = one.disk = two.disk = disk(50_000)
    for each in (one, two):
        each.denied("[Errno 28] No space left on device", 0.0)

    one.taken()
    assert shared.denial is not None

    end(two)
    assert shared.denial is None
