"""The middle of the demo: a directory dies under load, and everybody can see what happens."""

from __future__ import annotations

import asyncio
import heapq
import queue
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fault_injection.errors import FaultError
from jbodlab import lab_state
from jbodlab.ids import TopicPartition
from jbodlab.lab_state import ClusterState, NodeState
from lab import up_and_down, verdict
from lab.cluster import Cluster, questions
from lab.errors import LabError
from lab.screen import Screen, Tone
from lab.traffic import Producer
from lab.verdict import Ack
from lab.watch import Kind, Sighting, Target, Watch

SETTLE_DEADLINE_S = 40.0
CALM_S = 2.0
"""How long traffic goes on after everything has come back."""
HOLD_BACK_NS = 60_000_000
"""How much later sightings are shown: they come from several sides, and are put in order first."""
ASK_TIMEOUT_S = 5.0
FAULT_KIND = "permission"


@dataclass(slots=True)
class Failover:
    """What was seen, all times on the monotonic clock."""

    target: Target
    fault_ns: int
    offline_ns: int = 0
    offline_seen_ns: int = 0
    reported_ns: int = 0
    elected: dict[TopicPartition, Sighting] = field(default_factory=dict)
    leader_seen: dict[TopicPartition, Sighting] = field(default_factory=dict)
    first_acks: dict[TopicPartition, Ack] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every affected partition has a new leader that acknowledges."""
        return self.offline_seen_ns > 0 and set(self.leader_seen) == set(self.first_acks) == set(
            self.target.led
        )


def choose_target(state: ClusterState, topic: str) -> Target:
    """Choose the directory from which most partitions are led.

    Raises:
        LabError: no broker answers, or nothing is led from anywhere.
    """
    view, log_dirs = asyncio.run(_look(state))
    if view is None:
        raise LabError("no broker answers")
    targets = [
        _target(node, number, path, found.sizes, view, topic)
        for node in state.brokers
        for number, path in enumerate(node.log_dirs, start=1)
        for found in log_dirs[node.node_id] or ()
        if found.path == path
    ]
    best = max(targets, key=lambda target: len(target.led), default=None)
    if best is None or not best.led:
        raise LabError("no partition is led from any directory")
    return best


def run(
    state: ClusterState,
    target: Target,
    producer: Producer,
    state_dir: Path,
    screen: Screen,
) -> Failover:
    """Break the directory and show what happens until all has come back, and a little longer.

    Raises:
        LabError: the fault could not be made, a server ended, or nothing came back in time.
    """
    watch = Watch(state, target)
    watch.start()
    try:
        failover = Failover(target=target, fault_ns=_inject(state, target, state_dir))
        screen.moment(0, f"fault injected: chmod 000 {target.path}", Tone.BAD)
        _show(failover, watch, producer, screen, lambda: _check_servers(state))
    finally:
        watch.stop()
        watch.join(ASK_TIMEOUT_S)
    time.sleep(CALM_S)
    return failover


async def _look(
    state: ClusterState,
) -> tuple[questions.ClusterView | None, dict[int, list[questions.LogDirView] | None]]:
    view = await questions.ask_cluster_view(state.brokers[0], ASK_TIMEOUT_S)
    return view, await questions.ask_all_log_dirs(state.brokers, ASK_TIMEOUT_S)


def _target(
    node: NodeState,
    number: int,
    path: str,
    replicas: Iterable[TopicPartition],
    view: questions.ClusterView,
    topic: str,
) -> Target:
    here = sorted(partition for partition in replicas if partition.topic == topic)
    led = tuple(p for p in here if view.partitions[p].leader == node.node_id)
    followed = tuple(p for p in here if p not in led)
    return Target(broker=node, number=number, path=path, led=led, followed=followed)


def _inject(state: ClusterState, target: Target, state_dir: Path) -> int:
    """Break the directory; returns the moment in which it took effect."""
    try:
        broker = Cluster(state, journal=lab_state.journal_file(state_dir), outlives_us=True).broker(
            target.broker.node_id
        )
        return broker.log_dir_at(Path(target.path)).fails(FAULT_KIND).injected_ns
    except FaultError as error:
        raise LabError(f"the fault could not be injected: {error}") from error


def _check_servers(state: ClusterState) -> None:
    alive = lab_state.running_nodes(state)
    for node in state.nodes:
        if node not in alive:
            tail = up_and_down.log_tail(node)
            raise LabError(f"{node.role} {node.node_id} has ended; the end of its log:{tail}")


def _show(
    failover: Failover,
    watch: Watch,
    producer: Producer,
    screen: Screen,
    check_servers: Callable[[], None],
) -> None:
    """Print what is seen, in the order of time, until there is nothing left to wait for."""
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    pending: list[tuple[int, int, str, Tone]] = []
    count = 0
    acks_before = len(producer.acks)
    while pending or not failover.is_complete:
        if time.monotonic() > deadline:
            raise LabError(
                f"after {SETTLE_DEADLINE_S:.0f} s not every affected partition has a new leader "
                f"that acknowledges: {_missing(failover)}"
            )
        check_servers()
        news = [_note(failover, sighting) for sighting in _next_sightings(watch)]
        news += _new_first_acks(failover, producer.acks[acks_before:])
        for at_ns, text, tone in filter(None, news):
            count += 1
            heapq.heappush(pending, (at_ns, count, text, tone))
        while pending and pending[0][0] < time.monotonic_ns() - HOLD_BACK_NS:
            at_ns, _, text, tone = heapq.heappop(pending)
            screen.moment(at_ns - failover.fault_ns, text, tone)


def _next_sightings(watch: Watch) -> list[Sighting]:
    found = []
    try:
        found.append(watch.sightings.get(timeout=0.02))
        while True:
            found.append(watch.sightings.get_nowait())
    except queue.Empty:
        return found


def _note(failover: Failover, sighting: Sighting) -> tuple[int, str, Tone] | None:
    """Keep a sighting; returns what to print, None for what is no news."""
    broker_id = failover.target.broker.node_id
    match sighting.kind:
        case Kind.OFFLINE:
            failover.offline_ns = sighting.at_ns
            text = f"directory offline at the broker ({sighting.note})"
            return sighting.at_ns, text, Tone.BAD
        case Kind.OFFLINE_SEEN:
            failover.offline_seen_ns = sighting.at_ns
            text = f"clients see the directory offline ({sighting.note})"
            return sighting.at_ns, text, Tone.PLAIN
        case Kind.REPORTED:
            if failover.reported_ns:
                return None
            failover.reported_ns = sighting.at_ns
            text = f"reported by broker {broker_id} to the controller ({sighting.note})"
            return sighting.at_ns, text, Tone.PLAIN
        case Kind.ELECTED:
            assert sighting.partition is not None
            if sighting.partition in failover.elected:
                return None
            failover.elected[sighting.partition] = sighting
            text = f"new leader elected: broker {sighting.leader} for {sighting.partition}"
            return sighting.at_ns, text, Tone.PLAIN
        case Kind.LEADER_SEEN:
            assert sighting.partition is not None
            failover.leader_seen[sighting.partition] = sighting
            text = f"clients see the new leader: broker {sighting.leader} for {sighting.partition}"
            return sighting.at_ns, text, Tone.PLAIN


def _new_first_acks(failover: Failover, acks: list[Ack]) -> list[tuple[int, str, Tone]]:
    found = []
    for partition, elected in failover.elected.items():
        if partition in failover.first_acks:
            continue
        ack = verdict.first_ack(acks, partition.partition, after_ns=elected.at_ns)
        if ack is not None:
            failover.first_acks[partition] = ack
            text = f"first acknowledged message afterwards: {partition}"
            found.append((ack.at_ns, text, Tone.GOOD))
    return found


def _missing(failover: Failover) -> str:
    return ", ".join(
        str(partition)
        for partition in failover.target.led
        if partition not in failover.first_acks or partition not in failover.leader_seen
    )
