"""jbod-topics --describe."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from admin_tool.errors import AdminError, RequestError, UnsupportedRequestError, UsageError
from admin_tool.options import Parsed
from admin_tool.requests import configs, reassignments, topics
from admin_tool.requests.configs import ConfigEntry
from admin_tool.requests.connection import Connection, connected
from admin_tool.requests.reassignments import Reassignment
from admin_tool.requests.topics import TopicListing
from admin_tool.topic_actions.description import (
    Report,
    min_isr,
    overrides,
    partition_line,
    topic_line,
)
from admin_tool.topic_actions.selection import expect, select
from jbodlab import kafka_uuid
from jbodlab.error_code import ErrorCode
from jbodlab.ids import TopicPartition


def run(options: Parsed) -> int:
    """Describe the topics that match; returns the exit code."""
    report = Report(
        under_replicated=options.has("under-replicated-partitions"),
        unavailable=options.has("unavailable-partitions"),
        under_min_isr=options.has("under-min-isr-partitions"),
        at_min_isr=options.has("at-min-isr-partitions"),
        overrides_only=options.has("topics-with-overrides"),
    )
    limit = options.number("partition-size-limit-per-response")
    if limit is not None and limit < 1:
        raise UsageError("The partition size limit per response must be greater than 0")
    topic_id = _topic_id(options)
    if topic_id is not None and options.has("topic"):
        print("Only topic id will be used when both --topic and --topic-id are specified")
    with connected(options) as connection:
        listed = topics.list_topics(connection)
        names = _by_id(listed, topic_id, options) if topic_id else _by_name(listed, options)
        described = topics.describe_topics(
            connection, names, limit or topics.DEFAULT_PAGE_PARTITIONS
        )
        settings = _configs(connection, described, report)
        moving = _reassignments(connection)
        live = frozenset(broker.id for broker in connection.brokers())
    for topic in described.values():
        entries = settings.get(topic.name, ())
        own = overrides(entries)
        if topic.partitions and not report.filters and (own or not report.overrides_only):
            first = TopicPartition(topic.name, topic.partitions[0].index)
            print(topic_line(topic, moving.get(first), own))
        wanted_isr = min_isr(entries)
        for partition in topic.partitions:
            reassignment = moving.get(TopicPartition(topic.name, partition.index))
            if report.shows(partition, reassignment, live, wanted_isr):
                print(partition_line(topic.name, partition, reassignment))
    return 0


def _topic_id(options: Parsed) -> UUID | None:
    text = options.text("topic-id")
    if text is None:
        return None
    try:
        found = kafka_uuid.parse(text)
    except ValueError as error:
        raise AdminError(str(error)) from error
    # The zero id means none, as everywhere.
    return None if found == kafka_uuid.ZERO_UUID else found


def _by_id(listed: Iterable[TopicListing], wanted: UUID, options: Parsed) -> list[str]:
    names = [topic.name for topic in listed if topic.topic_id == wanted]
    if not names and not options.has("if-exists"):
        raise AdminError(f"TopicId '{kafka_uuid.to_text(wanted)}' does not exist as expected")
    return names


def _by_name(listed: Iterable[TopicListing], options: Parsed) -> list[str]:
    wanted = options.text("topic")
    names = select(listed, wanted, exclude_internal=options.has("exclude-internal"))
    expect(names, wanted, must_exist=not options.has("if-exists"))
    return names


def _configs(
    connection: Connection, names: Iterable[str], report: Report
) -> dict[str, tuple[ConfigEntry, ...]]:
    try:
        return configs.describe_topic_configs(connection, names)
    except UnsupportedRequestError:
        # The state of the partitions is worth more than their settings, unless these decide what
        # is shown.
        if report.needs_min_isr:
            raise
        return {}


def _reassignments(connection: Connection) -> dict[TopicPartition, Reassignment]:
    try:
        return reassignments.list_reassignments(connection)
    except UnsupportedRequestError:
        return {}
    except RequestError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise
