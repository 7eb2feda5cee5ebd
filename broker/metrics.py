"""What a broker shows of itself: its log directories, its replicas and its own life.

Source: `LogManager`, `ReplicaManager`, `AssignmentsManager`, `BrokerServer` of Apache Kafka. Its
OfflineReplicaCount is always 0 by mistake; here it is what its name says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from broker.compaction.log_cleaner import LogCleaner
from broker.compaction.metrics import cleaner_metrics
from broker.controller_link.assignment_sender import AssignmentSender
from broker.controller_link.broker_life import BrokerLifecycle
from broker.controller_link.metadata_feed import MetadataFeed
from broker.coordination.group_coordinator import GroupCoordinator
from broker.disk.directory.condition import is_hung
from broker.disk.directory.lifecycle import LogDirState
from broker.disk.directory.log_dir import LogDir
from broker.disk.directory.log_dirs import LogDirs
from broker.disk.upkeep.condition_monitor import ConditionMonitor
from broker.moves.move import Move
from broker.moves.move_states import MoveState
from broker.moves.moves import RunningMoves
from broker.replica.in_sync import IsrChanges
from broker.replica.partition import Partition
from broker.replica.registry import ReplicaRegistry
from broker.traffic import TopicCount, Traffic
from jbodlab.kafka_wire.api_table import ApiKey
from jbodlab.runtime.metrics import Metric, counter, gauge, gauges, histograms

LOG_MANAGER = "kafka_log_LogManager"
REPLICA_MANAGER = "kafka_server_ReplicaManager"
MOVES = "kafka_server_ReplicaAlterLogDirsManager"
GROUPS = "kafka_server_group_coordinator_metrics"
METADATA = "kafka_server_broker_metadata_metrics"
REQUESTS = "kafka_network_RequestMetrics"
TOPICS = "kafka_server_BrokerTopicMetrics"
LOG_DIRECTORY = "logDirectory"

TOPIC_COUNTS = {
    TopicCount.BYTES_IN: "bytes of record batches appended for clients",
    TopicCount.BYTES_OUT: "bytes of record batches sent to consumers",
    TopicCount.MESSAGES_IN: "records appended for clients",
    TopicCount.REPLICATION_BYTES_IN: "bytes of record batches fetched from leaders",
    TopicCount.REPLICATION_BYTES_OUT: "bytes of record batches sent to followers",
    TopicCount.TOTAL_PRODUCE_REQUESTS: "partitions in produce requests",
    TopicCount.TOTAL_FETCH_REQUESTS: "partitions in fetch responses",
    TopicCount.FAILED_PRODUCE_REQUESTS: "partitions in produce requests that failed",
    TopicCount.FAILED_FETCH_REQUESTS: "partitions in fetch responses that failed",
}


class BrokerMetrics:
    """Collects the metrics of one broker; on the event loop.

    Args:
        log_dirs: Its directories.
        registry: Its replicas.
        isr_changes: How often ISRs changed.
        moves: Between directories.
        assignments: Its reports to the controller.
        lifecycle: Its life.
        feed: Its metadata.
        metadata_failures: How often somebody could not follow the metadata.
        conditions: Which of its directories are full or slow.
        traffic: What its clients and followers sent and were sent.
        cleaner: Compacts its logs.
        coordinator: Of groups.
    """

    def __init__(
        self,
        *,
        log_dirs: LogDirs,
        registry: ReplicaRegistry,
        isr_changes: IsrChanges,
        moves: RunningMoves,
        assignments: AssignmentSender,
        lifecycle: BrokerLifecycle,
        feed: MetadataFeed,
        metadata_failures: Callable[[], int],
        conditions: ConditionMonitor,
        wall_ms: Callable[[], int],
        traffic: Traffic,
        cleaner: LogCleaner,
        coordinator: GroupCoordinator,
    ) -> None:
        self._log_dirs = log_dirs
        self._registry = registry
        self._isr_changes = isr_changes
        self._running_moves = moves
        self._assignments = assignments
        self._lifecycle = lifecycle
        self._feed = feed
        self._metadata_failures = metadata_failures
        self._conditions = conditions
        self._wall_ms = wall_ms
        self._traffic = traffic
        self._cleaner = cleaner
        self._coordinator = coordinator

    def __call__(self) -> Iterator[Metric]:
        """Return all metrics as they are now."""
        yield from self._directories()
        yield from self._directory_conditions()
        yield from self._replica_counts()
        yield from self._moves()
        yield from cleaner_metrics(self._cleaner, self._log_dirs, self._wall_ms())
        yield gauge(
            "kafka_server_AssignmentsManager_QueuedReplicaToDirAssignments",
            "replicas whose directory the controller has not accepted yet",
            self._assignments.pending_count,
        )
        yield gauge(
            "kafka_server_KafkaServer_BrokerState",
            "0 not running, 1 starting, 2 recovery, 3 running, 6 controlled shutdown, 7 stopping",
            self._lifecycle.state,
        )
        yield from self._metadata()
        yield from self._groups()
        yield from self._requests()
        yield from self._topics()

    def _directories(self) -> Iterator[Metric]:
        dirs = self._log_dirs.all
        yield gauge(
            f"{LOG_MANAGER}_OfflineLogDirectoryCount",
            "configured log directories that are offline",
            sum(not log_dir.is_online for log_dir in dirs),
        )
        yield gauges(
            f"{LOG_MANAGER}_LogDirectoryOffline",
            "1 if the directory is offline, 0 if it is online",
            LOG_DIRECTORY,
            {str(log_dir.path): not log_dir.is_online for log_dir in dirs},
        )
        yield Metric(
            "jbodlab_log_dir_state",
            "gauge",
            "1 for the current state of a log directory, 0 for the others",
            [
                (
                    "",
                    {LOG_DIRECTORY: str(log_dir.path), "state": state.name},
                    log_dir.state is state,
                )
                for log_dir in dirs
                for state in LogDirState
            ],
        )
        yield gauges(
            "jbodlab_log_dir_replicas",
            "replicas in a log directory",
            LOG_DIRECTORY,
            {str(log_dir.path): log_dir.replica_count for log_dir in dirs},
        )
        yield Metric(
            "jbodlab_log_dir_revivals_total",
            "counter",
            "revivals of a log directory since the broker started",
            [("", {LOG_DIRECTORY: str(log_dir.path)}, log_dir.revivals) for log_dir in dirs],
        )
        yield histograms(
            "jbodlab_log_dir_call_seconds",
            "duration of calls to a log directory; call=long: such as loading and flushing",
            [
                ({LOG_DIRECTORY: str(log_dir.path), "call": call}, queue.latency)
                for log_dir in self._log_dirs.watched
                for call, queue in log_dir.queues.items()
            ],
        )
        yield from self._directory_queues()

    def _directory_queues(self) -> Iterator[Metric]:
        queues = [
            ({LOG_DIRECTORY: str(log_dir.path), "queue": name}, queue)
            for log_dir in self._log_dirs.watched
            for name, queue in log_dir.queues.items()
        ]
        yield Metric(
            "jbodlab_log_dir_queue_length",
            "gauge",
            "calls to a log directory that have not finished yet",
            [("", labels, queue.queue_length) for labels, queue in queues],
        )
        yield histograms(
            "jbodlab_log_dir_queue_seconds",
            "time that calls to a log directory waited for a thread of the directory",
            [(labels, queue.wait) for labels, queue in queues],
        )

    def _directory_conditions(self) -> Iterator[Metric]:
        dirs = {str(log_dir.path): log_dir for log_dir in self._log_dirs.all}
        for name, meaning, is_so in (
            ("full", "1 if an online directory accepts no more records", _is_full),
            ("slow", "1 if an online directory responds too slowly", _is_slow),
            ("hung", "1 if a directory is offline because a call did not return", _is_hung),
        ):
            values = {path: is_so(log_dir) for path, log_dir in dirs.items()}
            yield gauges(f"jbodlab_log_dir_{name}", meaning, LOG_DIRECTORY, values)
        looked_at = {
            path: (disk.total_bytes, disk.usable_bytes, disk.reserved_bytes)
            for path, log_dir in dirs.items()
            for disk in (log_dir.space.disk,)
            if disk.total_bytes is not None and disk.usable_bytes is not None
        }
        for column, (name, meaning) in enumerate(
            (
                ("total", "size of the file system of an online directory"),
                ("usable", "free bytes of an online directory, pending writes deducted"),
                ("reserved", "free bytes that records must not use"),
            )
        ):
            sizes = {path: found[column] for path, found in looked_at.items()}
            yield gauges(f"jbodlab_log_dir_{name}_bytes", meaning, LOG_DIRECTORY, sizes)
        yield Metric(
            "jbodlab_log_dir_latency_seconds",
            "gauge",
            "median duration of probes and appends in the last log.dir.slow.window.ms",
            [
                ("", {LOG_DIRECTORY: path, "work": work}, median_ms / 1000)
                for path, log_dir in dirs.items()
                for work, median_ms in self._conditions.latencies_ms(log_dir).items()
            ],
        )
        yield Metric(
            "jbodlab_log_dir_condition_changes_total",
            "counter",
            "times that the condition of an online directory changed (FULL, SLOW, HEALTHY)",
            [
                ("", {LOG_DIRECTORY: path}, self._conditions.changes[dirs[path].path])
                for path in dirs
            ],
        )
        yield Metric(
            "jbodlab_log_dir_refused_appends_total",
            "counter",
            "appends refused or delayed because the directory was full",
            [("", {LOG_DIRECTORY: path}, each.space.refused_count) for path, each in dirs.items()],
        )

    def _replica_counts(self) -> Iterator[Metric]:
        partitions = list(self._registry.partitions())
        led = [partition for partition in partitions if partition.leader is not None]
        for name, meaning, value in (
            ("PartitionCount", "replicas of this broker, offline ones included", len(partitions)),
            ("LeaderCount", "replicas of this broker that are leaders", len(led)),
            (
                "OfflineReplicaCount",
                "replicas of this broker in no usable log directory",
                sum(map(is_offline, partitions)),
            ),
            (
                "UnderReplicatedPartitions",
                "partitions led here whose ISR is smaller than their replica set",
                sum(map(is_under_replicated, led)),
            ),
            (
                "UnderMinIsrPartitionCount",
                "partitions led here whose ISR is smaller than min.insync.replicas",
                sum(_spare_isr(partition) < 0 for partition in led),
            ),
            (
                "AtMinIsrPartitionCount",
                "partitions led here whose ISR is exactly min.insync.replicas",
                sum(_spare_isr(partition) == 0 for partition in led),
            ),
            (
                "ReassigningPartitions",
                "partitions led here that are being reassigned",
                sum(map(is_reassigning, led)),
            ),
        ):
            yield gauge(f"{REPLICA_MANAGER}_{name}", meaning, value)
        changes = self._isr_changes
        yield counter(
            f"{REPLICA_MANAGER}_IsrShrinks_total",
            "times that the ISR of a partition led here shrank",
            changes.shrinks,
        )
        yield counter(
            f"{REPLICA_MANAGER}_IsrExpands_total",
            "times that the ISR of a partition led here grew",
            changes.expands,
        )

    def _moves(self) -> Iterator[Metric]:
        mover = self._running_moves
        moves = list(mover.moves())
        for name, meaning, value in (
            ("MaxLag", "largest lag of a future replica, in offsets", max_lag(moves)),
            ("FailedPartitionsCount", "moves whose target directory failed", mover.failed_count),
        ):
            yield gauge(f"{MOVES}_{name}", meaning, value)
        yield counter(
            "kafka_server_AlterLogDirsReplication_bytes_total",
            "bytes copied by moves between log directories",
            mover.throttle.copied_bytes,
        )
        for name, meaning, is_size in (
            ("kafka_log_Log_Size", "size of a future replica, in bytes", True),
            ("jbodlab_move_lag", "lag of a future replica, in offsets", False),
        ):
            yield Metric(
                name,
                "gauge",
                meaning,
                [
                    (
                        "",
                        {
                            "topic": move.topic_partition.topic,
                            "partition": str(move.topic_partition.partition),
                            "is_future": "true",
                        },
                        move.size_bytes if is_size else move.lag,
                    )
                    for move in moves
                ],
            )
        yield Metric(
            "jbodlab_moves",
            "gauge",
            "moves of replicas between log directories, by state",
            [
                ("", {"state": state.name}, sum(move.state is state for move in moves))
                for state in MoveState
                if not state.is_over
            ],
        )

    def _metadata(self) -> Iterator[Metric]:
        image = self._feed.image
        lag_ms = max(0, self._wall_ms() - image.timestamp_ms)
        for name, meaning, value in (
            (
                "last_applied_record_offset",
                "last offset of the metadata log that was applied",
                image.offset,
            ),
            (
                "last_applied_record_timestamp",
                "append time of the last applied metadata record, ms since 1970",
                image.timestamp_ms,
            ),
            (
                "last_applied_record_lag_ms",
                "time since the last applied metadata record was appended",
                lag_ms,
            ),
        ):
            yield gauge(f"{METADATA}_{name}", meaning, value)
        yield gauge(
            f"{METADATA}_metadata_apply_error_count",
            "times that a part of the broker failed to apply metadata; it is retried",
            self._metadata_failures(),
        )

    def _groups(self) -> Iterator[Metric]:
        counts = self._coordinator.shard_counts
        yield gauges(
            f"{GROUPS}_num_partitions",
            "partitions of the offsets topic whose groups this broker coordinates",
            "state",
            {state.name.lower(): count for state, count in counts.items()},
        )
        yield gauge(
            "jbodlab_group_coordinator_waiting_requests",
            "group requests that are waiting for other members or for replicas",
            self._coordinator.waiting_count,
        )

    def _requests(self) -> Iterator[Metric]:
        traffic = self._traffic
        yield Metric(
            f"{REQUESTS}_Requests_total",
            "counter",
            "requests, by API",
            [("", {"request": _name(api)}, count) for api, count in traffic.requests.items()],
        )
        yield Metric(
            f"{REQUESTS}_Errors_total",
            "counter",
            "requests that failed as a whole, by API and error",
            [
                ("", {"request": _name(api), "error": error.name}, count)
                for (api, error), count in traffic.errors.items()
            ],
        )
        yield histograms(
            f"{REQUESTS}_TotalTimeMs",
            "time until the response to a request was ready, waits for data and replicas included",
            [({"request": _name(api)}, times) for api, times in traffic.times_ms.items()],
        )

    def _topics(self) -> Iterator[Metric]:
        traffic = self._traffic
        traffic.keep(self._feed.image.topics.by_name)
        total = traffic.total
        for count, meaning in TOPIC_COUNTS.items():
            yield Metric(
                f"{TOPICS}_{count.value}_total",
                "counter",
                meaning,
                [
                    ("", {}, total[count]),
                    *(("", {"topic": topic}, found[count]) for topic, found in traffic.topics()),
                ],
            )


def _name(api: ApiKey) -> str:
    """Return an API's name as Kafka writes it."""
    return "".join(word.capitalize() for word in api.name.split("_"))


