"""Access control entries, and users who log in by SCRAM: since when and until when there are.

The salt and the keys of a user are in no row: a reader who has them can pose as the cluster.
"""

from __future__ import annotations

from analytics.rare.key_history import Event, Held, History, Moment, Row, Sync
from jbodlab.metadata.records.secrets import REDACTED
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.security.acl import AclOperation, PatternType, Permission, ResourceType
from jbodlab.security.scram import ScramMechanism
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.errors import ReplayError


def _name(kind: type[AclOperation | PatternType | Permission | ResourceType], code: int) -> str:
    """Return the name of a code; of one that is not known, its number."""
    found = kind._value2member_map_.get(code)
    return str(code) if found is None else str(getattr(found, "name", code)).lower()


class AclFold:
    """All access control entries: a removal names one by its id only."""

    def __init__(self) -> None:
        self.history = History()
        self.held = Held(self.history, "acl", self._row)

    def replay(self, event: Event) -> None:
        """Apply a record; raises ReplayError where an entry is removed that is not there."""
        moment = Moment.of(event)
        match event.record:
            case AccessControlEntryRecord() as record:
                self.held.become(kafka_uuid.to_text(record.id), record, moment)
            case RemoveAccessControlEntryRecord(id=entry_id):
                key = kafka_uuid.to_text(entry_id)
                if self.held.get(key) is None:
                    raise ReplayError(f"removal of unknown access control entry {key}")
                self.held.become(key, None, moment)
            case record:
                raise AssertionError(f"{type(record).__name__} is not an access control entry")

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says."""
        target = {
            kafka_uuid.to_text(record.id): record
            for event in events
            if isinstance(record := event.record, AccessControlEntryRecord)
        }
        for key in sorted(self.held.values.keys() | target.keys()):
            if not sync.is_base and self.held.get(key) != target.get(key):
                what = f"access control entry {key} differs in the snapshot"
                self.history.problem(sync.file, sync.offset, "disagreement", what)
            self.held.become(key, target.get(key), sync.moment)

    def finish(self) -> None:
        """Emit what still holds."""
        self.held.finish()

    def _row(self, key: str, record: AccessControlEntryRecord) -> Row:
        return {
            "id": key,
            "principal": record.principal,
            "permission": _name(Permission, record.permission_type),
            "operation": _name(AclOperation, record.operation),
            "resource_type": _name(ResourceType, record.resource_type),
            "resource_name": record.resource_name,
            "pattern": _name(PatternType, record.pattern_type),
            "host": record.host,
        }


class ScramFold:
    """What one user may log in by."""

    def __init__(self, user: str) -> None:
        self.history = History()
        self.user = user
        self.held = Held(self.history, "scram_user", self._row)

    def replay(self, event: Event) -> None:
        """Apply a record: a password, or that there is none."""
        moment = Moment.of(event)
        match event.record:
            case UserScramCredentialRecord(mechanism=mechanism) as record:
                self.held.become(mechanism, record, moment)
            case RemoveUserScramCredentialRecord(mechanism=mechanism):
                self.held.become(mechanism, None, moment)
            case record:
                raise AssertionError(f"{type(record).__name__} is not a credential")

    def sync(self, sync: Sync, events: list[Event]) -> None:
        """Compare with, and take over, what a snapshot says."""
        target = {
            record.mechanism: record
            for event in events
            if isinstance(record := event.record, UserScramCredentialRecord)
        }
        for mechanism in sorted(self.held.values.keys() | target.keys()):
            if not sync.is_base and self.held.get(mechanism) != target.get(mechanism):
                what = f"user {self.user!r}: the credential differs in the snapshot"
                self.history.problem(sync.file, sync.offset, "disagreement", what)
            self.held.become(mechanism, target.get(mechanism), sync.moment)

    def finish(self) -> None:
        """Emit what still holds."""
        self.held.finish()

    def _row(self, mechanism: int, record: UserScramCredentialRecord) -> Row:
        known = mechanism in ScramMechanism._value2member_map_
        return {
            "user": self.user,
            "mechanism": ScramMechanism(mechanism).text if known else str(mechanism),
            "iterations": record.iterations,
            "keys": REDACTED,
        }
