"""jbod-configs --alter."""

from __future__ import annotations

import re
from pathlib import Path

from admin_tool.config_actions.kinds import QUOTA_KINDS, RESOURCES, singular
from admin_tool.configs import Entities
from admin_tool.errors import UsageError
from admin_tool.options import Parsed, comma_list
from admin_tool.requests.configs import Change, Operation, alter_config
from admin_tool.requests.connection import connected
from admin_tool.requests.quotas import alter_quotas
from jbodlab.command_line import read_properties

_COMMA_OUTSIDE = re.compile(r",(?![^\[\]]*\])")


def run(options: Parsed, entities: Entities) -> int:
    """Change settings; returns the exit code."""
    path = options.text("add-config-file")
    added = read_settings(options.text("add-config"))
    if path is not None:
        added = read_properties(Path(path))
    deleted = comma_list(options.text("delete-config"))
    kind, name = entities[0]
    assert name is not None
    if kind in RESOURCES:
        changes = [
            *(Change(name=key, operation=Operation.SET, value=each) for key, each in added.items()),
            *(Change(name=key, operation=Operation.DELETE) for key in deleted),
        ]
        with connected(options) as connection:
            alter_config(connection, RESOURCES[kind], name, changes)
    else:
        entity = {QUOTA_KINDS[each]: given or None for each, given in entities}
        quotas = {**read_quotas(added), **dict.fromkeys(deleted)}
        with connected(options) as connection:
            alter_quotas(connection, entity, quotas)
    if name:
        print(f"Completed updating config for {singular(kind)} {name}.")
    else:
        print(f"Completed updating default config for {kind} in the cluster.")
    return 0


def read_settings(text: str | None) -> dict[str, str]:
    """Read `k=v,k=[v,w]`.

    Raises:
        UsageError: a part is none.
    """
    found = {}
    for part in _COMMA_OUTSIDE.split(text or ""):
        if not part.strip():
            continue
        key, equals, value = part.partition("=")
        if not (key.strip() and equals):
            raise UsageError(f"Invalid entity config '{part}', expected key=val or key=[val1,val2]")
        found[key.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return found


def read_quotas(settings: dict[str, str]) -> dict[str, float | None]:
    """Return quotas as numbers.

    Raises:
        UsageError: one is none.
    """
    found: dict[str, float | None] = {}
    for key, value in settings.items():
        try:
            found[key] = float(value)
        except ValueError:
            raise UsageError(f"Cannot parse quota configuration value for {key}: {value}") from None
    return found
