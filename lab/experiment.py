"""The heart of the demo: produce and consume, break a disk, judge what became of the messages."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from jbodlab.lab_state import ClusterState
from lab import failover, traffic, verdict
from lab.errors import LabError
from lab.failover import Failover
from lab.screen import Screen, Tone
from lab.traffic import ConsumerGroup, Producer
from lab.verdict import Verdict
from lab.watch import Target

TOPIC = "demo"
PARTITIONS, REPLICATION_FACTOR, MIN_ISR = 6, 3, 2
RATE_PER_S = 500
CONSUMERS = 2
BEFORE_FAULT_S = 3.0
WARM_UP_S = 20.0
"""Longest wait for the first acknowledgements."""
CONSUMER_PATIENCE_S = 10.0
"""Time without a message after which the consumer believes that no more will come."""
JOIN_TIMEOUT_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it; `unacknowledged` are messages that were given up by the client."""

    seen: Failover
    verdict: Verdict
    longest_gap_ms: float
    longest_partition_gap_ms: float
    longest_consumed_gap_ms: float
    """As the group of consumers saw it."""
    seen_twice: int
    """Messages that the group was given again, as they were not committed."""
    rebalances: int
    new_leader_ms: float
    unacknowledged: int

    @property
    def problems(self) -> list[str]:
        """What must not have happened."""
        found = []
        if not self.verdict.is_clean:
            found.append("messages were lost, duplicated or out of order")
        if self.unacknowledged:
            found.append(f"{self.unacknowledged} messages were never acknowledged")
        return found

    def to_json(self) -> str:
        """Return the figures as JSON, times in milliseconds since the fault."""
        seen = self.seen

        def since_ms(at_ns: int) -> float:
            return round((at_ns - seen.fault_ns) / 1e6, 3)

        return json.dumps(
            {
                "broker": seen.target.broker.node_id,
                "log_dir": seen.target.path,
                "partitions_led": [str(partition) for partition in seen.target.led],
                "offline_ms": since_ms(seen.offline_ns) if seen.offline_ns else None,
                "offline_seen_ms": since_ms(seen.offline_seen_ns),
                "reported_ms": since_ms(seen.reported_ns) if seen.reported_ns else None,
                "elected_ms": {str(p): since_ms(s.at_ns) for p, s in seen.elected.items()},
                "leader_seen_ms": {str(p): since_ms(s.at_ns) for p, s in seen.leader_seen.items()},
                "first_ack_ms": {str(p): since_ms(a.at_ns) for p, a in seen.first_acks.items()},
                "longest_gap_ms": round(self.longest_gap_ms, 3),
                "longest_partition_gap_ms": round(self.longest_partition_gap_ms, 3),
                "longest_consumed_gap_ms": round(self.longest_consumed_gap_ms, 3),
                "seen_twice": self.seen_twice,
                "rebalances": self.rebalances,
                "unacknowledged": self.unacknowledged,
                **asdict(self.verdict),
            },
            indent=1,
        )


def run(state: ClusterState, state_dir: Path, screen: Screen) -> Outcome:
    """Run it on a cluster that is up.

    Raises:
        LabError: it could not be carried through.
    """
    bootstrap = state.bootstrap
    traffic.create_topic(
        bootstrap,
        TOPIC,
        partitions=PARTITIONS,
        replication_factor=REPLICATION_FACTOR,
        min_isr=MIN_ISR,
    )
    screen.detail(
        f"topic {TOPIC}: {PARTITIONS} partitions, replication factor {REPLICATION_FACTOR}, "
        f"min.insync.replicas {MIN_ISR}"
    )
    producer = Producer(bootstrap, TOPIC, PARTITIONS, RATE_PER_S)
    group = ConsumerGroup(bootstrap, TOPIC, CONSUMERS)
    producer.start()
    group.start()
    try:
        screen.detail(
            f"idempotent producer with acks=all, {RATE_PER_S} messages/s; {CONSUMERS} consumers in "
            "a group"
        )
        warm_up(producer, group, PARTITIONS)
        time.sleep(BEFORE_FAULT_S)
        target = failover.choose_target(state, TOPIC)
        screen.detail(f"{len(producer.acks)} messages acknowledged so far")
        screen.heading(_fault_heading(target))
        seen = failover.run(state, target, producer, state_dir, screen)
        producer.stop()
        producer.join()
        group.finish(ends(producer), CONSUMER_PATIENCE_S)
        group.join()
    finally:
        producer.abort()
        group.stop()
        for work in (producer, group):
            work.join(JOIN_TIMEOUT_S)
    outcome = _outcome(seen, producer, group)
    _print(outcome, producer, screen)
    return outcome


