"""Actions of a plan beside faults, with the tools and clients that an operator would use."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jbodlab.kafka_admin.configs import alter_broker_config
from jbodlab.kafka_admin.elections import ElectionType, elect_leaders
from jbodlab.kafka_admin.errors import AdminError
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import TopicPartition
from jbodlab.vocabulary.reassignment_file import file_value
from lab.cluster import Cluster, NotInTimeError, wait_for
from lab.errors import LabError
from lab.hiding import hidden
from lab.machine import processes, programs
from lab.plan import targets
from lab.plan.plan import Entry, Topic
from lab.rehearsal.target_cluster import TargetCluster
from lab.watch.observer import Observer

MOVE_DEADLINE_S = 300.0


def create_topic(cluster: Cluster, topic: Topic) -> None:
    """Create a topic and wait until every partition has a leader and all its replicas.

    Raises:
        LabError: the cluster refused, did not answer, or a broker of it does not serve.
    """
    settings = {key.replace(".", "_"): value for key, value in topic.config.items()}
    _asked(
        f"cannot create topic {topic.name}",
        lambda: cluster.create_topic(topic.name, topic.partitions, topic.replicas, **settings),
    )
    try:
        cluster.wait_isr(topic.name)
    except NotInTimeError as error:
        raise LabError(str(error).splitlines()[0]) from error


def carry_out(
    entry: Entry, target_cluster: TargetCluster, observer: Observer, chance: random.Random
) -> str:
    """Carry out an action and wait for its end; returns what was done.

    Raises:
        LabError: it was refused, or did not end in time.
        ValueError: its target is not there now.
    """
    cluster, given = target_cluster.cluster, entry.details
    match entry.do:
        case "note":
            return str(given["text"])
        case "create-topic":
            topic = Topic(
                name=given["topic"], partitions=given["partitions"], replicas=given["replicas"]
            )
            create_topic(cluster, topic)
            return f"topic {topic.name} is created"
        case "delete-topic":
            cluster.delete_topics(given["topic"])
            return f"topic {given['topic']} is deleted"
        case "elect":
            return _elect(cluster, _partition(entry))
        case "revive":
            return _revive(entry, target_cluster, observer, chance)
        case "set-config":
            return _set_config(entry, cluster, observer, chance)
        case "move":
            return _move(entry, target_cluster, observer, chance)
        case _:
            return _reassign(entry, target_cluster, observer)


def _partition(entry: Entry) -> TopicPartition:
    return TopicPartition(entry.details["topic"], entry.details["partition"])


def _elect(cluster: Cluster, partition: TopicPartition) -> str:
    _asked(
        f"cannot elect a leader of {partition}",
        lambda: cluster.ask(
            lambda client: elect_leaders(client, ElectionType.PREFERRED, [partition])
        ),
    )
    return f"election of the preferred leader of {partition}"


def _revive(
    entry: Entry, target_cluster: TargetCluster, observer: Observer, chance: random.Random
) -> str:
    assert entry.where is not None
    places = targets.resolve(entry.where, observer.picture, chance, directories=True)
    return "; ".join(filter(None, map(target_cluster.revive, places)))


def _set_config(entry: Entry, cluster: Cluster, observer: Observer, chance: random.Random) -> str:
    assert entry.where is not None
    place = targets.resolve(entry.where, observer.picture, chance, directories=False)[0]
    changes: dict[str, str] = entry.details["config"]
    _asked(
        f"cannot change settings of {place}",
        lambda: cluster.ask(lambda client: alter_broker_config(client, place.broker, changes)),
    )
    shown = ", ".join(f"{key}={value}" for key, value in hidden(changes).items())
    return f"{place} has {shown}"


def _move(
    entry: Entry, target_cluster: TargetCluster, observer: Observer, chance: random.Random
) -> str:
    """Move a replica to another directory of its broker (KIP-113)."""
    partition, picture = _partition(entry), observer.picture
    target = targets.resolve(entry.details["to"], picture, chance, directories=True)[0]
    replicas = picture.replicas(partition)
    if target.broker not in replicas:
        raise LabError(f"{partition} has no replica on broker-{target.broker}")
    log_dirs = [
        str(target_cluster.path(target)) if replica == target.broker else "any"
        for replica in replicas
    ]
    _execute(target_cluster, partition, replicas, log_dirs)
    _wait_until(
        f"{partition} in {target}",
        lambda: partition in observer.picture.contents.get(target, {}),
    )
    return f"the replica of {partition} has moved to {target}"


def _reassign(entry: Entry, target_cluster: TargetCluster, observer: Observer) -> str:
    """Give a partition other replicas, each in a directory where one is named."""
    partition = _partition(entry)
    replicas, log_dirs = [], []
    for word in entry.details["replicas"]:
        broker, _, directory = word.partition("/dir-")
        replicas.append(int(broker))
        place = Place(int(broker), int(directory or 0))
        log_dirs.append(str(target_cluster.path(place)) if directory else "any")
    _execute(target_cluster, partition, replicas, log_dirs)

    def is_done() -> bool:
        now = observer.picture.partitions.get(partition)
        return now is not None and set(now.replicas) == set(replicas) and now.is_in_sync

    _wait_until(f"{partition} on brokers {replicas}", is_done)
    return f"{partition} has the replicas {','.join(entry.details['replicas'])}"


def _execute(
    target_cluster: TargetCluster,
    partition: TopicPartition,
    replicas: Sequence[int],
    log_dirs: Sequence[str],
) -> None:
    """Have a reassignment carried out by the administration tool, as an operator would."""
    plan = file_value([(*partition, replicas, log_dirs)])
    client_file = target_cluster.cluster.brokers[0].state.client_file
    login = ("--command-config", client_file) if client_file else ()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reassignment.json"
        file.write_text(json.dumps(plan), "utf-8")
        done = processes.run(
            [
                *(programs.python(), "-m", "jbodlab", "reassign", "execute", str(file), "--yes"),
                *("--bootstrap-server", target_cluster.cluster.bootstrap, *login),
            ],
            user=processes.own_user(),
            environment=target_cluster.cluster.environment(),
        )
    if done.returncode:
        raise LabError(" ".join((done.stderr or done.stdout).split())[-300:])


def _wait_until(what: str, condition: Any) -> None:
    wait_for(what, condition, MOVE_DEADLINE_S)


def _asked(failure: str, question: Callable[[], object]) -> None:
    try:
        question()
    except (AdminError, TimeoutError) as error:
        raise LabError(f"{failure}: {error}") from error
