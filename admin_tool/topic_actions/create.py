"""jbod-topics --create."""

from __future__ import annotations

from collections.abc import Iterable

from admin_tool.errors import AdminError, RequestError
from admin_tool.options import Parsed
from admin_tool.requests import topics
from admin_tool.requests.connection import connected
from admin_tool.requests.topics import NewTopic
from admin_tool.topic_actions.assignment import parse_assignment
from jbodlab.error_code import ErrorCode

REPLICATION_FACTOR_MAX = 32767
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') "
    "could collide. To avoid issues it is best to use either, but not both."
)


def run(options: Parsed) -> int:
    """Create the topic; returns the exit code."""
    topic = new_topic(options)
    if "." in topic.name or "_" in topic.name:
        print(COLLISION_WARNING)
    with connected(options) as connection:
        try:
            topics.create_topic(connection, topic)
        except RequestError as error:
            if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and options.has("if-not-exists"):
                return 0
            raise
    print(f"Created topic {topic.name}.")
    return 0


def new_topic(options: Parsed) -> NewTopic:
    """Return the topic that a command line describes.

    Raises:
        AdminError: a number or a setting is wrong.
    """
    partitions = options.number("partitions")
    if partitions is not None and partitions < 1:
        raise AdminError("The partitions must be greater than 0")
    factor = options.number("replication-factor")
    if factor is not None and not 1 <= factor <= REPLICATION_FACTOR_MAX:
        raise AdminError(
            f"The replication factor must be between 1 and {REPLICATION_FACTOR_MAX} inclusive"
        )
    assignment = options.text("replica-assignment")
    return NewTopic(
        name=options.required("topic"),
        partitions=partitions,
        replication_factor=factor,
        assignment=None if assignment is None else parse_assignment(assignment),
        configs=parse_configs(options.texts("config")),
    )


def parse_configs(texts: Iterable[str]) -> dict[str, str]:
    """Return settings given as `key=value`.

    Raises:
        AdminError: one has no equals sign.
    """
    found = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise AdminError(
                "requirement failed: Invalid topic config: all configs to be added must be in the "
                'format "key=val".'
            )
        found[key.strip()] = value.strip()
    return found
