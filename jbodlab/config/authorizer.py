"""Whether rights of clients count, and whose do not: Kafka's settings of an authorizer.

Source: `org.apache.kafka.metadata.authorizer.StandardAuthorizer`.
"""

from __future__ import annotations

from jbodlab.config.key_table import Values
from jbodlab.security.acl import ANONYMOUS, USER
from jbodlab.security.authorizer import AuthorizerSettings
from jbodlab.vocabulary.errors import ConfigError

CLASS = "authorizer.class.name"
SUPER_USERS = "super.users"
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def authorizer_settings(values: Values) -> AuthorizerSettings | None:
    """Read what a node's file says of rights.

    Returns:
        None where everybody may do everything.

    Raises:
        ConfigError: another authorizer is wanted, or a super user is no principal.
    """
    name = values.text(CLASS).strip()
    if not name:
        return None
    if name != STANDARD:
        raise ConfigError(CLASS, name, f"must be empty or {STANDARD}")
    # Names have commas.
    users = frozenset(filter(None, map(str.strip, values.text(SUPER_USERS).split(";"))))
    for user in sorted(users):
        kind, _, rest = user.partition(":")
        if not (kind and rest):
            raise ConfigError(SUPER_USERS, user, "expected type:name, such as User:alice")
    return AuthorizerSettings(
        super_users=users, allows_without_acls=values.flag("allow.everyone.if.no.acl.found")
    )


def check_brokers(settings: AuthorizerSettings | None, listener: str, *, are_known: bool) -> None:
    """Check that brokers have their right to CLUSTER_ACTION where they speak to each other.

    Args:
        settings: Of this node.
        listener: Where brokers speak.
        are_known: Whether they log in there, or show certificates.

    Raises:
        ConfigError: they are nobody there, and nobody is no super user.
    """
    nobody = f"{USER}:{ANONYMOUS}"
    if settings is not None and not are_known and nobody not in settings.super_users:
        raise ConfigError(
            SUPER_USERS,
            ";".join(sorted(settings.super_users)),
            f"listener {listener} of the brokers is PLAINTEXT, so they are {nobody}, which must be "
            "one",
        )
