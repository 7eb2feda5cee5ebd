"""Access control entries, SCRAM credentials and delegation tokens.

Images and snapshots keep them unchanged. Delegation tokens have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from jbodlab.metadata.records.schema import Record
from jbodlab.metadata.records.security_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from jbodlab.vocabulary.errors import ReplayError

ScramKey = tuple[str, int]
"""User and mechanism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityImage:
    """The records, by their keys; never mutated."""

    acls: Mapping[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    scram: Mapping[ScramKey, UserScramCredentialRecord] = field(default_factory=dict)
    tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)


class SecurityDelta:
    """Changes to a SecurityImage; a map that does not change stays the same object."""

    def __init__(self, image: SecurityImage) -> None:
        self.image = image
        self._acls: dict[UUID, AccessControlEntryRecord] | None = None
        self._scram: dict[ScramKey, UserScramCredentialRecord] | None = None
        self._tokens: dict[str, DelegationTokenRecord] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there are no changes."""
        return self._acls is None and self._scram is None and self._tokens is None

    def replay(self, record: Record) -> bool:
        """Apply a record; returns False if it is none about security.

        Raises:
            ReplayError: an access control entry is removed that does not exist.
        """
        match record:
            case AccessControlEntryRecord():
                self._changed_acls()[record.id] = record
            case RemoveAccessControlEntryRecord():
                if self._changed_acls().pop(record.id, None) is None:
                    raise ReplayError(f"removal of unknown access control entry {record.id}")
            case UserScramCredentialRecord():
                self._changed_scram()[record.name, record.mechanism] = record
            case RemoveUserScramCredentialRecord():
                self._changed_scram().pop((record.name, record.mechanism), None)
            case DelegationTokenRecord():
                self._changed_tokens()[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self._changed_tokens().pop(record.token_id, None)
            case _:
                return False
        return True

    def become(self, target: SecurityImage) -> None:
        """Change all records to those of a given image."""
        if target.acls != self.image.acls:
            self._acls = dict(target.acls)
        if target.scram != self.image.scram:
            self._scram = dict(target.scram)
        if target.tokens != self.image.tokens:
            self._tokens = dict(target.tokens)

    def apply(self) -> SecurityImage:
        """Return the image after the changes."""
        if self.is_empty:
            return self.image
        image = self.image
        return SecurityImage(
            acls=image.acls if self._acls is None else self._acls,
            scram=image.scram if self._scram is None else self._scram,
            tokens=image.tokens if self._tokens is None else self._tokens,
        )

    def _changed_acls(self) -> dict[UUID, AccessControlEntryRecord]:
        if self._acls is None:
            self._acls = dict(self.image.acls)
        return self._acls

    def _changed_scram(self) -> dict[ScramKey, UserScramCredentialRecord]:
        if self._scram is None:
            self._scram = dict(self.image.scram)
        return self._scram

    def _changed_tokens(self) -> dict[str, DelegationTokenRecord]:
        if self._tokens is None:
            self._tokens = dict(self.image.tokens)
        return self._tokens
