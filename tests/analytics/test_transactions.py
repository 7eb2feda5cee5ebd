"""Metadata transactions: which stretches of the log never took effect (KIP-868)."""

from __future__ import annotations

from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from tests.analytics.small_logs import answered, picked

BEGIN, END, ABORT = (
    record.NAME for record in (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
)


def stretches(*markers: tuple[int, str]) -> tuple[list[tuple[object, ...]], list[object]]:
    """Return what was dropped, and the offsets of markers that are out of place."""
    rows = [
        {"offset": offset, "replay_offset": offset, "type": kind, "snapshot": False}
        for offset, kind in markers
    ]
    log = {"replay_from": 0, "log_end_offset": 100, "end_offset": 100}
    dropped, misplaced = (
        answered(name, log_rows=rows, log_layouts=[log])
        for name in ("dropped_stretches", "misplaced_markers")
    )
    return picked(dropped, "from_offset", "to_offset"), [row["offset"] for row in misplaced]


def test_a_transaction_that_ends_has_effect() -> None:
    assert stretches((1, BEGIN), (5, END)) == ([], [])


def test_an_aborted_transaction_has_none() -> None:
    assert stretches((1, BEGIN), (5, ABORT), (6, BEGIN), (9, END)) == ([(1, 5)], [])


def test_a_transaction_that_the_log_leaves_open_has_none() -> None:
    assert stretches((90, BEGIN)) == ([(90, 100)], [])


def test_markers_out_of_place_are_problems() -> None:
    assert stretches((1, END), (2, BEGIN), (4, BEGIN), (6, END)) == ([(2, 4)], [1, 4])