def max_lag(moves: Sequence[Move]) -> int:
    """Return how many offsets the slowest move is behind; 0 without moves."""
    return max((move.lag for move in moves), default=0)


def _is_full(log_dir: LogDir) -> bool:
    return log_dir.condition.is_full


def _is_slow(log_dir: LogDir) -> bool:
    return log_dir.condition.is_slow


def _is_hung(log_dir: LogDir) -> bool:
    return is_hung(log_dir.cause)


def is_offline(partition: Partition) -> bool:
    """Return whether a replica has no usable log directory.

    That is also one whose directory was offline when the broker started: no log was found for it,
    and none may be created.
    """
    return partition.is_without_log


def is_under_replicated(partition: Partition) -> bool:
    """Return whether the ISR of a led partition is not full; replicas being added do not count."""
    assert partition.leader is not None
    registration = partition.registration
    adding = len(registration.adding_replicas)
    return len(partition.leader.isr) < len(registration.replicas) - adding


def is_reassigning(partition: Partition) -> bool:
    """Return whether a partition gets other replicas."""
    registration = partition.registration
    return bool(registration.adding_replicas or registration.removing_replicas)


def _spare_isr(partition: Partition) -> int:
    assert partition.leader is not None
    return len(partition.leader.isr) - partition.min_isr
