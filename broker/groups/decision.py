"""Decisions of groups, with fields besides those of `broker.coordination.core`."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

from broker.coordination import core
from jbodlab.group_records.records import GroupRecord


class SoftChange(NamedTuple):
    """A change of what has no record: parked requests, pending joiners, a rebalance."""

    key: tuple[Hashable, ...]
    value: Any
    """A frozen value; None takes the entry away."""


class GroupDecision(core.Decision[GroupRecord], frozen=True, kw_only=True):
    """Group records to write, and changes of what has none."""

    soft: tuple[SoftChange, ...] = ()


NOTHING = GroupDecision()

TIMER_RETRY_MS = 500


class TimerRefused(msgspec.Struct, frozen=True, kw_only=True):
    """An event: what followed from a timer was to be written, and is tried again if refused."""

    key: tuple[Hashable, ...]
    retry_ms: int = TIMER_RETRY_MS
    """After which time."""
