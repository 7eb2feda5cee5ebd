"""The metrics and actions there are, and what each is measured in or told."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from fault_injection.kinds import KINDS
from jbodlab.vocabulary.durations import duration_s
from jbodlab.vocabulary.expressions import MetricName, MetricUnit


def _metrics(**names: str) -> Mapping[str, MetricUnit]:
    """Return metrics by their names, which stand below their units in one text each."""
    return {name: MetricUnit[unit] for unit, some in names.items() for name in some.split()}


OF_CLUSTER = _metrics(
    SHARE="isr_full", COUNT="online_dirs offline_partitions under_replicated", DURATION="noise"
)
OF_FAULT = _metrics(
    DURATION="gap detected reported elected leader_seen first_ack isr_back", COUNT="calls_broken"
)
OF_CLIENTS = _metrics(COUNT="stayed closed handshakes_failed logins_failed requests_refused")
"""Metrics that a fault of certificates, users or rights has besides: the fate of clients."""
OF_WRITERS = _metrics(
    COUNT="sent acked lost unread duplicated reordered unknown errors",
    SHARE="availability windows behind",
    DURATION="gap p50 p99 max",
)
OF_READERS = _metrics(COUNT="consumed errors rebalances", DURATION="gap")
OF_COMMAND = _metrics(COUNT="exit probes errors", SHARE="availability", DURATION="gap p50 p99 max")
OF_CHANGES = _metrics(COUNT="changes errors", SHARE="availability", DURATION="gap p50 p99 max")
"""Metrics of a writer of metadata; `gap` is the longest time without an acknowledged change."""
OF_STREAMS = _metrics(COUNT="counted missing excess exit")
ALL = "all"
"""Owner of what is about all partitions: `all.gap`."""
OF_ALL = _metrics(DURATION="gap")

TRANSACTIONS = "transactions"
"""Owner of what is about the transactions of all producers: `transactions.torn`."""
OF_TRANSACTIONS = _metrics(
    COUNT="committed aborted unknown torn stuck fatal", DURATION="longest_commit"
)

AT_THE_END = frozenset(
    {
        *("lost", "unread", "duplicated", "reordered", "rebalances", "torn", "stuck"),
        *("counted", "missing", "excess"),
    }
)
"""Metrics that only a full read after the load tells; no earlier condition may name them."""

WINDOW = frozenset({"availability", "windows"})
"""Metrics of writers that need a duration as their argument."""
SIDES = ("inside", "outside")
"""Arguments of latencies: while a fault stood, or while none did."""
LATENCIES = frozenset({"p50", "p99", "max"})

OF_CONTROLLER = (
    *("kill", "stop", "restart", "cut"),
    *("certificate-expires", "certificate-replaced", "certificate-untrusted"),
)
"""The faults that a controller can have too."""
OF_DISK_OF_CONTROLLER = (
    *("permission", "read-only-bits", "file-in-place", "deleted", "replaced", "emptied"),
    *("eio", "read-only", "full", "slow", "hang"),
)
"""The faults that the directory of a controller can have."""


def metrics_of(kind: str) -> Mapping[str, MetricUnit]:
    """Return what an entry can be asked for; nothing where it is no fault."""
    if kind not in KINDS:
        return {}
    return {**OF_FAULT, **OF_CLIENTS} if KINDS[kind].hits_clients else OF_FAULT


class Owners:
    """Owners of metrics in a plan, and which metrics.

    Args:
        known: Names to what each of them can be asked for.
        are_transactional: Whether a producer has transactions.
    """

    def __init__(
        self, known: Mapping[str, Mapping[str, MetricUnit]], *, are_transactional: bool = False
    ) -> None:
        self.known = {**known, ALL: OF_ALL}
        if are_transactional:
            self.known[TRANSACTIONS] = OF_TRANSACTIONS

    def live_unit_of(self, metric: MetricName) -> MetricUnit:
        """Return the unit of a metric that is asked for while the load runs; else as `unit_of`."""
        unit = self.unit_of(metric)
        if metric.field in AT_THE_END:
            raise ValueError(f'"{metric}" is known at the end only')
        return unit

    def unit_of(self, metric: MetricName) -> MetricUnit:
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
        _check_argument(
            metric, is_writers=fields is OF_WRITERS, is_command=fields in (OF_COMMAND, OF_CHANGES)
        )
        return fields[metric.field]


def _check_argument(metric: MetricName, *, is_writers: bool, is_command: bool) -> None:
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
