"""The ISR as a leader knows it."""

from __future__ import annotations

from itertools import product

from broker.replica.leading.isr import FollowerState
from broker.replica.leading.leader_state import LeaderState
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def test_an_isr_of_an_older_or_the_known_partition_epoch_is_not_taken() -> None:
    state = LeaderState(
        broker_id=ONE,
        leader_epoch=LeaderEpoch(4),
        leader_epoch_start=Offset(10),
        partition_epoch=PartitionEpoch(7),
        isr=(ONE, TWO),
    )

    assert not state.committed((ONE,), PartitionEpoch(6))
    assert not state.committed((ONE, TWO, THREE), PartitionEpoch(7))
    assert (state.isr, state.partition_epoch) == ((ONE, TWO), 7)
    assert state.committed((ONE,), PartitionEpoch(8))
    assert (state.isr, state.partition_epoch) == ((ONE,), 8)


def test_high_watermark_stands_where_a_member_of_the_isr_holds_it() -> None:
    held = 0
    for ends in product(range(-1, 4), repeat=2):
        for isr in ((ONE,), (ONE, TWO), (ONE, TWO, THREE)):
            state = LeaderState(
                broker_id=ONE,
                leader_epoch=LeaderEpoch(4),
                leader_epoch_start=Offset(0),
                partition_epoch=PartitionEpoch(7),
                isr=isr,
                followers={
                    broker: FollowerState(end_offset=end, caught_up_ms=5)
                    for broker, end in zip((TWO, THREE), ends, strict=True)
                },
                joinable={TWO: 1, THREE: 1},
            )
            if state.is_held_at(1):
                held += 1
                reached = state.high_watermark(
                    1, leader_end=9, min_isr=1, now_ms=9, lag_time_max_ms=9
                )
                assert reached == 1
    assert held
    assert not state.is_held_at(1)
