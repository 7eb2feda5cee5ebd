"""Apache Kafka's command line tools: which work here, and which say why not, with which exit code.

Those that change or describe something are called one after another, as in a shell: `STORIES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from string import Template

import pytest

from jbodlab.vocabulary import kafka_uuid
from tests.cluster.harness import CONTROLLER_ID, directory_id, wait_for
from tests.cluster.invariants import Ledger
from tests.cluster.moving import fill, other_dir
from tests.cluster.scenes import Scene, Stage
from tests.kafka.tools import (
    CLUSTER,
    CONFIGS,
    DELETE_RECORDS,
    FEATURES,
    GROUPS,
    LEADER_ELECTION,
    LOG_DIRS,
    OFFSETS,
    PRODUCER_SPEED,
    QUORUM,
    REASSIGN,
    TOPICS,
    TRANSACTIONS,
    KafkaTools,
)

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]

TOOLS = "org.apache.kafka.tools"
ACLS = f"{TOOLS}.AclCommand"
API_VERSIONS = f"{TOOLS}.BrokerApiVersionsCommand"
ALL_GROUPS = f"{TOOLS}.GroupsCommand"
CLIENT_METRICS = f"{TOOLS}.ClientMetricsCommand"
DELEGATION_TOKENS = f"{TOOLS}.DelegationTokenCommand"
SHARE_GROUPS = f"{TOOLS}.consumer.group.ShareGroupCommand"
STREAMS_GROUPS = f"{TOOLS}.streams.StreamsGroupCommand"
STREAMS_RESET = f"{TOOLS}.StreamsResetter"

LATENCY = f"{TOOLS}.EndToEndLatency"
CONSUMER_SPEED = f"{TOOLS}.ConsumerPerformance"
SHARE_CONSUMER_SPEED = f"{TOOLS}.ShareConsumerPerformance"

LOAD = "--num-records 50 --record-size 10 --throughput -1"
SCRAM = "--add-config SCRAM-SHA-256=[password=secret]"

WORKS = [
    (API_VERSIONS, "", "CreateTopics(19): 2 to 7 [usable: 7]"),
    (ALL_GROUPS, "--list", "GROUP"),
    (CLIENT_METRICS, "--list", ""),
    (CLIENT_METRICS, "--describe", ""),
    (CLIENT_METRICS, "--alter --name x --interval 1000 --metrics m", "Altered client metrics"),
    (CLIENT_METRICS, "--describe --name x", "interval.ms=1000"),
    (CLIENT_METRICS, "--delete --name x", "Deleted client metrics config for x"),
    (CLUSTER, "cluster-id", "Cluster ID: "),
    (CLUSTER, "list-endpoints", "unfenced   broker"),
    (CONFIGS, "--describe --entity-type brokers --entity-name 1", "for broker 1 are"),
    (CONFIGS, "--describe --entity-type broker-loggers --entity-name 1", "root=INFO"),
    (
        CONFIGS,
        "--alter --entity-type broker-loggers --entity-name 1 --add-config broker.server=WARN",
        "Completed updating config for broker-logger 1.",
    ),
    (
        CONFIGS,
        "--alter --entity-type broker-loggers --entity-name 1 --delete-config broker.server",
        "Completed updating config for broker-logger 1.",
    ),
    (CONFIGS, "--describe --entity-type groups --entity-name g", "doesn't have dynamic config"),
    (CONFIGS, f"--alter --entity-type users --entity-name x {SCRAM}", "for user x."),
    (CONFIGS, "--describe --entity-type users --entity-name x", "SCRAM-SHA-256=iterations=4096"),
    (
        CONFIGS,
        "--alter --entity-type users --entity-name x --delete-config SCRAM-SHA-256",
        "for user x.",
    ),
    (FEATURES, "describe", "SupportedMinVersion: 3.3-IV3"),
    (FEATURES, "upgrade --feature transaction.version=2", "transaction.version was upgraded to 2."),
    (FEATURES, "version-mapping", "metadata.version=30 (4.3-IV0)"),
    (FEATURES, "feature-dependencies --feature metadata.version=22", "has no dependencies"),
    (GROUPS, "--list", ""),
    (LEADER_ELECTION, "--election-type preferred --all-topic-partitions", ""),
    (LEADER_ELECTION, "--election-type unclean --topic {t} --partition 0", "already elected"),
    (LOG_DIRS, "--describe", "information from brokers 1,2,3"),
    (OFFSETS, "--topic {t} --time earliest", "{t}:0:0"),
    (OFFSETS, "--topic {t} --time -4", "{t}:0:0"),
    (OFFSETS, "--topic {t} --time -5", ""),
    (QUORUM, "describe --status", "LeaderId: "),
    (QUORUM, "describe --replication", "Observer"),
    (REASSIGN, "--list", "No partition reassignments found."),
    (SHARE_GROUPS, "--list", ""),
    (STREAMS_GROUPS, "--list", ""),
    (STREAMS_RESET, "--application-id x --input-topics {t}", "Done."),
    (TOPICS, "--list", "{t}"),
    (TRANSACTIONS, "find-hanging --broker-id 1", "CoordinatorEpoch"),
    (TRANSACTIONS, "list", "TransactionalId"),
    (TRANSACTIONS, "forceTerminateTransaction --transactionalId forced", ""),
    (LATENCY, "--topic {t} --num-records 10 --producer-acks 1 --record-size 20", "Avg latency"),
    (PRODUCER_SPEED, f"--topic {{t}} {LOAD}", "50 records sent"),
    (PRODUCER_SPEED, f"--topic {{t}} {LOAD} --transactional-id x", "50 records sent"),
    (CONSUMER_SPEED, "--topic {t} --num-records 50", "data.consumed.in.MB"),
]
"""Tool, its arguments, and a part of what it prints; {t} is a topic."""

REFUSES = [
    (ACLS, "--list", "No Authorizer is configured on the broker"),
    (
        ACLS,
        "--add --allow-principal User:x --operation Read --topic *",
        "No Authorizer is configured on the broker",
    ),
    (CLUSTER, "unregister --id 7777", "Broker ID 7777 is not currently registered"),
    (
        DELEGATION_TOKENS,
        "--describe --command-config /dev/null",
        "does not support DESCRIBE_DELEGATION_TOKEN",
    ),
    (
        DELEGATION_TOKENS,
        "--create --max-life-time-period -1 --command-config /dev/null",
        "does not support CREATE_DELEGATION_TOKEN",
    ),
    (FEATURES, "upgrade --feature share.version=1", "does not support this feature"),
    (LOG_DIRS, "--describe --broker-list 7777", "do not exist from --broker-list: 7777"),
    (
        QUORUM,
        "remove-controller --controller-id 7 --controller-directory-id AAAAAAAAAAEAAAAAAAAAAQ",
        "this controller is the only one",
    ),
    (STREAMS_GROUPS, "--describe --group s", "does not support STREAMS_GROUP_DESCRIBE"),
    (TOPICS, "--describe --topic nowhere", "'nowhere' does not exist"),
    (TOPICS, "--create --topic {t}", "already exists"),
    (TRANSACTIONS, "describe --transactional-id nobody", "the ID could not be found"),
    (
        SHARE_CONSUMER_SPEED,
        "--topic {t} --num-records 5 --timeout 30000",
        "does not support the share group protocol",
    ),
]
"""The same of those that end with another exit code than 0."""

REFUSES_WITH_EXIT_CODE_0 = [
    (SHARE_GROUPS, "--describe --group s", "does not support SHARE_GROUP_DESCRIBE"),
    (SHARE_GROUPS, "--delete --group s", "Group 's' is not a share group"),
]
"""These end with 0 whatever their broker says."""

ALONE = {LATENCY, PRODUCER_SPEED, CONSUMER_SPEED, SHARE_CONSUMER_SPEED}
"""They leave work to the end of their process."""


def test_kafkas_own_library_knows_every_api_that_brokers_tell_of(
    stage: Stage, kafka_tools: KafkaTools
) -> None:
    with stage.scene() as scene:
        told = kafka_tools.run(API_VERSIONS, "--bootstrap-server", scene.cluster.bootstrap)
    assert "Produce(0): 0 to 12" in told.out
    assert "UNKNOWN(" not in told.out


def test_tools_work_or_say_why_not_with_the_exit_code_of_it(
    stage: Stage, kafka_tools: KafkaTools
) -> None:
    wrong = []
    with stage.scene() as scene:
        topic = scene.topic(1, 3, records=0).topic
        for rows, is_right in (
            (WORKS, lambda code: code == 0),
            (REFUSES, lambda code: code != 0),
            (REFUSES_WITH_EXIT_CODE_0, lambda code: code == 0),
        ):
            for tool, arguments, part in rows:
                run = kafka_tools.run_alone if tool in ALONE else kafka_tools.run
                at = ("--bootstrap-server", scene.cluster.bootstrap)
                # Sub-commands come first, but not in one that has options of its own before them.
                words = arguments.format(t=topic).split()
                done = (
                    run(tool, *words[:1], *at, *words[1:])
                    if tool == CLUSTER
                    else run(tool, *at, *words)
                )
                if not is_right(done.code) or part.format(t=topic) not in done.out + done.err:
                    wrong.append((tool, arguments, part, done))
    assert not wrong


Wanted = list[tuple[str, str]]
TOOL_NAMES = {
    "configs": CONFIGS,
    "delete-records": DELETE_RECORDS,
    "features": FEATURES,
    "groups": GROUPS,
    "leader-election": LEADER_ELECTION,
    "log-dirs": LOG_DIRS,
    "offsets": OFFSETS,
    "quorum": QUORUM,
    "reassign": REASSIGN,
    "topics": TOPICS,
    "transactions": TRANSACTIONS,
}
STORIES = dict(
    text.strip().split("\n", 1)
    for text in re.split(
        r"^# ", (Path(__file__).parents[1] / "kafka_tools.txt").read_text(), flags=re.M
    )
    if text
)
"""Names and lines of the stories in that file.

