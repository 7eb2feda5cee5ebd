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
    Key("process.roles", _LIST, "", "roles of this node", choices=("broker", "controller")),
    _integer("node.id", -1, "id of this node; broker.id is its older name"),
    _integer("broker.id", -1, "older name of node.id"),
    Key("broker.rack", _TEXT, None, "rack of this broker"),
    Key("controller.quorum.voters", _LIST, "", "id@host:port of the controller"),
    Key("controller.listener.names", _LIST, None, "names of the controller's listeners"),
    Key("listeners", _LIST, "PLAINTEXT://:9092", "addresses to listen on, NAME://host:port"),
    Key("advertised.listeners", _LIST, None, "addresses that clients are told; default: listeners"),
    Key(
        "listener.security.protocol.map",
        _TEXT,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "security protocol of each listener name; only PLAINTEXT is served",
    ),
    Key("inter.broker.listener.name", _TEXT, None, "listener that brokers use among themselves"),
    _integer("socket.request.max.bytes", 104_857_600, "largest request of a client", 1),
    _long(
        "queued.max.request.bytes",
        104_857_600,
        "requests in memory beyond which clients wait; -1 for no limit",
        -1,
    ),
    _integer("max.connections", INT_MAX, "connections beyond which clients wait", 0),
    _integer("max.connections.per.ip", INT_MAX, "most connections of one address", 0),
    Key("max.connections.per.ip.overrides", _TEXT, "", "the same for some, as ADDRESS:NUMBER,..."),
    _long("connections.max.idle.ms", 600_000, "silence that closes a connection; -1 never", -1),
    # Directories
    Key("log.dirs", _LIST, None, "data directories; overrides log.dir"),
    Key("log.dir", _LIST, "/tmp/kafka-logs", "data directory where log.dirs is not set"),
    Key("metadata.log.dir", _TEXT, None, "directory of the metadata log; default: first log dir"),
    _long("log.dir.failure.timeout.ms", 30_000, "time to tell the controller of a failure", 1),
    Key(
        "cordoned.log.dirs",
        _LIST,
        "",
        "directories of log.dirs that get no new replicas; * for all",
    ),
    Key(
        "log.dir.placement",
        _TEXT,
        "replicas",
        "new replicas go where the fewest are, or by free bytes",
        choices=("replicas", "bytes"),
    ),
    _integer("jbodlab.log.dir.probe.interval.ms", 500, "time between two probes of a directory", 1),
    _integer("jbodlab.log.dir.probe.deadline.ms", 2_000, "longest time for a probe to answer", 1),
    _long("log.dir.reserved.bytes", -1, "free bytes below which FULL; -1: 1 % of it, 0: never", -1),
    _integer("log.dir.slow.threshold.ms", 1_000, "I/O time from which on SLOW; 0, -1: never", -1),
    Key("log.dir.slow.outlier.factor", _NUM, "5", "times slower than its peers: SLOW; 0: never", 0),
    _integer("log.dir.slow.min.ms", 100, "I/O time below which nothing is SLOW", 0),
    _integer("log.dir.slow.window.ms", 10_000, "time over which I/O times are compared", 1),
    Key(
        "log.dir.slow.policy",
        _TEXT,
        "report",
        "whether leaders move away from what is SLOW",
        choices=("report", "move"),
    ),
    # Life of a broker
    _integer("broker.heartbeat.interval.ms", 2_000, "time between two heartbeats", 1),
    _integer("broker.session.timeout.ms", 9_000, "silence after which a broker is fenced", 1),
    _integer("initial.broker.registration.timeout.ms", 60_000, "time to register after start", 1),
    Key("controlled.shutdown.enable", _FLAG, "true", "hand leadership over before stopping"),
    # Replication
    _long("replica.lag.time.max.ms", 30_000, "lag after which a follower leaves the ISR", 1),
    _integer("replica.fetch.wait.max.ms", 500, "longest wait of a follower's fetch", 0),
    _integer("replica.fetch.min.bytes", 1, "least answer of a follower's fetch", 0),
    _integer("replica.fetch.max.bytes", 1_048_576, "most bytes of one partition in a fetch", 0),
    _integer("replica.fetch.response.max.bytes", 10_485_760, "most bytes of a whole fetch", 0),
    _integer("replica.fetch.backoff.ms", 1_000, "pause after a failed fetch", 0),
    _integer("replica.socket.timeout.ms", 30_000, "longest wait for another broker's answer", 1),
    Key(
        "replica.selector.class",
        _TEXT,
        None,
        "set, consumers read from a replica in their rack (KIP-392)",
        choices=("org.apache.kafka.common.replica.RackAwareReplicaSelector",),
    ),
    _integer(
        "num.replica.alter.log.dirs.threads",
        None,
        "moves between directories that copy at a time; default: as many as log.dirs",
        1,
    ),
    _long("replica.high.watermark.checkpoint.interval.ms", 5_000, "time between checkpoints", 1),
    # Topics
    _integer("num.partitions", 1, "partitions of a topic that names no number", 1),
    _integer("default.replication.factor", 1, "replicas of a topic that names no number", 1),
    _integer("min.insync.replicas", 1, "ISR below which acks=all is refused", 1),
    Key("unclean.leader.election.enable", _FLAG, "false", "elect replicas outside of the ISR"),
    Key("auto.create.topics.enable", _FLAG, "true", "create a topic when a client asks for it"),
    _integer(
        "controller.quota.window.num",
        11,
        "windows whose controller_mutation_rate a client may use at once",
        1,
    ),
    _integer("controller.quota.window.size.seconds", 1, "length of such a window", 1),
    Key("delete.topic.enable", _FLAG, "true", "whether topics may be deleted"),
    Key("auto.leader.rebalance.enable", _FLAG, "true", "move leadership back to the first replica"),
    _long("leader.imbalance.check.interval.seconds", 300, "time between two such checks", 1),
    _long("unclean.leader.election.interval.ms", 300_000, "time between unclean checks", 1),
    # Logs
    _integer("log.segment.bytes", 1_073_741_824, "size at which a segment is closed", MIB),
    _long("log.roll.ms", None, "age at which a segment is closed", 1),
    _integer("log.roll.hours", 168, "the same in hours", 1),
    _integer("log.index.size.max.bytes", 10_485_760, "largest index of a segment", 4),
    _integer("log.index.interval.bytes", 4_096, "log bytes between two index entries", 0),
    _long("log.retention.ms", None, "age at which a segment is deleted; -1 never", -1),
    _integer("log.retention.minutes", None, "the same in minutes", -1),
    _integer("log.retention.hours", 168, "the same in hours", -1),
    _long("log.retention.bytes", -1, "size above which the oldest segments are deleted"),
    _long("log.retention.check.interval.ms", 300_000, "time between two checks", 1),
    Key(
        "log.cleanup.policy",
        _LIST,
        "delete",
        "what happens to old data: delete, compact or both",
        choices=("delete", "compact"),
    ),
    Key("log.cleaner.enable", _FLAG, "true", "compact the logs of topics that ask for it"),
    _long("log.cleaner.backoff.ms", 15_000, "pause when nothing was to be compacted", 0),
    _long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        "memory for keys, 24 bytes each, of all directories together",
        1 << 20,
    ),
    Key(
        "log.cleaner.io.buffer.load.factor",
        Kind.NUMBER,
        "0.9",
        "part of that memory that is filled in a round",
        0.01,
        1,
    ),
    Key(
        "log.cleaner.io.max.bytes.per.second",
        Kind.NUMBER,
        "1.7976931348623157E308",
        "bytes read and written in a second, of all directories together",
        1,
    ),
    Key(
        "log.cleaner.min.cleanable.ratio",
        Kind.NUMBER,
        "0.5",
        "part of a log that must be dirty before it is compacted",
        0,
        1,
    ),
    _long("log.cleaner.min.compaction.lag.ms", 0, "age at which a record may be compacted", 0),
    _long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        "age at which a record must be compacted",
        1,
    ),
    _long("log.cleaner.delete.retention.ms", 86_400_000, "how long a tombstone stays", 0),
    _long("log.segment.delete.delay.ms", 60_000, "time between renaming and removing a file", 0),
    _long("log.flush.interval.messages", LONG_MAX, "messages after which a log is flushed", 1),
    _integer("log.flush.offset.checkpoint.interval.ms", 60_000, "recovery point checkpoints", 0),
    _integer("log.flush.start.offset.checkpoint.interval.ms", 60_000, "log start checkpoints", 0),
    _long("log.initial.task.delay.ms", 30_000, "delay of the first background task", 0),
    _integer("message.max.bytes", 1_048_588, "largest batch that is accepted", 0),
    Key(
        "log.message.timestamp.type",
        _TEXT,
        "CreateTime",
        "whose clock stamps a record",
        choices=("CreateTime", "LogAppendTime"),
    ),
    _long("log.message.timestamp.before.max.ms", LONG_MAX, "oldest accepted timestamp", 0),
    _long("log.message.timestamp.after.max.ms", 3_600_000, "newest accepted timestamp", 0),
    _integer("producer.id.expiration.ms", 86_400_000, "silence that forgets a producer", 1),
    # The metadata log
    _integer("metadata.log.segment.bytes", 1_073_741_824, "size of a metadata segment", 8_388_608),
    _long("metadata.log.segment.ms", 604_800_000, "age of a metadata segment"),
    _long("metadata.log.max.snapshot.interval.ms", 3_600_000, "longest time between snapshots", 0),
    _long("metadata.log.max.record.bytes.between.snapshots", 20_971_520, "snapshot by size", 1),
    _long("metadata.max.retention.bytes", 104_857_600, "size of log and snapshots together"),
    _long("metadata.max.retention.ms", 604_800_000, "age at which a snapshot is deleted"),
    _integer("metadata.max.idle.interval.ms", 500, "silence before a NoOp; 0 never", 0),
    _integer("request.timeout.ms", 30_000, "longest wait of a forwarded request", 1),
    # Metrics
    _integer("jbodlab.metrics.port", None, "port of GET /metrics; not set: none", 0, 65_535),
    Key("jbodlab.metrics.host", _TEXT, "127.0.0.1", "address of GET /metrics"),
)

TABLE: Mapping[str, Key] = {key.name: key for key in (*UNUSED_KEYS, *GROUP_KEYS, *KEYS)}
