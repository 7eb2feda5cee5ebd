"""Whether rights of clients count, and whose do not: Kafka's settings of an authorizer.

Source: `org.apache.kafka.metadata.authorizer.StandardAuthorizer`.
"""

from __future__ import annotations

from jbodlab.config.key_table import Values
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
