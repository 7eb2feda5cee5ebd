"""jbodlab topics list and describe."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from admin_tool.topic_actions import selection
from jbodlab.cli.output import Output, counted, table
from jbodlab.cli.parser import UsageError
from jbodlab.kafka_admin import configs, reassignments, topics
from jbodlab.kafka_admin.configs import ConfigEntry
from jbodlab.kafka_admin.errors import AdminError, RequestError, UnsupportedRequestError
from jbodlab.kafka_admin.reassignments import Reassignment
from jbodlab.kafka_admin.topics import PartitionDescription, TopicDescription, TopicListing
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition

if TYPE_CHECKING:
    from jbodlab.cli.results import DescribedPartition, DescribedTopic, ListedTopic
    from jbodlab.kafka_admin.client import AdminClient

MIN_ISR = "min.insync.replicas"
FILTERS = ("under-replicated", "unavailable", "under-min-isr", "at-min-isr")
_MIN_ISR_FILTERS = ("under-min-isr", "at-min-isr")


async def list_all(options: Namespace, output: Output) -> int:
    """List topics; returns the exit code."""
    selection.check(options, needs_one=False)
    async with connected(options) as client:
        listed = await topics.list_topics(client)
    names = selection.select(listed, options.topics, options.matching)
    shown: list[ListedTopic] = [
        {
            "topic": one.name,
            "id": kafka_uuid.to_text(one.topic_id),
            "partitions": one.partitions,
            "internal": one.is_internal,
        }
        for one in listed
        if one.name in names and not (options.no_internal and one.is_internal)
    ]
    output.result(shown, "\n".join(one["topic"] for one in shown))
    return 0


async def describe(options: Namespace, output: Output) -> int:
    """Show the partitions of topics: leaders, replicas, ISR, offline replicas."""
    selection.check(options, needs_one=False)
    if options.id and (options.topics or options.matching):
        raise UsageError("--id excludes TOPIC and --matching")
    async with connected(options) as client:
        listed = await topics.list_topics(client)
        names = (
            _by_id(listed, options.id)
            if options.id
            else selection.select(listed, options.topics, options.matching)
        )
        described = await topics.describe_topics(client, names)
        needs_configs = options.configured or any(one in _MIN_ISR_FILTERS for one in options.only)
        settings = await _configs(client, described, are_needed=needs_configs)
        moving = await _reassignments(client)
        live = frozenset(broker.id for broker in await client.brokers())
    shown: list[DescribedTopic] = []
    for topic in described.values():
        entries = settings.get(topic.name, ())
        partitions = [
            one
            for one in topic.partitions
            if not options.only
            or any(
                matches(name, one, moving.get(TopicPartition(topic.name, one.index)), live, entries)
                for name in options.only
            )
        ]
        own = [entry for entry in entries if not entry.is_default]
        if partitions and (own or not options.configured):
            shown.append(as_value(topic, partitions, moving, own))
    output.result(shown, "\n\n".join(map(as_text, shown)))
    return 0


def matches(
    name: str,
    partition: PartitionDescription,
    reassignment: Reassignment | None,
    live_brokers: frozenset[int],
    entries: Iterable[ConfigEntry],
) -> bool:
    """Return whether one of `FILTERS` lets a partition pass; pure."""
    in_sync = len(partition.isr)
    wanted = min_isr(entries)
    match name:
        case "under-replicated":
            return in_sync < replication_factor(partition, reassignment)
        case "unavailable":
            return partition.leader not in live_brokers
        case "under-min-isr":
            return partition.leader is None or (wanted is not None and in_sync < wanted)
        case _:
            return in_sync == wanted


def replication_factor(partition: PartitionDescription, reassignment: Reassignment | None) -> int:
    """Return how many replicas a partition has, without those that are being added; pure."""
    replicas = len(partition.replicas)
    if reassignment is None:
        return replicas
    changing = {*reassignment.adding, *reassignment.removing}
    if changing.isdisjoint(partition.replicas):
        # It ended between the two answers.
        return replicas
    return replicas - len(reassignment.adding)


def min_isr(configs: Iterable[ConfigEntry]) -> int | None:
    """Return `min.insync.replicas`; None where it is not among the configs."""
    for one in configs:
        if one.name == MIN_ISR and one.value is not None:
            return int(one.value)
    return None


def as_value(
    topic: TopicDescription,
    partitions: Iterable[PartitionDescription],
    moving: Mapping[TopicPartition, Reassignment],
    own: Iterable[ConfigEntry],
) -> DescribedTopic:
    """Return what `--output json` prints of a topic; pure.

    Args:
        topic: It has partitions.
        partitions: Those to show.
        moving: Ongoing reassignments.
        own: Configs that somebody set, for the topic or for brokers.
    """
    first = moving.get(TopicPartition(topic.name, topic.partitions[0].index))
    return {
        "topic": topic.name,
        "id": kafka_uuid.to_text(topic.topic_id),
        "partition_count": len(topic.partitions),
        "replication_factor": replication_factor(topic.partitions[0], first),
        "configs": {one.name: one.value for one in own},
        "partitions": [
            _partition(one, moving.get(TopicPartition(topic.name, one.index))) for one in partitions
        ],
    }


def _partition(
    partition: PartitionDescription, reassignment: Reassignment | None
) -> DescribedPartition:
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline": list(partition.offline),
        "adding": list(reassignment.adding) if reassignment else [],
        "removing": list(reassignment.removing) if reassignment else [],
        "elr": None if partition.elr is None else list(partition.elr),
        "last_known_elr": (
            None if partition.last_known_elr is None else list(partition.last_known_elr)
        ),
    }


def as_text(topic: DescribedTopic) -> str:
    """Return a topic as text: a line, and a table without the columns that are empty; pure."""
    head = (
        f"{topic['topic']} ({topic['id']}): {counted(topic['partition_count'], 'partition')}, "
        f"replication factor {topic['replication_factor']}"
    )
    configs = ", ".join(f"{key}={value}" for key, value in topic["configs"].items())
    shown: list[dict[str, object]] = [{**one} for one in topic["partitions"]]
    columns = ["partition", "leader", "replicas", "isr", "offline"] + [
        name
        for name in ("adding", "removing", "elr", "last_known_elr")
        if any(one[name] for one in shown)
    ]
    rows = [
        ["none" if name == "leader" and one[name] is None else one[name] for name in columns]
        for one in shown
    ]
    heads = [name.upper().replace("_", " ") for name in columns]
    return "\n".join([head, *([f"configs: {configs}"] if configs else []), table(heads, rows)])


def _by_id(listed: Iterable[TopicListing], text: str) -> list[str]:
    try:
        wanted = kafka_uuid.parse(text)
    except ValueError as error:
        raise UsageError(f"--id: {error}") from error
    names = [topic.name for topic in listed if topic.topic_id == wanted]
    if not names:
        raise AdminError(f"no topic has the id {text}")
    return names


async def _configs(
    client: AdminClient, names: Iterable[str], *, are_needed: bool
) -> dict[str, tuple[ConfigEntry, ...]]:
    try:
        return await configs.describe_topic_configs(client, names)
    except UnsupportedRequestError:
        # The state of the partitions is worth more than their configs, unless these decide what
        # is shown.
        if are_needed:
            raise
        return {}


async def _reassignments(client: AdminClient) -> dict[TopicPartition, Reassignment]:
    try:
        return await reassignments.list_reassignments(client)
    except UnsupportedRequestError:
        return {}
    except RequestError as error:
        if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            return {}
        raise
