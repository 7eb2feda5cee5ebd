"""Which name is which node's: a name with the place of the node id in it."""

from __future__ import annotations

import msgspec

from jbodlab.security.acl import USER
from jbodlab.vocabulary.errors import ConfigError

ID = "{id}"
DIGITS_MAX = 10
"""Of an id."""


class NodeNames(msgspec.Struct, frozen=True):
    """The names of all nodes of a kind.

    Attributes:
        template: The name of a node, with `{id}` where its id stands.
    """

    template: str

    def of(self, node_id: int) -> str:
        """Return the name that a node has."""
        return self.template.replace(ID, str(node_id))

    def id_of(self, name: str) -> int | None:
        """Return the id of the node that has a name; None where no node has it."""
        start, _, end = self.template.partition(ID)
        middle = name[len(start) : len(name) - len(end)]
        if len(middle) > DIGITS_MAX or not (middle.isascii() and middle.isdecimal()):
            return None
        node_id = int(middle)
        return node_id if self.of(node_id) == name else None


def node_names(key: str, principal: str) -> NodeNames:
    """Read a setting such as `User:CN=broker-{id}`.

    Raises:
        ConfigError: it is malformed.
    """
    kind = f"{USER}:"
    if not principal.startswith(kind) or principal.count(ID) != 1:
        raise ConfigError(key, principal, f"expected {kind}NAME with {ID} in NAME")
    return NodeNames(principal.removeprefix(kind))
