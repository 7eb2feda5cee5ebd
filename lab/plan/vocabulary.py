"""The metrics and actions there are, and what each is measured in or told."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from fault_injection.kinds import KINDS
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.expressions import Metric, Unit

OF_CLUSTER: Mapping[str, Unit] = {
    "isr_full": Unit.SHARE,
    "online_dirs": Unit.COUNT,
    "offline_partitions": Unit.COUNT,
    "under_replicated": Unit.COUNT,
    "noise": Unit.DURATION,
}
OF_FAULT: Mapping[str, Unit] = {
    "gap": Unit.DURATION,
    "detected": Unit.DURATION,
    "reported": Unit.DURATION,
    "elected": Unit.DURATION,
    "leader_seen": Unit.DURATION,
    "first_ack": Unit.DURATION,
    "isr_back": Unit.DURATION,
    "calls_broken": Unit.COUNT,
}
OF_CLIENTS: Mapping[str, Unit] = {
    "stayed": Unit.COUNT,
    "closed": Unit.COUNT,
    "handshakes_failed": Unit.COUNT,
    "logins_failed": Unit.COUNT,
    "requests_refused": Unit.COUNT,
}
"""What a fault of certificates, users or rights has besides: what became of clients."""
OF_WRITERS: Mapping[str, Unit] = {
    "sent": Unit.COUNT,
    "acked": Unit.COUNT,
    "lost": Unit.COUNT,
    "unread": Unit.COUNT,
    "duplicated": Unit.COUNT,
    "reordered": Unit.COUNT,
    "unknown": Unit.COUNT,
    "errors": Unit.COUNT,
    "availability": Unit.SHARE,
    "windows": Unit.SHARE,
    "behind": Unit.SHARE,
    "gap": Unit.DURATION,
    "p50": Unit.DURATION,
    "p99": Unit.DURATION,
    "max": Unit.DURATION,
}
OF_READERS: Mapping[str, Unit] = {
    "consumed": Unit.COUNT,
    "errors": Unit.COUNT,
    "rebalances": Unit.COUNT,
    "gap": Unit.DURATION,
}
OF_COMMAND: Mapping[str, Unit] = {
    "exit": Unit.COUNT,
    "probes": Unit.COUNT,
    "errors": Unit.COUNT,
    "availability": Unit.SHARE,
    "gap": Unit.DURATION,
    "p50": Unit.DURATION,
    "p99": Unit.DURATION,
    "max": Unit.DURATION,
}
OF_STREAMS: Mapping[str, Unit] = {
    "counted": Unit.COUNT,
    "missing": Unit.COUNT,
    "excess": Unit.COUNT,
    "exit": Unit.COUNT,
}
ALL = "all"
"""Owner of what is about all partitions: `all.gap`."""
OF_ALL: Mapping[str, Unit] = {"gap": Unit.DURATION}

TRANSACTIONS = "transactions"
"""Owner of what is about the transactions of all producers: `transactions.torn`."""
OF_TRANSACTIONS: Mapping[str, Unit] = {
    "committed": Unit.COUNT,
    "aborted": Unit.COUNT,
    "unknown": Unit.COUNT,
    "torn": Unit.COUNT,
    "stuck": Unit.COUNT,
    "fatal": Unit.COUNT,
    "longest_commit": Unit.DURATION,
}

AT_THE_END = frozenset(
    {
        *("lost", "unread", "duplicated", "reordered", "rebalances", "torn", "stuck"),
        *("counted", "missing", "excess"),
    }
)
"""What only a full read after the load tells; nothing that is asked meanwhile may name it."""

WINDOW = frozenset({"availability", "windows"})
"""Metrics of writers that need a duration as their argument."""
SIDES = ("inside", "outside")
"""Arguments of latencies: while a fault stood, or while none did."""
LATENCIES = frozenset({"p50", "p99", "max"})

OF_CONTROLLER = ("kill", "stop", "restart", "cut")
"""The faults that a controller can have too."""


def metrics_of(kind: str) -> Mapping[str, Unit]:
    """Return what an entry can be asked for; nothing where it is no fault."""
    if kind not in KINDS:
        return {}
    return {**OF_FAULT, **OF_CLIENTS} if KINDS[kind].hits_clients else OF_FAULT


class Owners:
    """Who has metrics in a plan, and which.

    Args:
        known: Names to what each of them can be asked for.
        are_transactional: Whether a producer has transactions.
    """

    def __init__(
        self, known: Mapping[str, Mapping[str, Unit]], *, are_transactional: bool = False
    ) -> None:
        self.known = {**known, ALL: OF_ALL}
        if are_transactional:
            self.known[TRANSACTIONS] = OF_TRANSACTIONS

    def live_unit_of(self, metric: Metric) -> Unit:
        """Return the unit of a metric that is asked for while the load runs; else as `unit_of`."""
        unit = self.unit_of(metric)
        if metric.field in AT_THE_END:
            raise ValueError(f'"{metric}" is known at the end only')
        return unit

    def unit_of(self, metric: Metric) -> Unit:
        """Return what a metric is measured in.

        Raises:
            ValueError: there is no such metric here; the text tells what there is.
        """
        if not metric.owner:
            if metric.field not in OF_CLUSTER:
                raise ValueError(_no("metric", metric.field, OF_CLUSTER))
            fields = OF_CLUSTER
        else:
            if metric.owner not in self.known:
                raise ValueError(_no("load or entry", metric.owner, self.known))
            fields = self.known[metric.owner]
            if metric.field not in fields:
                raise ValueError(_no(f"metric of {metric.owner}", metric.field, fields))
        _check_argument(metric, is_writers=fields is OF_WRITERS, is_command=fields is OF_COMMAND)
        return fields[metric.field]


def _check_argument(metric: Metric, *, is_writers: bool, is_command: bool) -> None:
    if is_writers and metric.field in WINDOW:
        if not metric.argument:
            raise ValueError(f'"{metric}" needs a duration: {metric}(1s)')
        duration_s(metric.argument)
    elif (is_writers or is_command) and metric.field in LATENCIES:
        if metric.argument and metric.argument not in SIDES:
            raise ValueError(f'expected inside or outside in "{metric}", got "{metric.argument}"')
    elif metric.argument:
        raise ValueError(f'"{metric}" takes no argument')


def _no(what: str, name: str, known: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
    return f"unknown {what} {name!r} ({hint})"