`>` calls a tool once, `~` until what follows holds, as any broker may answer it, also one that has
not heard yet: the parts that both outputs together have (`+`) or have not (`-`), white space apart,
and an exit code. `<` writes a file; later lines name its path as `$NAME`.
"""


@pytest.mark.parametrize("story", STORIES)
def test_tools_called_one_after_another(
    story: str, scene: Scene, kafka_tools: KafkaTools, tmp_path: Path
) -> None:

    def seen(words: str) -> str:
        name, *arguments = words.split()
        at = ("--bootstrap-server", scene.cluster.bootstrap)
        done = kafka_tools.run(TOOL_NAMES[name], *at, *arguments)
        return " ".join(f"{done.out} {done.err} exit {done.code}".split())

    for sign, words, wanted in calls_of(scene, STORIES[story], tmp_path):
        call = partial(seen, words)
        if sign == "~":
            wait_for(
                f"{words}: {wanted}",
                lambda call=call, wanted=wanted: has(call(), wanted),
                last_seen=call,
            )
        else:
            found = call()
            assert has(found, wanted), (words, wanted, found)


def has(found: str, wanted: Wanted) -> bool:
    return all((part in found) is (sign != "-") for sign, part in wanted)


def calls_of(scene: Scene, story: str, folder: Path) -> Iterator[tuple[str, str, Wanted]]:
    """The calls of a story on a topic with 100 records in each of two partitions.

    Yields:
        `>` or `~`; tool and arguments; the parts with `+` or `-`.
    """
    cluster, topic = scene.cluster, scene.topic_at([[1, 2], [2, 1]], min_insync_replicas="1")
    Ledger(cluster, topic, 2).produce(200)
    if "throttle " in story:
        fill(cluster, topic, 4)
    known = {
        "topic": topic,
        "id": kafka_uuid.to_text(cluster.image().topics.by_name[topic].topic_id),
        "dir": cluster.broker(1).log_dir_of(topic, 0).path,
        "other": other_dir(cluster, 1, topic),
        "third": cluster.broker(3).paths[2],
        "controller": CONTROLLER_ID,
    }
    for node in cluster.broker_ids:
        found = directory_id(cluster.node(node).metadata_dir)
        known[f"metadata{node}"] = kafka_uuid.to_text(found)
    for call in re.split(r"^(?=[>~<])", story, flags=re.M)[1:]:
        sign, text = Template(call).substitute(known).strip().split(" ", 1)
        if sign == "<":
            name, content = text.split(" ", 1)
            known[name] = folder / name
            (folder / name).write_text(content + "\n")
            continue
        words, *more = text.splitlines()
        wanted = [(line[0], line if line.startswith("exit") else line[2:]) for line in more]
        yield sign, words, wanted if "\nexit " in text else [*wanted, ("+", "exit 0")]
