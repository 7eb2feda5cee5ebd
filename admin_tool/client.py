"""The way to a cluster for records, groups and offsets: confluent-kafka, its failures in one line.

The client's properties are handed on as they are.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from admin_tool.errors import unknown
from jbodlab.cli.command_line import read_properties
from jbodlab.cli.output import counted
from jbodlab.kafka_admin.errors import AdminError, NoAnswerError
from jbodlab.peers.client_properties import KERBEROS, ClientProperties, client_properties

METADATA_TIMEOUTS_S = (1.0, 2.0, 4.0)
"""Of the first question, which Ctrl-C has to wait for."""
ANSWER_TIMEOUT_S = 10.0
TIMEOUT = {"request_timeout": ANSWER_TIMEOUT_S}
"""For one question, the search for a coordinator or a leader included."""

RETRY_PAUSE_S = 0.2
_PASSING = (
    *("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"),
    "_DESTROY_BROKER",
)
"""A coordinator moves, or a broker comes back; the library gives up at once."""

OF_JAVA = frozenset({"default.api.timeout.ms", "receive.buffer.bytes", "send.buffer.bytes"})
"""Properties of files of Java clients that librdkafka would refuse."""

T = TypeVar("T")
Topics = Mapping[str, Sequence[int]]
"""The partitions of each topic."""


@contextmanager
def connected(
    kind: str,
    options: Namespace,
    defaults: Mapping[str, object] | None = None,
    lost: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Any, Topics]]:
    """Connect as a command line says; yields the client and the topics of the cluster.

    Args:
        kind: `AdminClient`, `Consumer` or `Producer`.
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
        # What it would log becomes our one line.
        "log_level": 0,
        "error_cb": failed,
    }
    _reach(options.bootstrap_server, client, asks=client.protocol != "PLAINTEXT")
    import confluent_kafka
    from confluent_kafka import admin

    try:
        made = getattr(admin if kind == "AdminClient" else confluent_kafka, kind)(config)
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


def answers(ask: Callable[[list[T]], Mapping[T, Any]], keys: Iterable[T]) -> dict[T, Any]:
    """Return for each key the result of its future, or the `KafkaException` that it ended with.

    Args:
        ask: Asks for the futures of some keys; for a while again where a coordinator moves.
        keys: All of them.
    """
    from confluent_kafka import KafkaException

    found: dict[T, Any] = {}
    left = list(keys)

    end_s = time.monotonic() + ANSWER_TIMEOUT_S
    while left:
        for key, future in ask(left).items():
            try:
                found[key] = future.result()
            except KafkaException as error:
                found[key] = error
        left = [key for key in left if _passes(found[key])]
        if time.monotonic() > end_s:
            break
        if left:
            time.sleep(RETRY_PAUSE_S)
    return found


def _passes(answer: Any) -> bool:
    # A list of groups comes with the errors of some coordinators.
    is_error = isinstance(answer, Exception)
    errors = answer.args if is_error else getattr(answer, "errors", None) or ()
    return any(error.name() in _PASSING for error in errors)


def answer(what: str, ask: Callable[[], Future[T]]) -> T:
    """Return the result of one future; for a while it is asked for again likewise.

    Raises:
        AdminError: it ended with a `KafkaException`: cannot do what is named, and why.
    """
    (found,) = answers(lambda _: {what: ask()}, [what]).values()
    result: T = checked(f"cannot {what}", found)
    return result


def checked(problem: str, found: Any) -> Any:
    """Return an answer.

    Raises:
        AdminError: it is an exception; the text begins with the problem.
    """
    if isinstance(found, Exception):
        raise AdminError(f"{problem}: {reason(found)}")
    return found


def partitions_of(topics: Topics, topic: str, wanted: Sequence[int]) -> list[int]:
    """Return the partitions of a topic that are wanted, all where none is.

    Raises:
        AdminError: the topic or a partition does not exist.
    """
    if topic not in topics:
        raise unknown("topic", topic, topics)
    for partition in wanted:
        if partition not in topics[topic]:
            count = counted(len(topics[topic]), "partition")
            raise AdminError(f"unknown partition {partition}: topic {topic!r} has {count}")
    return sorted(set(wanted or topics[topic]))


def _topics(made: Any, client: ClientProperties, servers: str, problems: list[str]) -> Topics:
    from confluent_kafka import KafkaException

    for timeout_s in METADATA_TIMEOUTS_S:
        try:
            found = made.list_topics(timeout=timeout_s).topics
        except KafkaException:
            made.poll(0)
        else:
            return {name: sorted(one.partitions) for name, one in sorted(found.items())}
    with suppress(NoAnswerError):
        _reach(servers, client, asks=True)
    within = f"within {sum(METADATA_TIMEOUTS_S):g} s"
    why = "".join(f": {problem}" for problem in problems[-1:])
    raise AdminError(f"no Kafka broker answers at {servers} {within}{why}")
