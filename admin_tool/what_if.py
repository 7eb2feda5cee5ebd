"""A running cluster, for `jbodlab what-if`; it is only read.

    Metadata, DescribeTopicPartitions    leaders, ISRs, ELRs, offline replicas, racks
    DescribeLogDirs                      which directory has which replica, sizes, space
    DescribeConfigs                      min.insync.replicas and unclean elections of topics; which
                                         directory of a broker has the metadata log
    ApiVersions                          whether the cluster keeps eligible leader replicas

A replica of a topic that the user may not describe has no partition here; it is counted where it
lies. None of these requests shows reassignments, and they change no prediction: a loss
never completes a reassignment.
"""

from __future__ import annotations

import posixpath
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from admin_tool.connecting import connected
from jbodlab.cli.output import Output, counted
from jbodlab.kafka_admin.configs import broker_settings, topic_settings
from jbodlab.kafka_admin.dir_details import with_details
from jbodlab.kafka_admin.errors import AdminError, NoAnswerError, RequestError, name_of
from jbodlab.kafka_admin.features import Features, describe_features
from jbodlab.kafka_admin.log_dirs import DescribedLogDir, describe_log_dirs
from jbodlab.kafka_admin.topics import (
    PartitionDescription,
    TopicDescription,
    describe_topics,
    list_topics,
)
from jbodlab.metadata.records.features import ELR_VERSION
from jbodlab.picture.cluster_picture import (
    SERVING,
    BrokerPicture,
    PartitionPicture,
)
from jbodlab.runtime import event_loop
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import NO_LEADER, TopicPartition
from jbodlab.what_if import cluster as model
from jbodlab.what_if.loss import UNCLEAN_ELECTION

if TYPE_CHECKING:
    from jbodlab.cli.results import LossMoment
    from jbodlab.kafka_admin.client import AdminClient, Broker

MIN_ISR = "min.insync.replicas"
METADATA_DIR, LOG_DIRS, LOG_DIR = "metadata.log.dir", "log.dirs", "log.dir"
OURS = "jbodlab.log.dir.probe.interval.ms"
"""A setting that brokers of Apache Kafka do not have."""

METADATA_VERSION = "metadata.version"
UNCLEAN_ELECTION_LEVEL = 21
"""The highest `metadata.version` of 3.9; the controllers of older releases hold no unclean election
but one that is asked for."""
SILENT, GONE = "unresponsive", "fenced or unregistered"
"""States of a broker that Metadata lists and that does not answer, and of one that it does not list
and that has replicas."""
_NOT_KNOWN = "the directories and bytes of its replicas are not known (0 bytes are counted)"

