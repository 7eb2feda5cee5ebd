"""Rules of the ISR: which replicas are in sync, and which records all of them have.

The leader learns a follower's log end from the offset of its next fetch: a follower that asks for
offset N has everything below N. These log ends determine the high watermark, and which replicas may
join or must leave the in-sync replicas (ISR). This module keeps no state.

All times are milliseconds of a monotonic clock.

Source: `kafka.cluster.Partition`, `kafka.cluster.Replica` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from jbodlab.vocabulary.ids import BrokerId

UNKNOWN_OFFSET = -1


class FollowerState(msgspec.Struct, frozen=True, kw_only=True):
    """The leader's knowledge of one follower since it became leader.

    Attributes:
        end_offset: The follower's log end; -1 until its first fetch in this leader epoch.
        start_offset: Where the follower's log begins; -1 until then.
        caught_up_ms: When the follower last had everything that the leader had.
        last_fetch_ms: When it last fetched.
        last_fetch_leader_end: The leader's log end at that time.
        broker_epoch: The follower's broker epoch as its fetch gave it; -1 unknown.
    """

    end_offset: int = UNKNOWN_OFFSET
    start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = 0
    last_fetch_ms: int = 0
    last_fetch_leader_end: int = UNKNOWN_OFFSET
    broker_epoch: int = -1


def after_fetch(
    state: FollowerState,
    *,
    fetch_offset: int,
    start_offset: int = UNKNOWN_OFFSET,
    leader_end: int,
    now_ms: int,
    broker_epoch: int,
) -> FollowerState:
    """Return a follower's state after a valid fetch at an offset.

    A follower of a busy leader never holds the leader's newest record. It counts as caught up to
    the time of its previous fetch once it has what the leader had then.
    """
    caught_up_ms = state.caught_up_ms
    if fetch_offset >= leader_end:
        caught_up_ms = now_ms
    elif state.last_fetch_leader_end >= 0 and fetch_offset >= state.last_fetch_leader_end:
        caught_up_ms = max(caught_up_ms, state.last_fetch_ms)
    return FollowerState(
        end_offset=fetch_offset,
        start_offset=start_offset,
        caught_up_ms=caught_up_ms,
        last_fetch_ms=now_ms,
        last_fetch_leader_end=leader_end,
        broker_epoch=broker_epoch,
    )


def had_all(state: FollowerState, at_ms: int) -> FollowerState:
    """Return the state of a follower that repeated its last fetch, at the leader's end, until then.

    A follower that has everything is not asked for each repetition; it is caught up on here.
    """
    if at_ms <= state.last_fetch_ms:
        return state
    return replace(state, caught_up_ms=max(state.caught_up_ms, at_ms), last_fetch_ms=at_ms)


def put_out(state: FollowerState) -> FollowerState:
    """Return the state of a follower of which nothing counts before it fetches again."""
    return FollowerState(last_fetch_ms=state.last_fetch_ms, broker_epoch=state.broker_epoch)


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """Return how many in-sync replicas acks=all needs; never more than there are replicas."""
    return min(min_insync_replicas, replica_count)


def caught_up(
    followers: Mapping[BrokerId, FollowerState], *, now_ms: int, lag_time_max_ms: int
) -> set[BrokerId]:
    """Return the followers that had the leader's end at most `replica.lag.time.max.ms` ago."""
    return {
        broker
        for broker, state in followers.items()
        if state.end_offset >= 0 and now_ms - state.caught_up_ms <= lag_time_max_ms
    }


def lagging(
    isr: Iterable[BrokerId],
    followers: Mapping[BrokerId, FollowerState],
    *,
    leader_end: int,
    now_ms: int,
    lag_time_max_ms: int,
) -> frozenset[BrokerId]:
    """Return the members of the ISR that must leave it; the leader is not in `followers`."""
    return frozenset(
        broker
        for broker in isr
        if (state := followers.get(broker)) is not None
        and state.end_offset != leader_end
        and now_ms - state.caught_up_ms > lag_time_max_ms
    )


def may_join(
    state: FollowerState, *, high_watermark: int, leader_epoch_start: int, registered_epoch: int
) -> bool:
    """Return whether a follower outside of the ISR has what it takes to join.

    Args:
        state: The follower's state after its fetch.
        high_watermark: The leader's.
        leader_epoch_start: First offset of the leader's epoch. A follower behind it may still hold
            records that the leader does not have.
        registered_epoch: The follower's broker epoch in the metadata. A fetch of an earlier
            process says nothing about the log of the one that is registered now.
    """
    return (
        state.end_offset >= high_watermark
        and state.end_offset >= leader_epoch_start
        and state.broker_epoch in (-1, registered_epoch)
    )


def high_watermark(
    current: int,
    *,
    leader_end: int,
    followers: Mapping[BrokerId, FollowerState],
    waits_for: Collection[BrokerId],
) -> int:
    """Return the high watermark: what the leader and everybody waited for have.

    Args:
        current: The high watermark so far, which never decreases.
        leader_end: End of what the leader has written.
        followers: States of the followers; an end of -1 holds the high watermark where it is.
        waits_for: Members of the maximal ISR, and followers about to join it.
    """
    lowest = leader_end
    for broker in waits_for:
        state = followers.get(broker)
        if state is not None and state.end_offset < lowest:
            lowest = state.end_offset
    return max(current, lowest)
