"""The way to a cluster for records: confluent-kafka, its failures in one line.

The client's properties are handed on as they are.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jbodlab.cli.command_line import read_properties
from jbodlab.kafka_admin.errors import AdminError, NoAnswerError
from jbodlab.peers.client_properties import KERBEROS, ClientProperties, client_properties

METADATA_TIMEOUTS_S = (1.0, 2.0, 4.0)
"""Of the first question, which Ctrl-C has to wait for."""
OF_JAVA = frozenset({"default.api.timeout.ms", "receive.buffer.bytes", "send.buffer.bytes"})
"""Properties of files of Java clients that librdkafka would refuse."""

Counts = Mapping[str, int]
"""How many partitions each topic has."""


@contextmanager
def connected(
    kind: str,
    options: Namespace,
    defaults: Mapping[str, object] | None = None,
    lost: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Any, Counts]]:
    """Connect as a command line says; yields the client and the topics.

    Args:
        kind: `Consumer` or `Producer`.
        options: With `bootstrap_server`, `command_config` and, where the command has it,
            `property`.
        defaults: Properties that the user may override.
        lost: Called while the client waits when the last broker is gone.

    Raises:
        AdminError: no broker answers, or the library fails, then or later.
        FormatError: the file of properties cannot be read.
    """
    problems: list[str] = []

    def failed(error: Any) -> None:
        problems.append(reason(error))
        if error.name() == "_ALL_BROKERS_DOWN":
            lost()

    path = options.command_config
    client = client_properties({} if path is None else read_properties(Path(path)))
    config = {
        **(defaults or {}),
        **{key: value for key, value in client.others.items() if key not in OF_JAVA},
        **client.librdkafka(),
        **dict(getattr(options, "property", ())),
        "bootstrap.servers": options.bootstrap_server,
        # Lines that it would log become our one line.
        "log_level": 0,
        "error_cb": failed,
    }
    _reach(options.bootstrap_server, client, asks=client.protocol != "PLAINTEXT")
    import confluent_kafka

    try:
        made = getattr(confluent_kafka, kind)(config)
        try:
            yield made, _topics(made, client, options.bootstrap_server, problems)
        finally:
            if kind == "Consumer":
                # Leaves the group.
                made.close()
    except confluent_kafka.KafkaException as error:
        raise AdminError(reason(error)) from error


def _reach(servers: str, client: ClientProperties, *, asks: bool) -> None:
    """Insist that a broker is there: librdkafka tries again and again, without a reason.

    Args:
        servers: Its address, or several.
        client: How it is reached; where the own client cannot log in, librdkafka finds out.
        asks: Whether it has to answer, too.

    Raises:
        AdminError: none does, with the reason of each.
    """
    from jbodlab.kafka_admin.client import be_served, be_there, bootstrap_servers
    from jbodlab.runtime import event_loop

    addresses = bootstrap_servers(servers)
    if asks and client.mechanism != KERBEROS:
        event_loop.run(be_served(addresses, client.security))
    else:
        event_loop.run(be_there(addresses))


def reason(error: Any) -> str:
    """Return the text of a `KafkaException` or of the `KafkaError` in one."""
    text = str((error.args[0] if isinstance(error, Exception) else error).str())
    return text.removeprefix("Local: ").removeprefix("Broker: ")


def _topics(made: Any, client: ClientProperties, servers: str, problems: list[str]) -> Counts:
    from confluent_kafka import KafkaException

    for timeout_s in METADATA_TIMEOUTS_S:
        try:
            found = made.list_topics(timeout=timeout_s).topics
        except KafkaException:
            made.poll(0)
        else:
            return {name: len(one.partitions) for name, one in sorted(found.items())}
    with suppress(NoAnswerError):
        _reach(servers, client, asks=True)
    within = f"within {sum(METADATA_TIMEOUTS_S):g} s"
    why = "".join(f": {problem}" for problem in problems[-1:])
    raise AdminError(f"no Kafka broker answers at {servers} {within}{why}")
