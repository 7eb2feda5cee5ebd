"""Access control entries, SCRAM credentials and delegation tokens.

Images and snapshots keep them unchanged; this project does not enforce them.
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
    """Changes to a SecurityImage; all three maps are copied at the first change."""

    def __init__(self, image: SecurityImage) -> None:
        self.image = image
        self.is_empty = True
        self._acls: dict[UUID, AccessControlEntryRecord] = {}
        self._scram: dict[ScramKey, UserScramCredentialRecord] = {}
        self._tokens: dict[str, DelegationTokenRecord] = {}

    def replay(self, record: Record) -> bool:
        """Apply a record; returns False if it is none about security.

        Raises:
            ReplayError: an access control entry is removed that does not exist.
        """
        match record:
            case AccessControlEntryRecord():
                self._copy()
                self._acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                self._copy()
                if self._acls.pop(record.id, None) is None:
                    raise ReplayError(f"removal of unknown access control entry {record.id}")
            case UserScramCredentialRecord():
                self._copy()
                self._scram[record.name, record.mechanism] = record
            case RemoveUserScramCredentialRecord():
                self._copy()
                self._scram.pop((record.name, record.mechanism), None)
            case DelegationTokenRecord():
                self._copy()
                self._tokens[record.token_id] = record
            case RemoveDelegationTokenRecord():
                self._copy()
                self._tokens.pop(record.token_id, None)
            case _:
                return False
        return True

    def become(self, target: SecurityImage) -> None:
        """Change all records to those of a given image."""
        if target != self.image:
            self.is_empty = False
            self._acls = dict(target.acls)
            self._scram = dict(target.scram)
            self._tokens = dict(target.tokens)

    def apply(self) -> SecurityImage:
        """Return the image after the changes."""
        if self.is_empty:
            return self.image
        return SecurityImage(acls=self._acls, scram=self._scram, tokens=self._tokens)

    def _copy(self) -> None:
        if self.is_empty:
            self.is_empty = False
            self._acls = dict(self.image.acls)
            self._scram = dict(self.image.scram)
            self._tokens = dict(self.image.tokens)
