"""The cluster as its clients see it: leaders, ISRs, topics, asked of any broker that answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from jbodlab.kafka_admin.errors import AdminError
from jbodlab.vocabulary.error_code import ErrorCode
from lab.cluster import security
from lab.cluster.node import Broker
from lab.errors import LabError
from lab.machine.waiting import wait_for

if TYPE_CHECKING:
    from jbodlab.kafka_admin.client import AdminClient
    from jbodlab.picture.cluster_picture import PartitionPicture
    from lab.cluster.questions import ClusterView

ASK_TIMEOUT_S = 2.0
T = TypeVar("T")
TOPIC_DEADLINE_S = 30.0


class ClientsView:
    """Asks the brokers of one cluster, creates topics and deletes them.

    Attributes:
        brokers: Whom to ask, by rising id.
    """

    brokers: Sequence[Broker]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def client_config(self) -> dict[str, str]:
        """Settings that librdkafka needs to reach the cluster."""
        client_file = self.brokers[0].state.client_file
        return {"bootstrap.servers": self.bootstrap, **security.librdkafka(client_file)}

    def broker(self, broker_id: int) -> Broker:
        """Return a broker; the first is broker 1."""
        return self.brokers[broker_id - 1]

    def view(self) -> ClusterView:
        """Return the cluster as the first broker tells that answers.

        Raises:
            LabError: no broker answers.
        """
        from lab.cluster import questions

        for broker in self.brokers:
            if broker.is_running:
                view = questions.view(broker.state, ASK_TIMEOUT_S)
                if view is not None:
                    return view
        raise LabError("no broker answers")

    def partitions(self, topic: str) -> dict[int, PartitionPicture]:
        """Return the partitions of a topic as clients are told of them; empty if it is unknown."""
        return {
            key.partition: partition
            for key, partition in self.view().partitions.items()
            if key.topic == topic
        }

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader of each partition of a topic, -1 where there is none."""
        return {index: found.leader for index, found in self.partitions(topic).items()}

    def leader(self, topic: str, partition: int) -> Broker:
        """Return the broker that leads a partition, waiting until there is one."""
        return self.broker(
            wait_for(
                f"a leader of {topic}-{partition}",
                lambda: max(self.leaders(topic).get(partition, -1), 0),
            )
        )

    def followers(self, topic: str, partition: int) -> list[Broker]:
        """Return the brokers that follow a partition."""
        leader = self.leader(topic, partition)
        replicas = self.partitions(topic)[partition].replicas
        return [self.broker(replica) for replica in replicas if replica != leader.id]

    def wait_leaders(self, topic: str, deadline_s: float = TOPIC_DEADLINE_S) -> None:
        """Wait until every partition of a topic has a leader."""
        wait_for(
            f"leaders of {topic}",
            lambda: all(leader >= 0 for leader in self.leaders(topic).values() or [-1]),
            deadline_s,
            last_seen=lambda: self.leaders(topic),
        )

    def wait_isr(self, topic: str, deadline_s: float = TOPIC_DEADLINE_S) -> None:
        """Wait until a topic is there, and every replica of it in its ISR."""

        def is_whole() -> bool:
            partitions = self.partitions(topic)
            return bool(partitions) and _are_in_sync(partitions.values())

        wait_for(
            f"every replica of {topic} in sync",
            is_whole,
            deadline_s,
            last_seen=lambda: self.partitions(topic) or f"no topic {topic}",
        )

    def wait_all_in_sync(self, deadline_s: float = TOPIC_DEADLINE_S) -> None:
        """Wait until every replica is in its ISR, of whichever topics are there."""
        wait_for(
            "every replica in sync",
            lambda: _are_in_sync(self.view().partitions.values()),
            deadline_s,
            last_seen=lambda: self.view().partitions,
        )

    # Clients

    def ask(self, question: Callable[[AdminClient], Coroutine[Any, Any, T]]) -> T:
        """Ask the cluster by the administration client, where no event loop runs.

        Raises:
            AdminError: no broker answers, or the cluster refuses.
        """
        from lab.cluster import questions

        servers = [(broker.state.host, broker.state.port) for broker in self.brokers]
        return questions.ask(servers, security.of_node(self.brokers[0].state), question)

    def create_topic(
        self, name: str, partitions: int = 6, replicas: int = 3, **config: str
    ) -> None:
        """Create a topic and wait until it is led.

        Args:
            name: Its name.
            partitions: How many.
            replicas: How many of each partition.
            config: Settings, with `_` for each dot.
        """
        from jbodlab.kafka_admin.topics import create_topic

        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.ask(
            lambda client: create_topic(
                client, name, settings, partitions=partitions, replication_factor=replicas
            )
        )
        self.wait_leaders(name)

    def delete_topics(self, *names: str) -> None:
        """Delete topics; one that somebody has deleted already is no error.

        Raises:
            LabError: the cluster refused, or did not answer.
        """
        from jbodlab.kafka_admin.topics import delete_topics

        if not names:
            return
        try:
            refused = self.ask(lambda client: delete_topics(client, names))
        except AdminError as error:
            raise LabError(f"cannot delete topic {', '.join(names)}: {error}") from error
        problems = [
            f"cannot delete topic {name}: {error}"
            for name, error in refused.items()
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        if problems:
            raise LabError("; ".join(problems))


def _are_in_sync(partitions: Iterable[PartitionPicture]) -> bool:
    return all(set(found.isr) == set(found.replicas) for found in partitions)
