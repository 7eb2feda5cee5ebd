"""Requests that wait for a replica, and what wakes them."""

from broker.replica.waiting.append_entries import (
    AppendEntry,
    AppendResult,
    BatchTransaction,
    LeaderHint,
)
from broker.replica.waiting.waiters import News, Waiters
from broker.replica.waiting.waiting import (
    AppendRequest,
    FetchQueue,
    TimeLimits,
    WaitingAppend,
    WaitingFetch,
    fail_on_exception,
)

__all__ = [
    "AppendEntry",
    "AppendRequest",
    "AppendResult",
    "BatchTransaction",
    "FetchQueue",
    "LeaderHint",
    "News",
    "TimeLimits",
    "Waiters",
    "WaitingAppend",
    "WaitingFetch",
    "fail_on_exception",
]
