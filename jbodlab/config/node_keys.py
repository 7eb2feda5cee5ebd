"""Every setting of brokers and controllers in one table, under Kafka's names and defaults (4.3).

One file may configure either role, as in Kafka; so both read this table, and a key that only the
other role uses is no unknown key. Keys that begin with `jbodlab.` are beyond Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from jbodlab.config.group_keys import GROUP_KEYS
from jbodlab.config.key_table import INT_MAX, LONG_MAX, Key, Kind
from jbodlab.config.unused_keys import UNUSED_KEYS

_INT, _NUM, _FLAG, _TEXT, _LIST = Kind.INTEGER, Kind.NUMBER, Kind.FLAG, Kind.TEXT, Kind.LIST


def _integer(
    name: str, default: int | None, meaning: str, minimum: int | None = None, maximum: int = INT_MAX
) -> Key:
    return Key(name, _INT, None if default is None else str(default), meaning, minimum, maximum)


def _long(name: str, default: int | None, meaning: str, minimum: int | None = None) -> Key:
    return _integer(name, default, meaning, minimum, LONG_MAX)


MIB = 1 << 20

KEYS: tuple[Key, ...] = (
    # The node and its addresses
    Key("process.roles", _LIST, "", "role of this node", choices=("broker", "controller")),
    _integer("node.id", -1, "id of this node; broker.id is the older name"),
    _integer("broker.id", -1, "older name of node.id"),
    Key("broker.rack", _TEXT, None, "rack of this broker"),
    Key("controller.quorum.voters", _LIST, "", "id@host:port of the controller"),
    Key("controller.listener.names", _LIST, None, "listener names of the controller"),
    Key("listeners", _LIST, "PLAINTEXT://:9092", "addresses to listen on, as NAME://host:port"),
    Key(
        "advertised.listeners",
        _LIST,
        None,
        "addresses for clients to connect to; default: listeners",
    ),
    Key(
        "listener.security.protocol.map",
        _TEXT,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "security protocol of each listener name; only PLAINTEXT is supported",
    ),
    Key("inter.broker.listener.name", _TEXT, None, "listener for connections between brokers"),
    _integer("socket.request.max.bytes", 104_857_600, "largest request that a client may send", 1),
    _long(
        "queued.max.request.bytes",
        104_857_600,
        "bytes of requests in memory from which clients wait; -1: no limit",
        -1,
    ),
    _integer("max.connections", INT_MAX, "number of connections from which clients wait", 0),
    _integer("max.connections.per.ip", INT_MAX, "maximum connections from one IP address", 0),
    Key(
        "max.connections.per.ip.overrides",
        _TEXT,
        "",
        "maximum connections of single IP addresses, as ADDRESS:NUMBER,...",
    ),
    _long(
        "connections.max.idle.ms", 600_000, "close a connection after this idle time; -1: never", -1
    ),
    # Directories
    Key("log.dirs", _LIST, None, "data directories; overrides log.dir"),
    Key("log.dir", _LIST, "/tmp/kafka-logs", "data directory if log.dirs is not set"),
    Key(
        "metadata.log.dir",
        _TEXT,
        None,
        "directory of the metadata log; default: first log directory",
    ),
    _long(
        "log.dir.failure.timeout.ms",
        30_000,
        "stop the broker if it cannot report a failed directory in this time",
        1,
    ),
    Key(
        "cordoned.log.dirs",
        _LIST,
        "",
        "log directories that get no new replicas; *: all",
    ),
    Key(
        "log.dir.placement",
        _TEXT,
        "replicas",
        "place new replicas by number of replicas or by free bytes",
        choices=("replicas", "bytes"),
    ),
    _integer("jbodlab.log.dir.probe.interval.ms", 500, "interval between probes of a directory", 1),
    _integer(
        "jbodlab.log.dir.probe.deadline.ms",
        2_000,
        "a directory fails if a probe takes longer than this",
        1,
    ),
    _long(
        "log.dir.reserved.bytes",
        -1,
        "mark a directory FULL below this many free bytes (-1: 1 % of its size, 0: never)",
        -1,
    ),
    _integer(
        "log.dir.slow.threshold.ms",
        1_000,
        "mark a directory SLOW from this median I/O time on (0 or -1: never)",
        -1,
    ),
    Key(
        "log.dir.slow.outlier.factor",
        _NUM,
        "5",
        "mark a directory SLOW if it is this many times slower than the others (0: never)",
        0,
    ),
    _integer(
        "log.dir.slow.min.ms", 100, "never mark a directory SLOW below this median I/O time", 0
    ),
    _integer("log.dir.slow.window.ms", 10_000, "compare the I/O times of this period", 1),
    Key(
        "log.dir.slow.policy",
        _TEXT,
        "report",
        "report SLOW directories only, or also move leaders away from them",
        choices=("report", "move"),
    ),
    # Life of a broker
    _integer(
        "broker.heartbeat.interval.ms", 2_000, "interval between heartbeats to the controller", 1
    ),
    _integer(
        "broker.session.timeout.ms",
        9_000,
        "a broker is fenced after this time without heartbeats",
        1,
    ),
    _integer(
        "initial.broker.registration.timeout.ms",
        60_000,
        "stop the broker if it cannot register in this time",
        1,
    ),
    Key("controlled.shutdown.enable", _FLAG, "true", "transfer leadership before the broker stops"),
    # Replication
    _long("replica.lag.time.max.ms", 30_000, "a follower that lags longer leaves the ISR", 1),
    _integer("replica.fetch.wait.max.ms", 500, "maximum wait of a follower's fetch", 0),
    _integer("replica.fetch.min.bytes", 1, "minimum response size of a follower's fetch", 0),
    _integer(
        "replica.fetch.max.bytes",
        1_048_576,
        "maximum bytes of one partition in a follower's fetch",
        0,
    ),
    _integer(
        "replica.fetch.response.max.bytes", 10_485_760, "maximum bytes of a follower's fetch", 0
    ),
    _integer("replica.fetch.backoff.ms", 1_000, "pause after a failed fetch", 0),
    _integer("replica.socket.timeout.ms", 30_000, "maximum wait for another broker's response", 1),
    Key(
        "replica.selector.class",
        _TEXT,
        None,
        "RackAwareReplicaSelector lets consumers read from a replica in their rack (KIP-392)",
        choices=("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
    ),
    _integer(
        "num.replica.alter.log.dirs.threads",
        None,
        "maximum concurrent moves between directories; default: number of log.dirs",
        1,
    ),
    _long(
        "replica.high.watermark.checkpoint.interval.ms",
        5_000,
        "interval between high watermark checkpoints",
        1,
    ),
    # Topics
    _integer("num.partitions", 1, "default number of partitions of a topic", 1),
    _integer("default.replication.factor", 1, "default replication factor of a topic", 1),
    _integer("min.insync.replicas", 1, "reject acks=all if the ISR is smaller", 1),
    Key(
        "unclean.leader.election.enable",
        _FLAG,
        "false",
        "elect leaders outside the ISR if no replica in it is available",
    ),
    Key(
        "auto.create.topics.enable",
        _FLAG,
        "true",
        "create a topic when a client requests its metadata",
    ),
    _integer(
        "controller.quota.window.num",
        11,
        "number of windows whose controller_mutation_rate a client may use at once",
        1,
    ),
    _integer("controller.quota.window.size.seconds", 1, "length of a controller quota window", 1),
    Key("delete.topic.enable", _FLAG, "true", "whether topics may be deleted"),
    Key(
        "auto.leader.rebalance.enable", _FLAG, "true", "move leadership back to preferred replicas"
    ),
    _long(
        "leader.imbalance.check.interval.seconds",
        300,
        "interval between checks for preferred leaders",
        1,
    ),
    _long(
        "unclean.leader.election.interval.ms",
        300_000,
        "interval between checks for unclean elections",
        1,
    ),
    # Logs
    _integer("log.segment.bytes", 1_073_741_824, "size at which a segment is rolled", MIB),
    _long("log.roll.ms", None, "age at which a segment is rolled", 1),
    _integer("log.roll.hours", 168, "log.roll.ms in hours", 1),
    _integer("log.index.size.max.bytes", 10_485_760, "maximum size of a segment's index", 4),
    _integer("log.index.interval.bytes", 4_096, "bytes of log between two index entries", 0),
    _long("log.retention.ms", None, "age at which a segment is deleted; -1: never", -1),
    _integer("log.retention.minutes", None, "log.retention.ms in minutes", -1),
    _integer("log.retention.hours", 168, "log.retention.ms in hours", -1),
    _long(
        "log.retention.bytes",
        -1,
        "log size above which the oldest segments are deleted; -1: no limit",
    ),
    _long("log.retention.check.interval.ms", 300_000, "interval between retention checks", 1),
    Key(
        "log.cleanup.policy",
        _LIST,
        "delete",
        "what to do with old data: delete, compact or both",
        choices=("delete", "compact"),
    ),
    Key("log.cleaner.enable", _FLAG, "true", "compact topics with cleanup.policy=compact"),
    _long(
        "log.cleaner.backoff.ms", 15_000, "pause of the cleaner when there is nothing to compact", 0
    ),
    _long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "memory for keys (24 bytes each), shared by the cleaners of all directories",
        1 << 20,
    ),
    Key(
        "log.cleaner.io.buffer.load.factor",
        Kind.NUMBER,
        "0.9",
        "share of log.cleaner.dedupe.buffer.size to use in a round",
        0.01,
        1,
    ),
    Key(
        "log.cleaner.io.max.bytes.per.second",
        Kind.NUMBER,
        "1.7976931348623157E308",
        "maximum bytes per second that the cleaners of all directories read and write",
        1,
    ),
    Key(
        "log.cleaner.min.cleanable.ratio",
        Kind.NUMBER,
        "0.5",
        "compact a log when this share of it is dirty",
        0,
        1,
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, "do not compact records younger than this", 0),
    _long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        "compact records that are older than this",
        1,
    ),
    _long("log.cleaner.delete.retention.ms", 86_400_000, "how long compaction keeps tombstones", 0),
    _long(
        "log.segment.delete.delay.ms",
        60_000,
        "delay between the renaming and the removal of a deleted file",
        0,
    ),
    _long("log.flush.interval.messages", LONG_MAX, "flush a log after this many records", 1),
    _integer(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "interval between checkpoints of recovery points",
        0,
    ),
    _integer(
        "log.flush.start.offset.checkpoint.interval.ms",
        60_000,
        "interval between checkpoints of log start offsets",
        0,
    ),
    _long("log.initial.task.delay.ms", 30_000, "delay before background tasks first run", 0),
    _integer("message.max.bytes", 1_048_588, "largest record batch that is accepted", 0),
    Key(
        "log.message.timestamp.type",
        _TEXT,
        "CreateTime",
        "set record timestamps by the producer's or the broker's clock",
        choices=("CreateTime", "LogAppendTime"),
    ),
    _long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        "reject records whose timestamp is older than this",
        0,
    ),
    _long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        "reject records whose timestamp is this far in the future",
        0,
    ),
    _integer("producer.id.expiration.ms", 86_400_000, "forget a producer after this idle time", 1),
    # The metadata log
    _integer(
        "metadata.log.segment.bytes",
        1_073_741_824,
        "size at which a metadata segment is rolled",
        8_388_608,
    ),
    _long("metadata.log.segment.ms", 604_800_000, "age at which a metadata segment is rolled"),
    _long(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "maximum time between metadata snapshots",
        0,
    ),
    _long(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        "write a metadata snapshot after this many bytes of records",
        1,
    ),
    _long(
        "metadata.max.retention.bytes",
        104_857_600,
        "maximum size of the metadata log and its snapshots",
    ),
    _long(
        "metadata.max.retention.ms",
        604_800_000,
        "age at which metadata segments and snapshots are deleted",
    ),
    _integer(
        "metadata.max.idle.interval.ms",
        500,
        "write a NoOp record after this idle time; 0: never",
        0,
    ),
    _integer("request.timeout.ms", 30_000, "maximum time for a forwarded request", 1),
    # Metrics
    _integer("jbodlab.metrics.port", None, "port for GET /metrics; default: not served", 0, 65_535),
    Key("jbodlab.metrics.host", _TEXT, "127.0.0.1", "address for GET /metrics"),
)

TABLE: Mapping[str, Key] = {key.name: key for key in (*UNUSED_KEYS, *GROUP_KEYS, *KEYS)}
