"""Soft state: when each broker last sent a heartbeat, and what it said. A restart forgets it.

Whether a broker is fenced is not soft state: its registration contains it, and every operation
changes it before the next one runs.

Source: `org.apache.kafka.controller.BrokerHeartbeatManager`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from controller.decide.degraded import HEALTHY, Degraded, DegradedDirs
from jbodlab.metadata.image.broker_registration import BrokerRegistration
from jbodlab.metadata.image.cluster_image import ClusterImage
from jbodlab.vocabulary.ids import BrokerId, DirectoryId, Offset

UNKNOWN_OFFSET = Offset(-1)


class Contact(msgspec.Struct, frozen=True, kw_only=True):
    """The last that was heard of one broker.

    Attributes:
        last_contact_ms: When; on the clock of `now_ms`.
        metadata_offset: How far it had applied the metadata log; -1 before its first heartbeat.
        controlled_shutdown_offset: Offset of the last record of its controlled shutdown, which the
            other brokers must reach before it may go; None outside of a controlled shutdown.
        offline_log_dirs: The failed directories that it named; None before its first heartbeat to
            this controller, when it may name some that failed long ago.
        degraded_log_dirs: Directories that its last heartbeat named as full or slow.
        metadata_log_dir: Where it keeps the metadata log; None if it did not say.
        end_offset: End of the metadata log when it was heard of; -1 if that was not looked at.
        caught_up_ms: When it had last all that there was; None if it was not since this controller
            began.
        has_session: Whether the end of its session is still to be written; a session begins with
            the first heartbeat.
    """

    last_contact_ms: int
    metadata_offset: Offset = UNKNOWN_OFFSET
    controlled_shutdown_offset: Offset | None = None
    offline_log_dirs: frozenset[DirectoryId] | None = None
    degraded_log_dirs: DegradedDirs = HEALTHY
    metadata_log_dir: DirectoryId | None = None
    end_offset: Offset = UNKNOWN_OFFSET
    caught_up_ms: int | None = None
    has_session: bool = True

    def caught_up_at(self, metadata_offset: Offset) -> int | None:
        """Return when a broker that is now so far had all that there was, as known by this contact.

        Source: `org.apache.kafka.raft.LeaderState.ReplicaState.updateFollowerState`.
        """
        is_known = self.end_offset != UNKNOWN_OFFSET
        if is_known and metadata_offset + 1 >= self.end_offset:
            return self.last_contact_ms
        return self.caught_up_ms


class Heartbeats(msgspec.Struct, frozen=True, kw_only=True):
    """The contacts of all registered brokers; a new value for every change.

    Attributes:
        awaited_until_ms: Time until which a new controller waits for the first heartbeats.
    """

    session_timeout_ms: int
    contacts: Mapping[BrokerId, Contact] = msgspec.field(default_factory=dict)
    awaited_until_ms: int = 0

    @classmethod
    def at_activation(
        cls,
        brokers: Mapping[BrokerId, BrokerRegistration],
        session_timeout_ms: int,
        now_ms: int,
        *,
        interval_ms: int = 0,
    ) -> Heartbeats:
        """Return the state with which a controller begins: everybody was heard of just now.

        A broker that was about to leave goes on leaving; Kafka forgets that it was.

        Args:
            brokers: All registered ones.
            session_timeout_ms: After the last contact.
            now_ms: On the clock of the sessions.
            interval_ms: Between two heartbeats of a broker; two of them are waited for.
        """
        contacts = {
            broker_id: Contact(
                last_contact_ms=now_ms,
                has_session=not registration.fenced,
                controlled_shutdown_offset=(
                    Offset(registration.record_offset)
                    if registration.in_controlled_shutdown and not registration.fenced
                    else None
                ),
            )
            for broker_id, registration in brokers.items()
        }
        return cls(
            session_timeout_ms=session_timeout_ms,
            contacts=contacts,
            awaited_until_ms=now_ms + 2 * interval_ms,
        )

    def with_contact(self, broker_id: BrokerId, contact: Contact) -> Heartbeats:
        """Return the state with one contact replaced."""
        return replace(self, contacts={**self.contacts, broker_id: contact})

    def without(self, broker_id: BrokerId) -> Heartbeats:
        """Return the state without a broker."""
        rest = {known: contact for known, contact in self.contacts.items() if known != broker_id}
        return replace(self, contacts=rest)

    def touched(self, broker_id: BrokerId, metadata_offset: Offset, now_ms: int) -> Heartbeats:
        """Return the state after a sign of life that changes nothing else."""
        old = self.contacts.get(broker_id, Contact(last_contact_ms=now_ms))
        return self.with_contact(
            broker_id,
            replace(
                old,
                last_contact_ms=now_ms,
                metadata_offset=metadata_offset,
                end_offset=UNKNOWN_OFFSET,
                caught_up_ms=old.caught_up_at(metadata_offset),
                has_session=True,
            ),
        )

    def degraded(self) -> Degraded:
        """Return the directories that their brokers say are full or slow."""
        return Degraded(
            {
                broker_id: contact.degraded_log_dirs
                for broker_id, contact in self.contacts.items()
                if contact.degraded_log_dirs.degraded
            }
        )

    def are_known(self, cluster: ClusterImage, now_ms: int) -> bool:
        """Return whether all unfenced brokers have told which directories are full, or had time to.

        A leader that is moved before may come into a full directory.
        """
        return now_ms >= self.awaited_until_ms or all(
            registration.fenced
            or (contact := self.contacts.get(broker_id)) is None
            or contact.offline_log_dirs is not None
            for broker_id, registration in cluster.brokers.items()
        )

    def session_is_valid(self, broker_id: BrokerId, now_ms: int) -> bool:
        """Return whether a broker was heard of within the session timeout."""
        contact = self.contacts.get(broker_id)
        return contact is not None and contact.last_contact_ms + self.session_timeout_ms >= now_ms

    def in_controlled_shutdown(self, broker_id: BrokerId) -> bool:
        """Return whether a broker is on its way out."""
        contact = self.contacts.get(broker_id)
        return contact is not None and contact.controlled_shutdown_offset is not None

    def longest_silent(self, cluster: ClusterImage) -> BrokerId | None:
        """Return the broker with a session that has the oldest contact; None without any."""
        with_session = [
            (contact.last_contact_ms, broker_id)
            for broker_id, contact in self.contacts.items()
            if contact.has_session and broker_id in cluster.brokers
        ]
        return min(with_session)[1] if with_session else None

    def next_expiry_ms(self, cluster: ClusterImage) -> int | None:
        """Return when the next session ends without a heartbeat; None without sessions."""
        broker_id = self.longest_silent(cluster)
        if broker_id is None:
            return None
        return self.contacts[broker_id].last_contact_ms + self.session_timeout_ms + 1

    def lowest_active_offset(self, cluster: ClusterImage) -> float:
        """Return the lowest metadata offset of all active brokers; infinite without any."""
        return min(
            (
                contact.metadata_offset
                for broker_id, contact in self.contacts.items()
                if contact.controlled_shutdown_offset is None
                and broker_id in cluster.brokers
                and not cluster.brokers[broker_id].fenced
            ),
            default=float("inf"),
        )
