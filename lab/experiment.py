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
from lab.traffic import Consumer, Producer
from lab.verdict import Verdict
from lab.watch import Target

TOPIC = "demo"
PARTITIONS, REPLICATION_FACTOR, MIN_ISR = 6, 3, 2
RATE_PER_S = 500
BEFORE_FAULT_S = 3.0
WARM_UP_S = 10.0
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
    consumer = Consumer(bootstrap, TOPIC, PARTITIONS)
    producer.start()
    consumer.start()
    try:
        screen.detail(
            f"idempotent producer with acks=all, {RATE_PER_S} messages/s; consumer by assignment"
        )
        _warm_up(producer)
        time.sleep(BEFORE_FAULT_S)
        target = failover.choose_target(state, TOPIC)
        screen.detail(f"{len(producer.acks)} messages acknowledged so far")
        screen.heading(_fault_heading(target))
        seen = failover.run(state, target, producer, state_dir, screen)
        producer.stop()
        producer.join()
        consumer.finish(_ends(producer), CONSUMER_PATIENCE_S)
        consumer.join()
    finally:
        producer.abort()
        consumer.stop()
        for thread in (producer, consumer):
            thread.join(JOIN_TIMEOUT_S)
    outcome = _outcome(seen, producer, consumer)
    _print(outcome, producer, screen)
    return outcome


def _warm_up(producer: Producer) -> None:
    deadline = time.monotonic() + WARM_UP_S
    while len({ack.partition for ack in producer.acks}) < PARTITIONS:
        if time.monotonic() > deadline:
            reasons = ", ".join(sorted(set(producer.failures))) or "no answer"
            raise LabError(
                f"after {WARM_UP_S:.0f} s not every partition has acknowledged a message: {reasons}"
            )
        time.sleep(0.05)


def _fault_heading(target: Target) -> str:
    led = ", ".join(map(str, target.led))
    followed = ", ".join(map(str, target.followed)) or "nothing"
    return (
        f"Broker {target.broker.node_id} loses log directory {target.number} of "
        f"{len(target.broker.log_dirs)}: it leads {led} there, and follows {followed}"
    )


def _ends(producer: Producer) -> dict[int, int]:
    """Return, for each partition, the offset after the last acknowledged message."""
    ends: dict[int, int] = {}
    for ack in producer.acks:
        ends[ack.partition] = max(ends.get(ack.partition, 0), ack.offset + 1)
    return ends


def _outcome(seen: Failover, producer: Producer, consumer: Consumer) -> Outcome:
    last_leader_ns = max(sighting.at_ns for sighting in seen.leader_seen.values())
    return Outcome(
        seen=seen,
        verdict=verdict.judge(producer.acks, consumer.messages),
        longest_gap_ms=verdict.longest_gap_ms(producer.acks, after_ns=seen.fault_ns),
        longest_partition_gap_ms=verdict.longest_partition_gap_ms(
            producer.acks, after_ns=seen.fault_ns
        ),
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
