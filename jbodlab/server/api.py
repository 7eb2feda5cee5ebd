"""A server's declaration of one API: versions, limits, resources, and the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.server.answer import Handler
from jbodlab.server.resources import Resources
from jbodlab.vocabulary.limits import MAX_REQUEST_ITEMS

Parts = TypeVar("Parts")


class Api(msgspec.Struct, Generic[Parts], frozen=True, kw_only=True):
    """One API; made once, at its handler.

    Attributes:
        versions: First and last version that ApiVersions names.
        accepted: First and last version that is decoded; None where they are the same.
        max_items: Most items in all arrays of a request together.
        has_records: Whether a request is as large as its records, which are not decoded. Such a
            request has no limit but that of the listener, is never worked on aside, and the next
            one of its connection may start before it is answered.
        resources: Resources that a request touches.
        handler: Makes the handler of the parts of a server.
    """

    key: ApiKey
    versions: tuple[int, int]
    accepted: tuple[int, int] | None = None
    max_items: int = MAX_REQUEST_ITEMS
    has_records: bool = False
    resources: Resources
    handler: Callable[[Parts], Handler]

    @property
    def accepted_versions(self) -> range:
        """Every version that is answered."""
        low, high = self.accepted or self.versions
        return range(low, high + 1)
