"""What the brokers say about their directories, and when they notice that one is broken."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fault_injection.kinds import CLIENTS, CONTROLLER, FaultSpec
from fault_injection.mechanism import Target
from jbodlab.admin_requests import describe_log_dir_states, revive_log_dir
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition
from jbodlab.protocol.describe_log_dir_states import LogDirStateEntry
from lab.cluster import questions
from lab.cluster.cluster import Cluster
from lab.cluster.node import Broker
from lab.cluster.questions import NO_ANSWER, PartitionView
from lab.errors import LabError

TIMEOUT_S = 3.0
REVIVAL_TIMEOUT_S = 30.0
DEADLINE_S = 30.0
POLL_S = 0.02
ONLINE = "ONLINE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """That a broker, or the controller, has noticed a fault.

    Attributes:
        what: What is said of the directory or the broker.
        after_ms: How long after the fault took effect that was seen from outside.
        leaders_moved: How many partitions have another leader since.
    """

    what: str
    after_ms: float
    leaders_moved: int

    def __str__(self) -> str:
        return (
            f"{self.what} after {self.after_ms:.0f} ms, {self.leaders_moved} partitions have "
            "another leader"
        )


class Noticing:
    """Watches one broker from before a fault.

    Attributes:
        not_noticed: What to say when nobody did.
    """

    def __init__(self, cluster: Cluster, target: Target) -> None:
        assert target.patient is not None
        self._cluster = cluster
        self._target = target
        self._broker = next(one for one in cluster.brokers if one.folder == target.patient.folder)
        self._before = self._leaders()
        self.not_noticed = f"{target.patient.name} has not noticed within {DEADLINE_S:g} s"

    def wait(self, wanted: FaultSpec, since_ns: int) -> Noticed | None:
        """Wait until it was noticed; None if nobody did in time."""
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            said = self._said_of_cut(wanted) if wanted.kind == "cut" else self._said(wanted.kind)
            if said:
                after_ms = (time.monotonic_ns() - since_ns) / 1e6
                return Noticed(what=said, after_ms=after_ms, leaders_moved=self._moved(end))
            time.sleep(POLL_S)
        return None

    def _said(self, kind: str) -> str:
        directory = self._target.directory
        if kind in ("restart", "swapped", "emptied", "twin"):
            if not self._broker.is_running:
                said = [line for line in self._broker.log_lines() if line.strip()]
                return f"does not start ({said[-1] if said else 'without a word'}),"
            if not self._broker_is_named():
                return ""
            state = self._state_of(directory) if directory else ""
            return f"runs again{f', the directory is {state}' if state else ''}"
        if directory is None or kind == "power-loss":
            return "" if self._broker_is_named() else "the controller has fenced the broker"
        state = self._state_of(directory)
        return f"the directory is {state}" if state and state != ONLINE else ""

    def _said_of_cut(self, wanted: FaultSpec) -> str:
        """Return what is seen of a cut: first what the controller, then what others notice."""
        parties = wanted.cut_from or (CONTROLLER,)
        if CONTROLLER in parties:
            return "" if self._broker_is_named() else "the controller has fenced the broker"
        if CLIENTS in parties:
            return "no client reaches the broker" if states(self._broker) is None else ""
        number, now = self._broker.id, self._leaders()
        smaller = sum(
            len(found.isr) < len(self._before[key].isr)
            for key, found in now.items()
            if key in self._before and number in found.replicas
        )
        return f"{smaller} partitions have a smaller ISR" if smaller else ""

    def _state_of(self, directory: Path) -> str:
        for entry in states(self._broker) or ():
            if Path(entry.path) == directory:
                return " ".join(
                    [
                        entry.state
                        if entry.state != ONLINE or not entry.conditions
                        else "online but",
                        *entry.conditions,
                        *([f"({entry.cause})"] if entry.cause else []),
                    ]
                )
        return ""

    def _broker_is_named(self) -> bool:
        """Return whether some other broker, or a single one itself, names it as alive."""
        others = [one for one in self._cluster.brokers if one is not self._broker]
        for broker in others or [self._broker]:
            if broker.is_running:
                view = asyncio.run(questions.ask_cluster_view(broker.state, TIMEOUT_S))
                if view is not None:
                    return self._broker.id in view.broker_ids
        return False

    def _leaders(self) -> dict[TopicPartition, PartitionView]:
        try:
            return dict(self._cluster.view().partitions)
        except LabError:
            return {}

    def _moved(self, end: float) -> int:
        """Count leaders that changed, once those of a dead broker have all found others."""
        while True:
            now = self._leaders()
            changed = [
                key
                for key, found in self._before.items()
                if key in now and now[key].leader != found.leader
            ]
            is_settled = all(found.leader >= 0 for found in now.values())
            if is_settled or time.monotonic() > end:
                return len(changed)
            time.sleep(POLL_S)


def states(broker: Broker) -> tuple[LogDirStateEntry, ...] | None:
    """Return what a broker says of its directories; None if it does not answer."""
    host, port = broker.state.host, broker.state.port
    with contextlib.suppress(*NO_ANSWER):
        return asyncio.run(describe_log_dir_states(host, port, TIMEOUT_S)).log_dirs
    return None


def offline(brokers: Sequence[Broker]) -> list[tuple[Broker, LogDirStateEntry]]:
    """Return the directories that are not online, with their brokers."""
    return [
        (broker, entry)
        for broker in brokers
        for entry in states(broker) or ()
        if entry.state != ONLINE
    ]


def revive(broker: Broker, path: str) -> str:
    """Bring a directory back online; returns why that failed, empty if it did not."""
    host, port = broker.state.host, broker.state.port
    try:
        answer = asyncio.run(revive_log_dir(host, port, path, REVIVAL_TIMEOUT_S))
    except NO_ANSWER as error:
        return str(error) or "no answer"
    if ErrorCode(answer.error_code.value) is ErrorCode.NONE:
        return ""
    return answer.error_message or answer.error_code.name
