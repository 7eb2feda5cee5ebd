"""Limits how many partitions a client creates, adds or deletes per second (KIP-599).

Soft state: a controller starts with full buckets. A client whose bucket is not overdrawn may
continue, and may overdraw it with one request. If the bucket is overdrawn, its requests are refused
topic by topic in versions that have an error code for it; older versions are carried out, and their
client is throttled.

Source: `kafka.server.ControllerMutationQuotaManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec.structs import replace

from jbodlab.controller_api.requests import Caller, Mutator
from jbodlab.metadata.client_quota import MUTATION_RATE, quota_of
from jbodlab.metadata.image.settings_image import Quotas
from jbodlab.security.acl import ANONYMOUS, USER
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from jbodlab.vocabulary.limits import QUOTA_CLIENTS_MAX
from jbodlab.vocabulary.token_bucket import TokenBucket


class MutationQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quota left to each client that changed something; a new value for every change.

    Attributes:
        kept_s: Seconds whose rate a client may use at once: `controller.quota.window.num` of
            `controller.quota.window.size.seconds`.
    """

    kept_s: float = 11.0
    buckets: Mapping[tuple[str, ...], TokenBucket] = msgspec.field(default_factory=dict)


class Mutating(Protocol):
    """A request that creates, adds or deletes partitions."""

    @property
    def mutator(self) -> Mutator | None:
        """The client; None for a broker, which has no limit."""

    @property
    def caller(self) -> Caller | None:
        """The user of that client."""


class Mutations:
    """The changes of one request, counted while it is decided on.

    Args:
        request: The request, with its client and user.
        quotas: The limits of the metadata.
        used: Quotas that clients have left.
        now_ms: The time.
    """

    def __init__(self, request: Mutating, quotas: Quotas, used: MutationQuotas, now_ms: int):
        of, caller = request.mutator, request.caller
        self._is_strict = of is not None and of.is_strict
        self._used = used
        self._now_s = now_ms / 1_000
        self._refused = False
        self._bucket: TokenBucket | None = None
        if of is None:
            return
        user = ANONYMOUS if caller is None else caller.principal.removeprefix(f"{USER}:")
        found = quota_of(quotas, MUTATION_RATE, user, of.client_id)
        if found is None:
            return
        rate, self._shared_by = found
        known = used.buckets.get(self._shared_by)
        is_known = known is not None and known.rate == rate
        self._bucket = known if is_known else TokenBucket.full(rate, used.kept_s, self._now_s)

    def take(self, partitions: int) -> None:
        """Count partitions that are about to be created or deleted.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED, they are not to be.
        """
        if self._bucket is None:
            return
        if self._is_strict and self._bucket.debt_s(self._now_s) > 0:
            self._refused = True
            raise KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"the client has exceeded its {MUTATION_RATE}"
            )
        self._bucket = self._bucket.taken(partitions, self._now_s)

    @property
    def throttle_time_ms(self) -> int:
        """For how long the client has to wait; one that was refused nothing goes on at once."""
        if self._bucket is None or (self._is_strict and not self._refused):
            return 0
        return round(self._bucket.debt_s(self._now_s) * 1_000)

    @property
    def used(self) -> MutationQuotas | None:
        """The quota left to all clients after the request; None if it changed nothing of that."""
        if self._bucket is None:
            return None
        others = self._used.buckets if len(self._used.buckets) < QUOTA_CLIENTS_MAX else {}
        return replace(self._used, buckets={**others, self._shared_by: self._bucket})
