"""Classic groups: their members agree on a generation, and their leader assigns partitions.

How to think about it. A group is *Empty*, *Stable*, or between the two in a rebalance, which has
two halves. In *PreparingRebalance* members join: their requests are parked until all have come or
time is over. Then a generation begins, everybody is answered, and in *CompletingRebalance* members
ask for their assignment: these requests are parked until the leader has brought all assignments and
the record that holds them is committed. Only Empty and Stable have a record, so that a failover in
the middle of a rebalance goes back to the last generation that was stored.

Kafka's fifth state, Dead, does not occur: a group that is deleted is not there any more.

Source: `org.apache.kafka.coordinator.group.classic.ClassicGroup`, KIP-345, KIP-394.
"""
