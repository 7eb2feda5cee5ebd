"""State of one client connection."""

from __future__ import annotations

import msgspec

from jbodlab.security.acl import ANONYMOUS, USER
from jbodlab.server.authentication import Authentication


class Session(msgspec.Struct, eq=False, kw_only=True):
    """A client and the rules of its connection, which owns it; requests refer to it."""

    listener_name: str
    peer: str = ""
    """Address and port of the client, for logs."""
    user: str = ANONYMOUS
    """On whose behalf the requests are, without the type `User`; its quotas apply."""
    software_name: str = ""
    """From ApiVersions 3; empty before, and of clients that never send that version."""
    software_version: str = ""
    authentication: Authentication | None = None
    """The login of the client; None on listeners without one."""
    closes: bool = False
    """No further request is started, and the connection is closed after the last response."""
    muted_until_s: float = 0.0
    """No further request is started before this time of the loop's clock."""

    @property
    def principal(self) -> str:
        """The user as access control entries name it, such as `User:alice`."""
        return f"{USER}:{self.user}"
