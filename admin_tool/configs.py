"""jbod-configs: show and change settings, as Kafka's own tool does.

    jbod-configs --bootstrap-server LIST --describe ENTITY [--all]
    jbod-configs --bootstrap-server LIST --alter ENTITY [--add-config k=v,k=[v,w]]
                 [--delete-config k,k]

ENTITY is `--entity-type` topics, brokers, broker-loggers, groups, client-metrics, users, clients or
ips, with `--entity-name` or `--entity-default`; or in one word `--topic`, `--broker`,
`--broker-logger`, `--group`, `--client-metrics`, `--user`, `--client`, `--ip`, `--broker-defaults`,
`--user-defaults`, `--client-defaults`, `--ip-defaults`. Users and clients go together.

Exit codes: 0 done; 1 wrong usage or failed; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from admin_tool import command
from admin_tool.command import Tool
from admin_tool.errors import UsageError
from admin_tool.options import COMMON, Option, Parsed

SHORT_NAMES: Mapping[str, str] = {
    "topic": "topics",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "group": "groups",
    "client-metrics": "client-metrics",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
DEFAULTS: Mapping[str, str] = {
    "broker-defaults": "brokers",
    "user-defaults": "users",
    "client-defaults": "clients",
    "ip-defaults": "ips",
}
WITHOUT_DEFAULT = ("topics", "broker-loggers", "groups", "client-metrics")
PAIR = {"users", "clients"}

OPTIONS = (
    *COMMON,
    Option(name="describe", help="Show settings."),
    Option(name="alter", help="Change settings."),
    Option(name="all", help="With --describe: also what nobody has set."),
    Option(
        name="entity-type",
        value="type",
        repeatable=True,
        help="topics, brokers, broker-loggers, groups, client-metrics, users, clients or ips; "
        "users and clients go together.",
    ),
    Option(
        name="entity-name",
        value="name",
        repeatable=True,
        help="The entity of that type, and so on; --entity-default stands for all of a type that "
        "have nothing of their own.",
    ),
    Option(
        name="add-config",
        value="k=v,k=[v,w],...",
        help="With --alter: the settings to set; brackets around values with commas.",
    ),
    Option(name="add-config-file", value="file", help="With --alter: the same in a property file."),
    Option(name="delete-config", value="k,...", help="With --alter: the settings to remove."),
    *(
        Option(name=name, value="name", help=f"As --entity-type {kind} --entity-name.")
        for name, kind in SHORT_NAMES.items()
    ),
    *(
        Option(name=name, help=f"As --entity-type {kind} --entity-default.")
        for name, kind in DEFAULTS.items()
    ),
)

Entities = list[tuple[str, str | None]]
"""Types and names: None is every entity, the empty text the default."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    # A default has its place among the names.
    placed = ["--entity-name=" if one == "--entity-default" else one for one in arguments]
    return command.run(TOOL, placed)


def check(options: Parsed) -> Entities:
    """Return what the command is about.

    Raises:
        UsageError: the options do not go together.
    """
    if options.words:
        raise UsageError(f"{options.words[0]} is not a recognized option")
    if options.has("describe") == options.has("alter"):
        raise UsageError("Command must include exactly one action: --describe, --alter")
    options.require("bootstrap-server")
    changes = ("add-config", "add-config-file", "delete-config")
    options.exclude("describe", changes)
    options.exclude("alter", ("all",))
    options.exclude("add-config", ("add-config-file",))
    if options.has("alter") and not any(map(options.has, changes)):
        raise UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be "
            "specified with --alter"
        )
    found = _entities(options)
    kinds = [kind for kind, _ in found]
    if len(kinds) > 1 and set(kinds) != PAIR:
        raise UsageError("Only the entity types users and clients go together")
    if options.has("alter") and any(name is None for _, name in found):
        raise UsageError("An entity name must be specified for every entity type")
    for kind, name in found:
        if kind == "broker-loggers" and name is None:
            raise UsageError("An entity name must be specified with --describe of broker-loggers")
        if kind.startswith("broker") and name and not (name.isascii() and name.isdecimal()):
            raise UsageError(f"The entity name for {kind} must be a broker id, found: {name}")
        if name == "" and kind in WITHOUT_DEFAULT:
            raise UsageError(f"{kind} have no default entity")
    return found


def _entities(options: Parsed) -> Entities:
    short: Entities = [
        (kind, options.required(name)) for name, kind in SHORT_NAMES.items() if options.has(name)
    ]
    short += [(kind, "") for name, kind in DEFAULTS.items() if options.has(name)]
    kinds, names = options.texts("entity-type"), options.texts("entity-name")
    if short and (kinds or names):
        raise UsageError("--entity-type and --entity-name cannot be used with the short options")
    if not short and not kinds:
        raise UsageError("At least one entity type must be specified: --entity-type")
    for kind in kinds:
        if kind not in SHORT_NAMES.values():
            known = ", ".join(SHORT_NAMES.values())
            raise UsageError(f"Invalid entity type {kind}, the entity type must be one of {known}")
    if len(names) > len(kinds):
        raise UsageError("More entity names specified than entity types")
    every = [None] * (len(kinds) - len(names))
    return short or list(zip(kinds, [*names, *every], strict=True))


def _run(options: Parsed) -> int:
    entities = check(options)
    # Loaded late, so that a wrong command line is answered at once.
    if options.has("describe"):
        from admin_tool.config_actions import describe

        return describe.run(options, entities)
    from admin_tool.config_actions import alter

    return alter.run(options, entities)


TOOL = Tool(
    summary="This tool helps to show and change settings of topics, brokers, groups and clients.",
    options=OPTIONS,
    run=_run,
    failure=lambda error: f"Error while executing config command: {error}",
    notes="  --entity-default                        As --entity-name, for the default entity.",
)


if __name__ == "__main__":
    sys.exit(main())
