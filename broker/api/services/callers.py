"""For whom the controller is asked."""

from __future__ import annotations

from jbodlab.controller_api.requests import Caller
from jbodlab.server.rights import Client


def caller_of(client: Client) -> Caller:
    """Return a client as requests to the controller name it."""
    return Caller(principal=client.principal, host=client.host)
