from __future__ import annotations

from analytics.rare.transactions import ABORT, BEGIN, END, Dropped, Marker, dropped_stretches


def stretches(*markers: tuple[int, str]) -> tuple[list[Dropped], list[int | None]]:
    dropped, problems = dropped_stretches(
        [Marker(offset, kind, "file") for offset, kind in markers], end_offset=100
    )
    assert all(problem.kind == "transaction" for problem in problems)
    return dropped, [problem.offset for problem in problems]


def test_a_transaction_that_ends_has_effect() -> None:
    assert stretches((1, BEGIN), (5, END)) == ([], [])


def test_an_aborted_transaction_has_none() -> None:
    assert stretches((1, BEGIN), (5, ABORT), (6, BEGIN), (9, END)) == ([Dropped(1, 5)], [])


def test_a_transaction_that_the_log_leaves_open_has_none() -> None:
    assert stretches((90, BEGIN)) == ([Dropped(90, 100)], [])


def test_markers_out_of_place_are_problems() -> None:
    assert stretches((1, END), (2, BEGIN), (4, BEGIN), (6, END)) == ([Dropped(2, 4)], [1, 4])