def warm_up(producer: Producer, group: ConsumerGroup, partitions: int) -> None:
    """Wait until every partition has acknowledged a message that the group was given.

    Raises:
        LabError: one has not in time.
    """
    deadline = time.monotonic() + WARM_UP_S
    while any(
        len({each.partition for each in seen}) < partitions
        for seen in (list(producer.acks), list(group.messages))
    ):
        if time.monotonic() > deadline:
            reasons = ", ".join(sorted(set(producer.failures))) or "no answer"
            raise LabError(
                f"after {WARM_UP_S:.0f} s not every partition has acknowledged a message that the "
                f"group was given: {reasons}"
            )
        time.sleep(0.05)


def _fault_heading(target: Target) -> str:
    led = ", ".join(map(str, target.led))
    followed = ", ".join(map(str, target.followed)) or "nothing"
    return (
        f"Broker {target.broker.node_id} loses log directory {target.number} of "
        f"{len(target.broker.log_dirs)}: it leads {led} there, and follows {followed}"
    )


def ends(producer: Producer) -> dict[int, int]:
    """Return, for each partition, the offset after the last acknowledged message."""
    found: dict[int, int] = {}
    for ack in producer.acks:
        found[ack.partition] = max(found.get(ack.partition, 0), ack.offset + 1)
    return found


def _outcome(seen: Failover, producer: Producer, group: ConsumerGroup) -> Outcome:
    last_leader_ns = max(sighting.at_ns for sighting in seen.leader_seen.values())
    return Outcome(
        seen=seen,
        verdict=verdict.judge(producer.acks, group.messages),
        longest_gap_ms=verdict.longest_gap_ms(producer.acks, after_ns=seen.fault_ns),
        longest_partition_gap_ms=verdict.longest_partition_gap_ms(
            producer.acks, after_ns=seen.fault_ns
        ),
        longest_consumed_gap_ms=verdict.longest_gap_ms(group.messages, after_ns=seen.fault_ns),
        seen_twice=verdict.seen_twice(group.messages),
        rebalances=group.rebalances(after_ns=seen.fault_ns),
        new_leader_ms=(last_leader_ns - seen.fault_ns) / 1e6,
        unacknowledged=len(producer.failures) + producer.unanswered,
    )


def _print(outcome: Outcome, producer: Producer, screen: Screen) -> None:
    found = outcome.verdict
    screen.heading("Messages")
    screen.detail(f"acknowledged   {found.acknowledged:>7}")
    for label, count in (
        ("lost", found.lost),
        ("duplicated", found.duplicated),
        ("out of order", found.out_of_order),
    ):
        screen.line(f"  {label:<14} {count:>7}", Tone.BAD if count else Tone.GOOD)
    if outcome.unacknowledged:
        reasons = ", ".join(sorted(set(producer.failures))) or "no answer"
        screen.line(f"  never acknowledged {outcome.unacknowledged}: {reasons}", Tone.BAD)
    screen.line()
    screen.detail(
        f"fault to the last new leader in clients' metadata  {outcome.new_leader_ms:>6.0f} ms"
    )
    screen.detail(
        f"longest gap between acknowledgements              {outcome.longest_gap_ms:>6.0f} ms"
    )
    screen.detail(
        f"the same within one partition                     "
        f"{outcome.longest_partition_gap_ms:>6.0f} ms"
    )
    screen.detail(
        f"longest gap between messages of the consumer group "
        f"{outcome.longest_consumed_gap_ms:>7.0f} ms"
    )
    screen.detail(
        f"the group rebalanced {outcome.rebalances} times, and was given {outcome.seen_twice} "
        "messages twice"
    )
