from __future__ import annotations

from broker.replica.log.tail_cache import Slice, TailCache, TailCacheBudget


def filled(
    limit_bytes: int = 1000, count: int = 5, budget: TailCacheBudget | None = None
) -> TailCache:
    cache = TailCache(budget or TailCacheBudget(), limit_bytes)
    for number in range(count):
        cache.append(number * 2, number * 2 + 2, 10, (bytes([number]) * 10,))
    return cache


def read(cache: TailCache, offset: int, max_bytes: int, max_offset: int) -> Slice | None:
    return cache.read(offset, max_bytes, max_offset, at_least_one=True)


def test_read_begins_with_the_batch_that_contains_the_offset() -> None:
    found = read(filled(), 3, 20, 100)

    assert found == Slice((b"\x01" * 10, b"\x02" * 10), 20)


def test_read_stops_before_the_first_batch_beyond_the_limit() -> None:
    assert read(filled(), 0, 1000, 4) == Slice((b"\x00" * 10, b"\x01" * 10), 20)
    assert read(filled(), 0, 1000, 5) == Slice((b"\x00" * 10, b"\x01" * 10), 20)


def test_read_at_the_end_finds_nothing_and_needs_no_disk() -> None:
    assert read(filled(), 10, 1000, 100) == Slice((), 0)


def test_first_batch_is_returned_however_small_the_limit() -> None:
    cache = filled()

    assert read(cache, 0, 1, 100) == Slice((b"\x00" * 10,), 10)
    assert cache.read(0, 1, 100, at_least_one=False) == Slice((), 0)


def test_oldest_batches_give_way_and_are_left_to_the_disk() -> None:
    cache = filled(limit_bytes=30)

    assert cache.start_offset == 4
    assert cache.size == 30
    assert read(cache, 3, 100, 100) is None
    assert read(cache, 4, 100, 100) is not None


def test_many_appends_keep_what_is_dropped_out_of_memory() -> None:
    cache = TailCache(TailCacheBudget(), 30)

    for number in range(1000):
        cache.append(number, number + 1, 10, (b"%10d" % number,))

    assert cache.start_offset == 997
    assert read(cache, 997, 1000, 3000) == Slice((b"       997", b"       998", b"       999"), 30)


def test_cache_that_was_idle_longest_gives_way_to_the_others() -> None:
    budget = TailCacheBudget(limit_bytes=100)
    idle = filled(budget=budget)
    busy = filled(budget=budget)

    busy.append(10, 12, 10, (b"x" * 10,))

    assert idle.start_offset is None
    assert busy.start_offset == 0
    assert budget.size == busy.size == 60


def test_available_counts_no_further_than_enough() -> None:
    cache = filled()

    assert cache.available(0, 100, 15) == 20
    assert cache.available(0, 100, 1000) == 50
    assert cache.available(0, 4, 1000) == 20
    assert cache.available(10, 100, 1) == 0
