from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admin_tool.log_dir_actions.move_plan import (
    DirState,
    DoesNotFitError,
    Move,
    balance,
    drain,
    held_after,
    room_bytes,
    spread_bytes,
)
from jbodlab.vocabulary.ids import TopicPartition


def foo(index: int) -> TopicPartition:
    return TopicPartition("foo", index)


def state(path: str, *sizes: int, first: int = 0, **fields: object) -> DirState:
    named = {foo(index): size for index, size in enumerate(sizes, start=first)}
    return DirState(path=path, sizes=named, **{"room_bytes": 1000, **fields})  # type: ignore[arg-type]


def test_a_drained_directory_goes_where_least_is_largest_first() -> None:
    dirs = [state("/a", 10, 50, 30), state("/b", 5, first=10), state("/c", 20, first=20)]

    assert drain(dirs, "/a") == [
        Move(foo(1), "/a", "/b", 50),
        Move(foo(2), "/a", "/c", 30),
        Move(foo(0), "/a", "/c", 10),
    ]


def test_an_empty_directory_needs_no_move() -> None:
    assert drain([state("/a")], "/a") == []


def test_replicas_without_records_move_too() -> None:
    assert drain([state("/a", 0), state("/b", room_bytes=0)], "/a") == [Move(foo(0), "/a", "/b", 0)]


def test_what_takes_nothing_gets_nothing() -> None:
    dirs = [state("/a", 10), state("/b", takes=False, room_bytes=0), state("/c", 90, first=5)]

    assert [move.target for move in drain(dirs, "/a")] == ["/c"]


@pytest.mark.parametrize("sizes", [(6, 5, 5), (4, 4, 4, 4)])
def test_what_only_fits_in_one_way_is_fitted_so(sizes: tuple[int, ...]) -> None:
    dirs = [state("/a", *sizes), state("/b", room_bytes=10), state("/c", room_bytes=8)]

    moves = drain(dirs, "/a")

    assert {move.partition for move in moves} == set(dirs[0].sizes)
    assert sum(move.size_bytes for move in moves if move.target == "/b") <= 10
    assert sum(move.size_bytes for move in moves if move.target == "/c") <= 8


def test_neither_evenly_nor_tightly_but_by_search() -> None:
    # Into 10 and 9: tightly 5 goes to 9 and 4 beside it, and then 3, 3 and 4 fill 10.
    dirs = [state("/a", 7, 5, 4, 3), state("/b", room_bytes=10), state("/c", room_bytes=9)]

    moves = {move.partition: move.target for move in drain(dirs, "/a")}

    assert moves == {foo(0): "/b", foo(3): "/b", foo(1): "/c", foo(2): "/c"}


def test_what_does_not_fit_is_refused_with_figures() -> None:
    dirs = [
        state("/a", 60, 50),
        state("/b", room_bytes=55),
        state("/c", room_bytes=30),
        state("/d", room_bytes=0, takes=False),
    ]

    with pytest.raises(DoesNotFitError) as refused:
        drain(dirs, "/a")

    assert str(refused.value) == (
        "/a does not fit into the other log directories: 2 replicas with 110 bytes, the largest "
        "with 60 bytes; /b has room for 55 bytes, /c has room for 30 bytes, /d takes nothing; "
        "25 bytes are missing"
    )


def test_room_in_all_does_not_help_where_no_directory_has_enough() -> None:
    dirs = [state("/a", 60), state("/b", room_bytes=50), state("/c", room_bytes=50)]

    with pytest.raises(
        DoesNotFitError, match=r"/b has room for 50 bytes, /c has room for 50 bytes$"
    ):
        drain(dirs, "/a")


def test_balancing_moves_half_of_the_distance() -> None:
    dirs = [state("/a", 10, 10, 10, 10), state("/b")]

    moves = balance(dirs)

    assert held_after(dirs, moves) == {"/a": 20, "/b": 20}
    assert len(moves) == 2


def test_what_is_even_enough_stays() -> None:
    assert balance([state("/a", 100), state("/b", 97, first=5)]) == []
    assert balance([]) == []
    assert balance([state("/a", 5)]) == []


