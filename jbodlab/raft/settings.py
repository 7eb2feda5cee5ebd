"""Timing of the quorum, by the names of Kafka's keys `controller.quorum.*`."""

from __future__ import annotations

import msgspec


class RaftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Times in ms, sizes in bytes.

    Attributes:
        election_timeout_ms: An election timer is this time and a random part of it once more.
        fetch_timeout_ms: How long a follower waits for a good answer of its leader. A leader
            resigns after one and a half of it without a majority.
        election_backoff_max_ms: Longest pause of a successor after EndQuorumEpoch.
        fetch_wait_ms: How long a leader keeps a Fetch without news.
        suspect_ms: Pause between the suspicion that the leader's process is gone and the first
            pre-vote; -1: there is no suspicion, as in Kafka.
        suspect_stagger_ms: Further pause for each voter with a lower id.
        disk_slow_ms: Time of a write from which the disk is slow; 0: never.
        auto_join: Whether an observer asks to be a voter.
    """

    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    election_backoff_max_ms: int = 1_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_wait_ms: int = 500
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    suspect_ms: int = 100
    suspect_stagger_ms: int = 60
    disk_slow_ms: int = 1_000
    auto_join: bool = False

    @property
    def check_quorum_ms(self) -> int:
        """How long a leader goes on without a majority."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_ms(self) -> int:
        """How long a voter may be silent before its leader tells it who leads."""
        return self.fetch_timeout_ms // 2
