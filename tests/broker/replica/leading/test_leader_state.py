"""The ISR as a leader knows it."""

from __future__ import annotations

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
