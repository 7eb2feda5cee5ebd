"""A cluster from a metadata log, for `jbodlab what-if`.

Settings in a broker's own file, as an unclean election that is allowed there, is not in the
log; nor are sizes, nor which directory has the metadata log.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from analytics.ask.answer import moment
from analytics.ask.assumptions import assumed_min_isr
from analytics.ask.cluster import Cluster, read_cluster
from analytics.ask.directory_paths import directory_paths
from analytics.ask.offline_log import OfflineLog
from analytics.ask.partition_states import PartitionAt, partition_states
from analytics.ask.texts import text_of
from analytics.ask.why import report_problems
from analytics.machine import complete_input
from analytics.rare.min_insync import ASSUMED
from jbodlab.cli.output import Output
from jbodlab.picture.registered import of_registrations
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.what_if import cluster as model

if TYPE_CHECKING:
    from jbodlab.cli.results import LossMoment


def read(options: Namespace, output: Output) -> model.Cluster:
    """Return the cluster as it was at the moment of a command line.

    Raises:
        ReplayInputError: the log cannot be read, or has no such moment.
    """
    complete_input(options, output)
    log = OfflineLog(*options.input)
    at = log.at(options.at)
    assumed = assumed_min_isr(options)
    with log.tables(at, assumed) as tables:
        cluster = read_cluster(tables, assumed)
        states = partition_states(tables)
    report_problems(output, log.problems)
    paths = directory_paths(options.config, options.meta)
    found = moment(at)
    return as_model(
        cluster,
        states,
        moment=text_of("at", found).strip(),
        moment_value={
            "offset": found["offset"],
            "time": found["time"],
            "is_end": found["is_end"],
        },
        paths=paths,
    )


def as_model(
    cluster: Cluster,
    states: Sequence[PartitionAt],
    *,
    moment: str = "",
    moment_value: LossMoment | None = None,
    paths: Mapping[str, str] | None = None,
) -> model.Cluster:
    """Return what a loss concerns of a cluster.

    Args:
        cluster: Brokers, topics and settings.
        states: The partitions.
        moment: When it was so.
        moment_value: The same as JSON has it.
        paths: Of directories by the texts of their ids, as far as they are known.
    """
    former = {
        owner: [
            each
            for change in cluster.changes.get(owner, ())
            if change.after is not None
            for each in change.after.directories
        ]
        for owner in cluster.brokers
    }
    found = of_registrations(
        cluster.brokers.values(),
        {TopicPartition(one.topic, one.partition): one.state for one in states},
        former=former,
        paths=paths,
    )
    topics = {one.topic for one in states}
    unset = sum(cluster.min_isr(topic).origin == ASSUMED for topic in topics)
    return model.Cluster(
        moment=moment,
        moment_value=moment_value or {},
        brokers=found.brokers,
        listed=found.listed,
        partitions=found.partitions,
        tells_sizes=False,
        rules={
            topic: model.TopicRules(
                min_isr=cluster.min_isr(topic).value,
                unclean_election=cluster.unclean_election(topic),
            )
            for topic in topics
        },
        has_elr=cluster.has_elr,
        assumed=_assumed(cluster, unset),
    )


def _assumed(cluster: Cluster, unset: int) -> str:
    if not unset:
        return ""
    assumed, topics = cluster.assumed_min_isr, "topic" if unset == 1 else "topics"
    return (
        f"min.insync.replicas {assumed.value} ({assumed.source}) for {unset} {topics} that the "
        "log sets none for"
    )
