"""Sessions of users whose credential has changed: they end at once.

Beyond Kafka, where a removed user keeps a connection until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.image.metadata_image import MetadataImage
from jbodlab.security.scram import MECHANISMS
from jbodlab.server.authentication import Authentication
from jbodlab.server.listener import Listener


class UserSessions:
    """Follows the metadata.

    Args:
        listeners: Where users are logged in.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Close the connections of users whose SCRAM credential was changed or removed."""
        before, now = delta.image.security.scram, image.security.scram
        if before is now:
            return

        def has_changed(login: Authentication) -> bool:
            mechanism = MECHANISMS.get(login.mechanism)
            if mechanism is None:
                return False
            key = (login.user, int(mechanism))
            return before.get(key) != now.get(key)

        for listener in self._listeners:
            listener.close_sessions(has_changed)
