"""`jbodlab what-if`: what would lose its leader if a directory or a broker failed now.

Taken from the last state in the log, with the rules of a controller's election
(`derive.loss`). What brokers have in their own files, as an unclean election that is
allowed there, is not in the log.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from analytics.ask.answer import directory_text, moment, state_text
from analytics.ask.assumptions import assumed_min_isr
from analytics.ask.cluster import Cluster, read_cluster, serves
from analytics.ask.cluster_answers import parse_directory
from analytics.ask.offline_log import At, OfflineLog
from analytics.ask.partition_states import PartitionAt, partition_states
from analytics.ask.texts import text_of
from analytics.ask.why import report_problems
from analytics.derive.loss import (
    Outcome,
    Rules,
    falls_below_min_isr,
    is_leaderless,
    without_replica,
)
from analytics.errors import ReplayInputError
from analytics.fold.min_insync import ASSUMED
from analytics.machine import complete_input
from jbodlab.cli.output import Output
from jbodlab.vocabulary.ids import BrokerId, DirectoryId

UNAVAILABLE = 2
"""Exit code when a partition would be without leader or below min.insync.replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is supposed to fail: a broker, or one of its directories."""

    broker: BrokerId
    directory: DirectoryId | None

    @property
    def name(self) -> str:
        """What it is called in a sentence."""
        if self.directory is None:
            return f"broker {self.broker}"
        return f"directory {directory_text(self.directory)} of broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the failure does to one partition."""

    partition: PartitionAt
    outcome: Outcome
    min_isr: int

    @property
    def loses_leader(self) -> bool:
        """Whether another replica would have to lead, or nobody could."""
        return self.outcome.leader != self.partition.state.leader

    @property
    def is_leaderless(self) -> bool:
        """Whether nobody would lead, where somebody does now."""
        return is_leaderless(self.partition.state, self.outcome)

    @property
    def falls_below_min_isr(self) -> bool:
        """Whether it would have too few replicas in sync, and has enough now."""
        return falls_below_min_isr(self.partition.state, self.outcome, self.min_isr)


def run(options: Namespace, output: Output) -> int:
    """Tell what a failure would do; returns 2 if something would become unavailable, else 0.

    Raises:
        ReplayInputError: there is no answer.
    """
    complete_input(options, output)
    log = OfflineLog(*options.input)
    at = log.at(options.at)
    records, dropped = log.common_records(at.offset)
    cluster = read_cluster(records, assumed_min_isr(options))
    failure = _failure(cluster, options.fail_dir, options.fail_broker)
    states = partition_states(log, cluster, records, dropped, at.offset)
    report_problems(output, log.problems)
    found = effects(cluster, states, failure)
    text = text_of("what_if", _for_text(cluster, at, failure, found))
    output.result(_as_json(at, failure, found), text)
    is_short = any(each.is_leaderless or each.falls_below_min_isr for each in found)
    return UNAVAILABLE if is_short else 0


def _as_json(at: At, failure: Failure, found: Sequence[Effect]) -> dict[str, object]:
    return {
        "failure": failure.name,
        "moment": moment(at),
        "partitions": [
            {
                "partition": each.partition.name,
                "leader": each.partition.state.leader,
                "leader_then": each.outcome.leader,
                "isr_then": list(each.outcome.isr),
                "min_insync_replicas": each.min_isr,
                "leaderless": each.is_leaderless,
                "below_min_isr": each.falls_below_min_isr,
                "unclean": each.outcome.is_unclean,
            }
            for each in found
        ],
    }


def effects(cluster: Cluster, partitions: Sequence[PartitionAt], failure: Failure) -> list[Effect]:
    """Return what a failure does to each partition that has a replica there.

    Args:
        cluster: The cluster at the moment.
        partitions: Its partitions.
        failure: What fails.
    """
    found = []
    for each in partitions:
        state, lost = each.state, failure.broker
        if lost not in state.replicas:
            continue
        if failure.directory is not None and state.directory(lost) != failure.directory:
            continue
        min_isr = min(cluster.min_isr(each.topic).value, len(state.replicas))
        rules = Rules(
            may_lead=partial(_may_lead, cluster, each, lost),
            min_isr=min_isr,
            has_elr=cluster.has_elr,
            unclean_election=cluster.unclean_election(each.topic),
        )
        outcome = without_replica(state, lost, rules)
        found.append(Effect(partition=each, outcome=outcome, min_isr=min_isr))
    return found


def _may_lead(cluster: Cluster, each: PartitionAt, lost: BrokerId, broker: BrokerId) -> bool:
    return broker != lost and serves(cluster.brokers.get(broker), each.state.directory(broker))


def _failure(cluster: Cluster, directory_name: str | None, broker: int | None) -> Failure:
    if directory_name is None:
        assert broker is not None
        if BrokerId(broker) not in cluster.brokers:
            raise ReplayInputError(f"broker {broker} is not registered")
        return Failure(broker=BrokerId(broker), directory=None)
    directory = parse_directory(directory_name)
    for known in cluster.brokers.values():
        if directory in known.directories:
            # A broker without any directory stops.
            is_last = len(known.directories) == 1
            return Failure(broker=known.broker_id, directory=None if is_last else directory)
    for owner, changes in cluster.changes.items():
        if any(change.after and directory in change.after.directories for change in changes):
            raise ReplayInputError(
                f"directory {directory_name} of broker {owner} is offline already"
            )
    raise ReplayInputError(f"directory {directory_name} is known to no broker")


def _for_text(
    cluster: Cluster, at: At, failure: Failure, found: Sequence[Effect]
) -> dict[str, object]:
    named = {each.partition.topic for each in found}
    return {
        "failure": failure,
        "moment": moment(at),
        "state": state_text(cluster.brokers[failure.broker]),
        "effects": found,
        "why_nobody": partial(_why_nobody, cluster),
        "assumed": cluster.assumed_min_isr,
        "unset": sum(cluster.min_isr(topic).origin == ASSUMED for topic in named),
    }


def _why_nobody(cluster: Cluster, effect: Effect) -> list[str]:
    """Return why none of the other replicas would lead."""
    state = effect.partition.state
    others = []
    for broker, directory in zip(state.replicas, state.directories, strict=True):
        if broker == state.leader:
            continue
        registration = cluster.brokers.get(broker)
        if broker not in state.isr:
            others.append(f"{broker} is out of the ISR")
        elif registration is None or not registration.active:
            others.append(f"{broker} is {state_text(registration)}")
        elif not registration.directory_is_online(directory):
            others.append(f"{broker} is in an offline directory")
    return others
