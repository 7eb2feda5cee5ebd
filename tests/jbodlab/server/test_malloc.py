from __future__ import annotations

import sys

import pytest

from jbodlab.server.malloc import (
    BUSY_LOOKS_MAX,
    QUIET_BYTES,
    WORTH_RETURNING_BYTES,
    MemoryReturn,
    trim_malloc,
    tune_malloc,
)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these settings")
def test_the_c_library_takes_the_settings() -> None:
    assert tune_malloc()


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc can")
def test_the_c_library_gives_free_pages_back() -> None:
    blocks = [bytearray(100_000) for _ in range(300)]
    del blocks[::2]

    assert trim_malloc()


def test_memory_is_given_back_once_when_it_has_become_quiet() -> None:
    started: list[str] = []
    memory = MemoryReturn(lambda _work, name: started.append(name))

    memory.moved_bytes += WORTH_RETURNING_BYTES
    assert not memory.look(), "requests still come"
    memory.moved_bytes += QUIET_BYTES
    assert memory.look()
    assert not memory.look()
    assert started == ["malloc-trim"]


def test_bytes_of_requests_count_from_one_look_to_the_next() -> None:
    memory = MemoryReturn(lambda _work, _name: None)

    assert not memory.look(WORTH_RETURNING_BYTES), "requests still come"
    assert memory.look(WORTH_RETURNING_BYTES + QUIET_BYTES)
    assert not memory.look(WORTH_RETURNING_BYTES + QUIET_BYTES)


def test_little_traffic_gives_nothing_back() -> None:
    memory = MemoryReturn(lambda _work, _name: None)

    memory.moved_bytes += WORTH_RETURNING_BYTES - 1
    memory.look()

    assert not memory.look()


def test_memory_is_given_back_now_and_then_although_there_is_traffic() -> None:
    memory = MemoryReturn(lambda _work, _name: None)
    looks = []
    for _ in range(2 * BUSY_LOOKS_MAX):
        memory.moved_bytes += WORTH_RETURNING_BYTES
        looks.append(memory.look())

    assert looks == ([False] * (BUSY_LOOKS_MAX - 1) + [True]) * 2