_REFUSALS = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
ATTEMPTS = 3
"""How often the cluster is read while topics are deleted and brokers stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """A broker that Metadata lists, with its directories.

    Attributes:
        silence: Why it did not answer; empty where it did.
        metadata_dir: The directory with the metadata log; empty where it is not known.
    """

    broker: Broker
    log_dirs: Sequence[DescribedLogDir] = ()
    silence: str = ""
    metadata_dir: str = ""


class _ChangedError(AdminError):
    """A broker has stopped while the cluster was read."""


def read(options: Namespace, output: Output) -> model.Cluster:
    """Return the cluster of a command line, as its brokers tell it now; see `_read`."""
    return event_loop.run(_read(options, output))


async def _read(options: Namespace, output: Output) -> model.Cluster:
    """Return the cluster of a command line, as its brokers tell it now.

    Args:
        options: With `bootstrap_server` and `command_config`.
        output: Says how far it is.

    Raises:
        AdminError: no broker answers, or one refuses to.
    """
    async with connected(options) as client:
        for _ in range(ATTEMPTS - 1):
            try:
                return await _read_once(client, options.bootstrap_server, output)
            except _ChangedError:
                continue
            except RequestError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
        return await _read_once(client, options.bootstrap_server, output)


async def _read_once(client: AdminClient, bootstrap: str, output: Output) -> model.Cluster:
    now = datetime.now(UTC)
    features = await describe_features(client)
    with needing("DESCRIBE on topics"):
        topics = await describe_topics(client, [one.name for one in await list_topics(client)])
    output.progress(f"read {counted(len(topics), 'topic')}")
    with needing("DESCRIBE_CONFIGS on all topics"):
        settings = await topic_settings(client, topics, (MIN_ISR, UNCLEAN_ELECTION))
    brokers = []
    for broker in await client.brokers():
        try:
            brokers.append(await _seen(client, broker))
        except NoAnswerError as error:
            if broker.id not in [one.id for one in await client.brokers()]:
                raise _ChangedError(f"broker {broker.id} has stopped: {error}") from error
            # It has stopped or hangs, and the controller has not fenced it yet.
            brokers.append(BrokerSeen(broker=broker, silence=str(error)))
        else:
            output.progress(f"read the directories of broker {broker.id}")
    return as_model(
        brokers,
        topics,
        settings,
        features,
        moment=f"at {now:%Y-%m-%d %H:%M:%S} UTC, as the brokers at {bootstrap} tell",
        moment_value={"time": f"{now:%Y-%m-%dT%H:%M:%SZ}", "bootstrap_server": bootstrap},
    )


async def _seen(client: AdminClient, broker: Broker) -> BrokerSeen:
    with needing("DESCRIBE on the cluster"):
        log_dirs = await describe_log_dirs(client, broker.id)
        for one in log_dirs:
            if one.error_code not in (0, ErrorCode.KAFKA_STORAGE_ERROR):
                raise RequestError(one.error_code, f"{one.path}: {name_of(one.error_code)}")
    with needing("DESCRIBE_CONFIGS on the cluster"):
        keys = (METADATA_DIR, LOG_DIRS, LOG_DIR, OURS)
        settings = await broker_settings(client, broker.id, keys)
    if OURS in settings:
        log_dirs = await with_details(client, broker, log_dirs)
    return BrokerSeen(broker=broker, log_dirs=log_dirs, metadata_dir=metadata_dir(settings))


@contextmanager
def needing(right: str) -> Iterator[None]:
    """Name the right that was lacking where a request is refused."""
    try:
        yield
    except RequestError as error:
        if error.code not in _REFUSALS:
            raise
        raise AdminError(f"what-if needs the right {right}: {error}") from error


def metadata_dir(settings: Mapping[str, str | None]) -> str:
    """Return the directory of a broker with the metadata log, without which it stops; pure."""
    of_all = settings.get(LOG_DIRS) or settings.get(LOG_DIR) or ""
    path = settings.get(METADATA_DIR) or of_all.split(",")[0].strip()
    return posixpath.normpath(path) if path else ""


def as_model(
    brokers: Sequence[BrokerSeen],
    topics: Mapping[str, TopicDescription],
    settings: Mapping[str, Mapping[str, str | None]],
    features: Features,
    *,
    moment: str = "",
    moment_value: LossMoment | None = None,
) -> model.Cluster:
    """Return what a loss concerns of a cluster; pure.

    Args:
        brokers: The brokers that Metadata lists, with what they hold.
        topics: All topics that may be described.
        settings: MIN_ISR and UNCLEAN_ELECTION of each.
        features: Of the cluster and its release.
        moment: When it was so.
        moment_value: The same as JSON has it.
    """
    partitions = {
        TopicPartition(topic.name, one.index): _partition(one)
        for topic in topics.values()
        for one in topic.partitions
    }
    named = {broker for one in partitions.values() for broker in one.replicas}
    gone = sorted(named - {seen.broker.id for seen in brokers})
    elects_unclean = features.supported.get(METADATA_VERSION, 0) >= UNCLEAN_ELECTION_LEVEL
    return model.Cluster(
        moment=moment,
        moment_value=moment_value or {},
        brokers=[
            *map(_broker, brokers),
            *(BrokerPicture(broker_id=broker, registration=GONE) for broker in gone),
        ],
        partitions=partitions,
        rules={
            topic: model.TopicRules(
                min_isr=int(found.get(MIN_ISR) or 1),
                unclean_election=found.get(UNCLEAN_ELECTION) == "true" and elects_unclean,
            )
            for topic, found in settings.items()
        },
        has_elr=features.finalized.get(ELR_VERSION, 0) > 0,
        notes=[*_of_silent(brokers), *(f"broker {one} is {GONE}: {_NOT_KNOWN}" for one in gone)],
    )


def _of_silent(brokers: Sequence[BrokerSeen]) -> list[str]:
    return [
        f"broker {seen.broker.id} is {SILENT} ({seen.silence}): it counts as failed, and "
        f"{_NOT_KNOWN}"
        for seen in brokers
        if seen.silence
    ]


def _broker(seen: BrokerSeen) -> BrokerPicture:
    """Return a broker; nobody knows the directories of one that does not answer."""
    log_dirs = None if seen.silence else [_log_dir(seen, one) for one in seen.log_dirs]
    return BrokerPicture(
        broker_id=seen.broker.id,
        rack=seen.broker.rack,
        registration=SILENT if seen.silence else SERVING,
        log_dirs=log_dirs,
        paths={one.path: number for number, one in enumerate(log_dirs or (), start=1)},
    )


def _log_dir(seen: BrokerSeen, one: DescribedLogDir) -> DescribedLogDir:
    return replace(one, has_metadata_log=posixpath.normpath(one.path) == seen.metadata_dir)


def _partition(one: PartitionDescription) -> PartitionPicture:
    return PartitionPicture(
        leader=NO_LEADER if one.leader is None else one.leader,
        replicas=one.replicas,
        isr=one.isr,
        offline=one.offline,
        elr=one.elr or (),
        last_known_elr=one.last_known_elr or (),
    )
