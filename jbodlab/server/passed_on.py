"""Whose request a broker passes on to another one: that stands in the client id.

    __forwarder HOST PRINCIPAL        such as `__forwarder 10.0.0.1 User:alice`

The other broker believes it of whoever has the right to CLUSTER_ACTION, as Kafka believes the
principal of an Envelope (KIP-590), and decides by the rights of the client.
"""

from __future__ import annotations

from jbodlab.security.acl import AclOperation
from jbodlab.server.answer import RequestContext
from jbodlab.server.rights import Client, Rights, client_of, cluster

FORWARDING_CLIENT = "__forwarder"
PREFIX = f"{FORWARDING_CLIENT} "


def client_id_for(client: Client) -> str:
    """Return what a broker calls itself that passes on what a client has sent."""
    return f"{PREFIX}{client.host} {client.principal}"


def named_client(client_id: str | None) -> Client | None:
    """Return the client that a client id names; None for all ids but those of forwarding brokers.

    Any client can call itself like that.
    """
    # Principals may have blanks.
    if client_id is None or not client_id.startswith(PREFIX):
        return None
    words = client_id.split(" ", 2)
    if len(words) < 3:
        return None
    return Client(principal=words[2], host=words[1])


def client_behind(context: RequestContext, rights: Rights) -> Client:
    """Return the client whose rights decide: the sender, or the one that a broker forwards for."""
    sender, named = client_of(context.session), named_client(context.header.client_id)
    is_broker = named is not None and rights.allows(
        sender, cluster(AclOperation.CLUSTER_ACTION), is_asked_for=False
    )
    return named if named is not None and is_broker else sender
