"""jbod-log-dirs cordon and uncordon: the dynamic setting `cordoned.log.dirs` of a broker.

Its value is a comma list of the broker's log directories, or `*` for all of them (KIP-1066). It is
read, changed and written back: of two operators at once the later one wins.
"""

from __future__ import annotations

from collections.abc import Sequence

from admin_tool.errors import AdminError, UnsupportedRequestError
from admin_tool.options import Parsed, comma_list
from admin_tool.requests.configs import (
    Change,
    ConfigEntry,
    Operation,
    Source,
    alter_broker_config,
    describe_broker_config,
)
from admin_tool.requests.connection import connected
from admin_tool.requests.log_dirs import describe_log_dirs

KEY = "cordoned.log.dirs"
ALL = "*"


def run(options: Parsed) -> int:
    """Cordon or uncordon directories; returns the exit code."""
    broker = options.number("broker")
    assert broker is not None
    wanted = comma_list(options.required("dir"))
    is_cordon = options.words[0] == "cordon"
    with connected(options) as connection:
        if broker not in [one.id for one in connection.brokers()]:
            raise AdminError(f"broker {broker} is not a live broker of the cluster")
        paths = [log_dir.path for log_dir in describe_log_dirs(connection, broker)]
        entry = describe_broker_config(connection, broker, KEY)
        if entry is None:
            raise UnsupportedRequestError(f"broker {broker} does not know the setting {KEY}")
        before = comma_list(entry.value)
        after = cordoned(before, wanted, paths, is_cordon=is_cordon)
        if after != before:
            alter_broker_config(connection, broker, [change(entry, after)])
    listed = ",".join(after) or "none"
    print(f"Cordoned log directories of broker {broker}: {listed}")
    return 0


def cordoned(
    before: Sequence[str], wanted: Sequence[str], paths: Sequence[str], *, is_cordon: bool
) -> list[str]:
    """Return the new value of the setting.

    Args:
        before: Its value so far.
        wanted: The directories to cordon or uncordon, or `*`.
        paths: All directories of the broker.
        is_cordon: False takes them out.

    Raises:
        AdminError: a directory is none of the broker's.
    """
    if not wanted:
        raise AdminError("no log directory is named")
    unknown = [path for path in wanted if path != ALL and path not in paths]
    if unknown:
        raise AdminError(
            f"{','.join(unknown)} is no log directory of the broker: {','.join(sorted(paths))}"
        )
    if ALL in wanted:
        return [ALL] if is_cordon else []
    if is_cordon:
        if ALL in before:
            return [ALL]
        return [*before, *(path for path in dict.fromkeys(wanted) if path not in before)]
    # Taken out of all, the others stay.
    held = sorted(paths) if ALL in before else before
    return [path for path in held if path not in wanted]


def change(entry: ConfigEntry, after: Sequence[str]) -> Change:
    """Return how the setting gets its new value.

    An empty one is deleted, unless another value would then come forth from below: that of the
    broker's property file, or of all brokers.
    """
    below = [value for value, source in entry.synonyms if source != Source.DYNAMIC_BROKER]
    if not after and not any(below):
        return Change(name=KEY, operation=Operation.DELETE)
    return Change(name=KEY, operation=Operation.SET, value=",".join(after))
