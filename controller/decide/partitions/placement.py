"""On which brokers the replicas of new partitions are placed.

Stripes: the brokers of each rack stand in a circle, and the racks in another; every partition
starts one place further than the one before, in all circles. A partition takes its leader from the
first rack that has an unfenced broker, and its other replicas one rack after the other, so that
racks are used evenly before brokers are. In a rack, unfenced brokers come before fenced ones.

    brokers 0-3 without racks, first start 2, three replicas:  2 3 0   3 0 1   0 1 2   1 2 3

After as many partitions as there are unfenced brokers all circles are shuffled, because the same
neighbours would follow each other for ever. Directories and load play no part.

Source: `org.apache.kafka.metadata.placement.StripedReplicaPlacer`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from controller.decide.state import Randomness
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.ids import BrokerId


class UsableBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A broker on which replicas may be placed."""

    broker_id: BrokerId
    rack: str | None = None
    fenced: bool = False


def place(
    brokers: Sequence[UsableBroker],
    partition_count: int,
    replication_factor: int,
    randomness: Randomness,
) -> list[tuple[BrokerId, ...]]:
    """Return the replicas of each new partition, its leader first.

    Raises:
        KafkaError: INVALID_REPLICATION_FACTOR: there are too few brokers, or none unfenced.
    """
    _check(brokers, replication_factor)
    stripes = _Stripes(brokers, randomness)
    return [stripes.next_partition(replication_factor) for _ in range(partition_count)]


def _check(brokers: Sequence[UsableBroker], replication_factor: int) -> None:
    problem = None
    if replication_factor <= 0:
        problem = (
            f"Invalid replication factor {replication_factor}: the replication factor must be "
            "positive."
        )
    elif all(broker.fenced for broker in brokers):
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > len(brokers):
        problem = (
            f"The target replication factor of {replication_factor} cannot be reached because "
            f"only {len(brokers)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, problem)


class _Circle:
    """Brokers of one rack, fenced or unfenced, that are taken from a start on."""

    def __init__(self, brokers: list[BrokerId], randomness: Randomness) -> None:
        self.brokers = sorted(brokers)
        self._start = randomness.randrange(len(brokers)) if brokers else 0
        self._taken = 0

    def take(self) -> BrokerId | None:
        """Return the next broker; None when each was returned for this partition."""
        if self._taken == len(self.brokers):
            return None
        broker = self.brokers[(self._start + self._taken) % len(self.brokers)]
        self._taken += 1
        return broker

    def advance(self) -> None:
        """Begin the next partition, one place further."""
        self._taken = 0
        if self.brokers:
            self._start = (self._start + 1) % len(self.brokers)


class _Rack:
    def __init__(self, brokers: list[UsableBroker], randomness: Randomness) -> None:
        self.unfenced = _Circle([b.broker_id for b in brokers if not b.fenced], randomness)
        self.fenced = _Circle([b.broker_id for b in brokers if b.fenced], randomness)

    def take(self) -> BrokerId | None:
        broker = self.unfenced.take()
        return self.fenced.take() if broker is None else broker


class _Stripes:
    def __init__(self, brokers: Sequence[UsableBroker], randomness: Randomness) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        # No rack comes first.
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._start = randomness.randrange(len(names))
        self._racks = [_Rack(by_rack[name], randomness) for name in names]
        self._randomness = randomness
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._placed = 0

    def next_partition(self, replication_factor: int) -> tuple[BrokerId, ...]:
        if self._placed == self._unfenced_count > 1:
            self._shuffle()
        order = self._racks[self._start :] + self._racks[: self._start]
        leader, leader_rack = self._leader(order)
        replicas = [leader]
        # The leader's rack has given its replica of the first round already.
        round_of_racks = [rack for rack in order if rack is not leader_rack]
        while len(replicas) < replication_factor:
            for rack in round_of_racks:
                broker = rack.take()
                if broker is not None and len(replicas) < replication_factor:
                    replicas.append(broker)
            round_of_racks = order
        self._advance()
        return tuple(replicas)

    @staticmethod
    def _leader(order: list[_Rack]) -> tuple[BrokerId, _Rack]:
        for rack in order:
            broker = rack.unfenced.take()
            if broker is not None:
                return broker, rack
        raise AssertionError("no broker is unfenced")

    def _advance(self) -> None:
        self._placed += 1
        self._start = (self._start + 1) % len(self._racks)
        for rack in self._racks:
            rack.unfenced.advance()
            rack.fenced.advance()

    def _shuffle(self) -> None:
        self._randomness.shuffle(self._racks)
        for rack in self._racks:
            self._randomness.shuffle(rack.unfenced.brokers)
            self._randomness.shuffle(rack.fenced.brokers)
        self._placed = 0
