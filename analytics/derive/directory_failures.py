"""Failures of log directories and brokers: what each touched, and how the cluster came round.

A failure is an interval in which a directory is offline, or a broker does not serve
(`broker_failures`). There are few of them; what they did to partitions is found bucket by bucket
(`failure_parts`) and summed up here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analytics.bytes.arrays import Longs
from analytics.decode.arrow_reading import FOR_EVER
from analytics.decode.partition_events import NO_TIME
from analytics.derive.bucket_rows import BucketRows, few
from analytics.derive.failure_costs import COSTS
from analytics.derive.failures import Failures
from analytics.fold.broker_registration import OFFLINE
from analytics.tables import catalog as t

Part = Mapping[str, Any]
"""A row of `failure_parts.FAILURE_PART`; times are microseconds since 1970."""

_REPLICAS_GONE = "replicas_gone"
_BEFORE_ALL = -(2**63)
_US_PER_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One failure; times are microseconds since 1970."""

    broker: int
    directory: str | None
    """None if the whole broker failed."""
    detected_offset: int
    detected_time: int | None
    batch: int | None
    """First offset of the batch that tells of it."""
    back_offset: int | None
    """Offset at which it was over; None if it is not."""
    back_time: int | None
    back_by: str | None
    began_by: str | None = None
    """How a failure of a broker began, as its table has it."""


def known_failures(rows: BucketRows) -> list[Failure]:
    """Return the failures that the table of log directories tells of, in order."""
    moments = ("valid_from_offset", "valid_from_time", "valid_to_offset", "valid_to_time")
    names = ("broker", "directory", "state", "batch_base_offset", "ended_by", *moments)
    return in_order(
        Failure(
            broker=row["broker"],
            directory=row["directory"],
            detected_offset=row["valid_from_offset"],
            detected_time=row["valid_from_time"],
            batch=row["batch_base_offset"],
            back_offset=row["valid_to_offset"],
            back_time=row["valid_to_time"],
            back_by=row["ended_by"],
        )
        for row in few(rows, t.LOG_DIRS, names)
        if row["state"] == OFFLINE
    )


def in_order(failures: Iterable[Failure]) -> list[Failure]:
    """Return failures of one kind in the order of their table."""
    return sorted(failures, key=lambda one: (one.detected_offset, one.broker, one.directory or ""))


def failure_columns(failures: Sequence[Failure]) -> Failures:
    """Return failures as columns, `since` not known yet."""
    offset = np.array([one.detected_offset for one in failures], dtype=np.int64)
    return Failures(
        broker=np.array([one.broker for one in failures], dtype=np.int64),
        directory=tuple(one.directory for one in failures),
        offset=offset,
        time=_or([one.detected_time for one in failures], NO_TIME),
        batch=np.minimum(_or([one.batch for one in failures], FOR_EVER), offset),
        back=_or([one.back_offset for one in failures], FOR_EVER),
        back_time=_or([one.back_time for one in failures], NO_TIME),
    )


def with_begin(failures: Failures, touched: Longs) -> Failures:
    """Return failures with the first offset at which something may have been done about them.

    Args:
        failures: All of them.
        touched: How many replicas each one touched: the result changes each at most once.
    """
    return replace(failures, since=np.minimum(failures.batch, failures.offset - touched))


def failure_row(failure: Failure, parts: Iterable[Part]) -> dict[str, object]:
    """Return a row of the table of directory failures, or of that of broker failures.

    Args:
        failure: The failure.
        parts: What it did to each bucket, and what it cost there.
    """
    every = list(parts)
    own = [part for part in every if part.get("touched") is not None]
    costs = [part["costs"] for part in every if part.get("costs") is not None]
    touched = _sum(own, "touched")
    detected = (failure.detected_offset, failure.detected_time)
    leader = _last(own, "last_leader")
    # What the controller does about a failure stands before its record, written with it at once.
    at_once = leader is not None and leader[0] <= failure.detected_offset
    # The last of moments counts when there are no more to come.
    left = _last(own, "last_left") if _sum(own, "left") == touched else None
    whole = _last(own, "last_done") if _sum(own, "done") == touched else None
    if not touched:
        whole = detected
    ends: list[tuple[int, int | None, str | None]] = []
    if failure.back_offset is not None:
        ends.append((failure.back_offset, failure.back_time, failure.back_by))
    if left is not None:
        ends.append((*left, _REPLICAS_GONE))
    closed = min(ends, key=lambda end: (*_order(end[:2]), end[2] or ""), default=None)
    names = [name for part in own for name in json.loads(part["partitions"])]
    return {
        "broker": failure.broker,
        "directory": failure.directory,
        "began_by": failure.began_by,
        "detected_offset": failure.detected_offset,
        "detected_time": failure.detected_time,
        "partitions_touched": touched,
        "leaders_moved": _sum(own, "moved"),
        "leaders_lost": _sum(own, "lost"),
        "leaders_still_lost": _sum(own, "still_lost"),
        "last_leader_offset": leader and leader[0],
        "last_leader_time": leader and leader[1],
        "last_leader_in_same_batch": None if leader is None else at_once,
        "time_to_last_leader_ms": None if at_once else _milliseconds(detected, leader),
        "full_isr_offset": whole and whole[0],
        "full_isr_time": whole and whole[1],
        "time_to_full_isr_ms": _milliseconds(detected, whole),
        "state": "open" if closed is None else "closed",
        "closed_offset": closed and closed[0],
        "closed_time": closed and closed[1],
        "closed_by": closed and closed[2],
        "partitions": sorted(names),
        **{name: _cost(costs, name) for name in COSTS.names},
    }


_Moment = tuple[int, int | None]
"""Offset and time."""


def _or(values: Sequence[int | None], nothing: int) -> Longs:
    return np.array([nothing if value is None else value for value in values], dtype=np.int64)


def _sum(parts: Sequence[Part], name: str) -> int:
    return sum(int(part[name]) for part in parts)


def _cost(costs: Sequence[Part], name: str) -> int | None:
    known = [int(cost[name]) for cost in costs if cost[name] is not None]
    if name.endswith("_ms"):
        return None if not known else max(known) if name.startswith("longest") else sum(known)
    return sum(known)


def _last(parts: Sequence[Part], name: str) -> _Moment | None:
    moments = [
        (int(part[name]["offset"]), part[name]["time"]) for part in parts if part[name] is not None
    ]
    return max(moments, key=_order, default=None)


def _order(moment: _Moment) -> tuple[int, int]:
    offset, time = moment
    return offset, _BEFORE_ALL if time is None else time


def _milliseconds(start: _Moment, end: _Moment | None) -> int | None:
    if end is None or start[1] is None or end[1] is None:
        return None
    return end[1] // _US_PER_MS - start[1] // _US_PER_MS