def test_what_is_on_its_way_counts_where_it_goes() -> None:
    assert balance([state("/a", 50, 50), state("/b", settled_bytes=100)]) == []


def test_what_single_moves_cannot_even_out_exchanges_do() -> None:
    dirs = [state("/a", 60, 50), state("/b", 40, 30, first=5)]

    moves = balance(dirs)

    assert held_after(dirs, moves) == {"/a": 90, "/b": 90}


def test_an_exchange_that_gains_little_is_not_made() -> None:
    assert balance([state("/a", 1010, 1000, 900), state("/b", 1000, 1000, 800, first=5)]) == []


def test_nothing_comes_where_no_room_is() -> None:
    dirs = [
        state("/a", 70, 30, room_bytes=0),
        state("/b", room_bytes=100),
        state("/c", 60, first=5),
    ]

    for move in balance(dirs):
        assert move.target != "/a"


def test_one_large_replica_is_not_carried_to_and_fro() -> None:
    assert balance([state("/a", 100), state("/b")]) == []


def test_a_full_directory_gives_and_does_not_take() -> None:
    full = state("/a", 30, 30, takes=False, room_bytes=0)
    other = state("/c", 200, first=9, takes=False, room_bytes=0)

    moves = balance([full, state("/b"), other])

    assert [move.target for move in moves] == ["/b"]


def test_some_of_a_disk_stays_free() -> None:
    assert room_bytes(500, 1000, 100) == 380
    assert room_bytes(10, 1000, 0) == 0


@st.composite
def brokers(draw: st.DrawFn) -> list[DirState]:
    dirs = []
    for number in range(draw(st.integers(1, 4))):
        sizes = draw(st.lists(st.integers(0, 60), max_size=6))
        takes = draw(st.booleans()) or draw(st.booleans())
        dirs.append(
            DirState(
                path=f"/d{number}",
                sizes={foo(100 * number + k): size for k, size in enumerate(sizes)},
                settled_bytes=draw(st.sampled_from([0, 0, 17])),
                room_bytes=draw(st.integers(0, 250)) if takes else 0,
                takes=takes,
            )
        )
    return dirs


def check_possible(dirs: list[DirState], moves: list[Move]) -> None:
    known = {one.path: one for one in dirs}
    assert len({move.partition for move in moves}) == len(moves)
    for move in moves:
        assert move.source != move.target
        assert known[move.source].sizes[move.partition] == move.size_bytes
        assert known[move.target].takes
    for one in dirs:
        coming = sum(move.size_bytes for move in moves if move.target == one.path)
        assert coming <= one.room_bytes


@settings(max_examples=100)
@given(dirs=brokers())
def test_balancing_exceeds_nothing_and_makes_nothing_worse(dirs: list[DirState]) -> None:
    moves = balance(dirs)

    check_possible(dirs, moves)
    before = [one.held_bytes for one in dirs]
    after = list(held_after(dirs, moves).values())
    assert spread_bytes(after) <= spread_bytes(before)
    if moves:
        assert sum(each * each for each in after) < sum(each * each for each in before)
    assert all(move.size_bytes > 0 for move in moves)


@settings(max_examples=100)
@given(dirs=brokers(), data=st.data())
def test_draining_moves_all_or_is_refused_for_want_of_room(
    dirs: list[DirState], data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([one.path for one in dirs]))
    source = next(one for one in dirs if one.path == path)
    try:
        moves = drain(dirs, path)
    except DoesNotFitError:
        # The fullest fit of a refused drain is no fit: even one by one something is left over.
        rooms = [one.room_bytes for one in dirs if one.path != path and one.takes]
        assert not rooms or not _fits(sorted(source.sizes.values(), reverse=True), rooms)
        return
    check_possible(dirs, moves)
    assert {move.partition for move in moves} == set(source.sizes)
    assert held_after(dirs, moves)[path] == source.settled_bytes


def _fits(sizes: list[int], rooms: list[int]) -> bool:
    """Whether there is any way at all; every one is tried."""
    if not sizes:
        return True
    return any(
        _fits(sizes[1:], [*rooms[:k], room - sizes[0], *rooms[k + 1 :]])
        for k, room in enumerate(rooms)
        if room >= sizes[0] and room not in rooms[:k]
    )
