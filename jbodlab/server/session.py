"""State of one client connection."""

from __future__ import annotations

import msgspec

from jbodlab.runtime.client_quota import ANONYMOUS


class Session(msgspec.Struct, eq=False, kw_only=True):
    """Who is connected and what applies to the connection, which owns it; requests refer to it."""

    listener_name: str
    peer: str = ""
    """Address and port of the client, for logs."""
    principal: str = ANONYMOUS
    """User on whose behalf the requests are; its quotas apply."""
    software_name: str = ""
    """From ApiVersions 3; empty before, and of clients that never send that version."""
    software_version: str = ""
    muted_until_s: float = 0.0
    """No further request is started before this time of the loop's clock."""
