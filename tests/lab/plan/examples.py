"""Plans that are right, and each way in which one is wrong."""

from __future__ import annotations

GOOD = """\
rehearsal: 1
name: a disk dies
cluster: {brokers: 3, disks: {each: 2}}
topics:
  orders: {partitions: 4, replicas: 3}
load:
  - {name: writers, topic: orders, rate: 100/s}
steady: {within: 10s, hold: 1s, that: [isr_full == 1]}
timeline:
  - {at: 5s, do: permission, where: broker-1/dir-1, as: first, for: 20s}
end: {after: last.healed, plus: 5s}
objectives:
  - writers.lost == 0
"""
ENTRY = "  - {at: 5s, do: permission, where: broker-1/dir-1, as: first, for: 20s}"
WRITERS = "  - {name: writers, topic: orders, rate: 100/s}"
OBJECTIVE = "  - writers.lost == 0"


def entry(text: str) -> tuple[str, str]:
    return ENTRY, f"  - {text}"


def writers(text: str) -> tuple[str, str]:
    return WRITERS, f"  - {{name: writers, {text}}}"


def objective(text: str) -> tuple[str, str]:
    return OBJECTIVE, f"  - {text}"


WRONG = {
    "a version that is not known": (
        ("rehearsal: 1", "rehearsal: 2"),
        "p.yaml:1: rehearsal: expected 1, got 2",
    ),
    "no name": (("name: a disk dies\n", ""), "p.yaml:1: missing key 'name'"),
    "a key that is not known, and one that is near": (
        ("name: a disk dies", "name: x\nobjektives: []"),
        "p.yaml:3: objektives: unknown key 'objektives' (did you mean 'objectives'?)",
    ),
    "a key twice": (
        ("name: a disk dies", "name: x\nname: y"),
        "p.yaml:3: name: duplicate key",
    ),
    "a key with a character that JSON writes by two escapes": (
        ("name: a disk dies", 'name: x\n"\\ud83d\\ude00": []'),
        "p.yaml:3: \U0001f600: unknown key '\U0001f600'; expected one of rehearsal, ",
    ),
    "a half of such a character": (
        ("name: a disk dies", 'name: x\n"\\ud83d": []'),
        "p.yaml:3: \ufffd: unknown key '\ufffd'; expected one of rehearsal, ",
    ),
    "no YAML": (
        ("name: a disk dies", "name: [x"),
        "p.yaml:3: not YAML: expected ',' or ']', but got ':'",
    ),
    "no mapping": (
        (GOOD, "- 1\n"),
        "p.yaml:1: expected a mapping, got a list",
    ),
    "too many brokers": (
        ("brokers: 3", "brokers: 50"),
        "p.yaml:3: cluster.brokers: expected a number from 1 to 20, got 50",
    ),
    "a size of a folder": (
        ("{each: 2}", "{each: 2, size: 64MiB}"),
        "p.yaml:3: cluster: 'size' is for disks of the kind tmpfs or loop, a folder has none",
    ),
    "a kind of disk that is not known": (
        ("{each: 2}", "{each: 2, kind: nfs}"),
        "p.yaml:3: cluster.disks.kind: expected one of folder, tmpfs, loop, fuse, got 'nfs'",
    ),
    "a size of a disk that has none": (
        ("{each: 2}", "{each: 2, kind: fuse, size: 64MiB}"),
        "p.yaml:3: cluster: 'size' is for disks of the kind tmpfs or loop, a fuse has none",
    ),
    "a mechanism without its disks": (
        ("disks: {each: 2}", "mechanism: fuse, disks: {each: 2, kind: tmpfs}"),
        "p.yaml:3: cluster: the mechanism fuse needs disks of the kind fuse, and these are tmpfs",
    ),
    "two clusters": (
        ("topics:", "attach: {cluster: default}\ntopics:"),
        "p.yaml:4: attach: expected 'cluster', which starts one, or 'attach', which "
        "takes one that runs; got both",
    ),
    "more replicas than brokers": (
        ("replicas: 3", "replicas: 4"),
        "p.yaml:5: topics.orders.replicas: 4 replicas need as many brokers, and there are 3",
    ),
    "a topic's number that is a text": (
        ("partitions: 4", "partitions: four"),
        "p.yaml:5: topics.orders.partitions: expected a number from 1 to 1000, got 'four'",
    ),
    "no load": (
        (WRITERS, "  []", OBJECTIVE, "  - first.gap < 2s"),
        "p.yaml:7: load: expected at least one entry",
    ),
    "a topic that is not in the plan": (
        writers("topic: bills, rate: 1/s"),
        "p.yaml:7: load[0].topic: unknown topic 'bills' (topics of this plan: orders)",
    ),
    "a rate without a second": (
        writers("topic: orders, rate: fast"),
        "p.yaml:7: load[0].rate: 'fast' is not a rate, such as 500/s or 2MiB/s",
    ),
    "a rate that no client can keep": (
        writers("topic: orders, rate: 5000000/s"),
        "p.yaml:7: load[0]: expected a rate of at most 100000 messages a second, got 5000000",
    ),
    "idempotence without all": (
        writers("topic: orders, rate: 1/s, acks: 1, idempotent: true"),
        "p.yaml:7: load[0]: an idempotent producer needs acks: all, got 1",
    ),
    "acks of a kind that is not known": (
        writers("topic: orders, rate: 1/s, acks: most"),
        "p.yaml:7: load[0].acks: expected one of all, -1, 1, 0, got 'most'",
    ),
    "no acknowledgements at all": (
        writers("topic: orders, rate: 1/s, acks: 0"),
        "p.yaml:7: load[0]: acks: 0 acknowledges nothing, so nothing could be judged",
    ),
    "messages without room for their numbers": (
        writers("topic: orders, rate: 1/s, size: 3B"),
        "p.yaml:7: load[0].size: expected a size from 40B to 10MiB, got 3 bytes",
    ),
    "a probe that is no address": (
        (WRITERS, "  - {name: app, command: [x], probe: health}", OBJECTIVE, "  - app.exit == 0"),
        "p.yaml:7: load[0].probe: expected an address such as "
        "http://127.0.0.1:8000/health, got 'health'",
    ),
    "a steady state that cannot hold so long": (
        ("hold: 1s", "hold: 1m"),
        "p.yaml:8: steady: expected hold <= within, got 60 s and 10 s",
    ),
    "a steady state that is known at the end only": (
        ("[isr_full == 1]", "[writers.lost == 0]"),
        'p.yaml:8: steady.that[0]: "writers.lost" is known at the end only',
    ),
    "a length that is no duration": (
        entry('{at: 5s, do: permission, where: broker-1/dir-1, as: first, for: "5 parsecs"}'),
        "p.yaml:10: timeline[0].for: expected a duration such as 250ms, 20s or 1m30s, "
        "got '5 parsecs'",
    ),
    "neither a fault nor an action": (
        entry("{at: 5s, do: meteor, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].do: expected a fault (permission, read-only-bits, file-"
        "in-place, deleted, replaced, files-deleted, eio, read-only, full, slow, hang, power-loss, "
        "swapped, emptied, twin, kill, stop, restart, cut, certificate-expires, certificate-"
        "replaced, certificate-untrusted, user-removed, acl-removed) or an action (move, "
        "reassign, create-topic, delete-topic, elect, revive, set-config, note), got 'meteor'",
    ),
    "a fault of users of an open cluster": (
        entry("{at: 5s, do: user-removed, where: cluster, as: first}"),
        "p.yaml:10: timeline[0].where: user-removed needs a closed cluster: security in its "
        "cluster, such as sasl_ssl",
    ),
    "a fault of users on a broker": (
        entry("{at: 5s, do: acl-removed, where: broker-1, as: first}"),
        "p.yaml:10: timeline[0].where: expected the whole cluster for acl-removed, got 'broker-1'",
    ),
    "the whole cluster for a fault of a part": (
        entry("{at: 5s, do: kill, where: cluster, as: first}"),
        "p.yaml:10: timeline[0].where: expected a part of the cluster for kill, got 'cluster'",
    ),
    "a list in place of a fault": (
        entry("{at: 5s, do: [eio], where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].do: expected a fault (permission, ",
    ),
    "a mapping in place of a topic": (
        writers("topic: {a: b}, rate: 1/s"),
        "p.yaml:7: load[0].topic: expected a text, got a mapping",
    ),
    "no instant": (
        entry("{do: permission, where: broker-1/dir-1, as: first, for: 1s}"),
        "p.yaml:10: timeline[0]: expected one of 'at', 'after', 'when', got none",
    ),
    "two instants": (
        entry("{at: 1s, when: isr_full == 1, do: permission, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0]: expected one of 'at', 'after', 'when', got 'at' and 'when'",
    ),
    "plus without after": (
        entry("{at: 1s, plus: 2s, do: permission, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0]: 'plus' goes with 'after' only",
    ),
    "after an entry that is not there": (
        entry("{after: second.healed, do: permission, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].after: unknown entry 'second' (entries of the timeline:"
        " first, last)",
    ),
    "after a moment that is not known": (
        entry("{after: first.noticed, do: permission, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].after: expected NAME.MOMENT with a moment of injected, "
        "proved, detected, reported, elected, first_ack, healed, got 'first.noticed'",
    ),
    "after the healing of what stands until the end": (
        (
            ENTRY,
            "  - {at: 1s, do: permission, where: broker-1/dir-1, as: first}\n"
            "  - {after: first.healed, do: kill, where: broker-2, for: 1s}",
        ),
        "p.yaml:11: timeline[1].after: 'first' lasts until the end: it has no 'for'",
    ),
    "a fault that no controller has": (
        entry("{at: 5s, do: power-loss, where: active controller, as: first}"),
        "p.yaml:10: timeline[0].where: power-loss is a fault of brokers; faults of a controller: "
        "kill, stop, restart, cut, certificate-expires, certificate-replaced, "
        "certificate-untrusted, permission, read-only-bits, file-in-place, deleted, replaced, "
        "emptied, eio, read-only, full, slow, hang",
    ),
    "no target": (
        entry("{at: 5s, do: permission, as: first, for: 20s}"),
        "p.yaml:10: timeline[0]: missing key 'where'",
    ),
    "a target that is none": (
        entry("{at: 5s, do: permission, where: the cellar, as: first}"),
        "p.yaml:10: timeline[0].where: expected a target such as broker-2, "
        "broker-2/dir-1, controller, active controller, leader-of orders/0, "
        "coordinator-of writers, busiest directory of broker-3, all directories of broker-1; "
        "got 'the cellar'",
    ),
    "the coordinator of a producer without transactions": (
        entry("{at: 5s, do: permission, where: coordinator-of writers, as: first, for: 20s}"),
        "p.yaml:10: timeline[0].where: 'coordinator-of writers': no client with transactions "
        "(there are: none)",
    ),
    "transactions of nobody": (
        objective("transactions.torn == 0"),
        "p.yaml:13: objectives[0]: unknown load or entry 'transactions' "
        "(known: writers, first, all)",
    ),
    "a time of commits without transactions": (
        writers("topic: orders, rate: 1/s, commit: 1s"),
        "p.yaml:7: load[0]: 'commit' goes with 'transactional' only",
    ),
    "transactions with one acknowledgement": (
        writers("topic: orders, rate: 1/s, transactional: true, acks: 1"),
        "p.yaml:7: load[0]: a transactional producer is idempotent and needs acks: all",
    ),
    "an application of a topic that is not there": (
        (WRITERS, f"{WRITERS}\n  - {{streams: word-count, from: lines, to: orders}}"),
        "p.yaml:8: load[1].from: unknown topic 'lines' (topics of this plan: orders)",
    ),
    "an application that nobody knows": (
        (WRITERS, f"{WRITERS}\n  - {{streams: joins, from: orders, to: orders}}"),
        "p.yaml:8: load[1].streams: expected one of word-count, got 'joins'",
    ),
    "an application without its output": (
        (WRITERS, f"{WRITERS}\n  - {{streams: word-count, from: orders}}"),
        "p.yaml:8: load[1]: missing key 'to'",
    ),
    "an application that reads what it writes": (
        (WRITERS, f"{WRITERS}\n  - {{streams: word-count, from: orders, to: orders}}"),
        "p.yaml:8: load[1]: expected two topics, got orders in both",
    ),
    "a release of an application that is none": (
        (
            *("replicas: 3}", "replicas: 3}\n  counts: {partitions: 4}"),
            WRITERS,
            f"{WRITERS}\n  - {{streams: word-count, from: orders, to: counts, release: latest}}",
        ),
        "p.yaml:9: load[1].release: expected a release such as 4.3.1, got 'latest'",
    ),
    "what an application has counted, before the end": (
        (
            *("replicas: 3}", "replicas: 3}\n  counts: {partitions: 4}"),
            *(WRITERS, f"{WRITERS}\n  - {{streams: word-count, from: orders, to: counts}}"),
            *("that: [isr_full == 1]", "that: [words.missing == 0]"),
        ),
        'p.yaml:10: steady.that[0]: "words.missing" is known at the end only',
    ),
    "the name of what all transactions are": (
        (WRITERS, f"{WRITERS}\n  - {{name: transactions, topic: orders}}"),
        "p.yaml:8: load[1]: the name 'transactions' is taken",
    ),
    "a broker that is not there": (
        entry("{at: 5s, do: kill, where: broker-4, as: first}"),
        "p.yaml:10: timeline[0].where: 'broker-4': there are the brokers 1 to 3",
    ),
    "a directory that is not there": (
        entry("{at: 5s, do: permission, where: broker-1/dir-3, as: first}"),
        "p.yaml:10: timeline[0].where: 'broker-1/dir-3': a broker has the directories 1 to 2",
    ),
    "a partition that is not there": (
        entry("{at: 5s, do: permission, where: leader-of orders/9, as: first}"),
        "p.yaml:10: timeline[0].where: 'leader-of orders/9': orders has the partitions 0 to 3",
    ),
    "a topic in a target that is not there": (
        entry("{at: 5s, do: permission, where: leader-of bills/0, as: first}"),
        "p.yaml:10: timeline[0].where: 'leader-of bills/0': unknown topic (topics of "
        "this plan: orders)",
    ),
    "a broker where a directory is needed": (
        entry("{at: 5s, do: permission, where: broker-1, as: first}"),
        "p.yaml:10: timeline[0].where: expected a directory for permission, got the "
        "node 'broker-1'",
    ),
    "a directory where a broker is needed": (
        entry("{at: 5s, do: kill, where: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].where: expected a broker for kill, got the directory "
        "'broker-1/dir-1'",
    ),
    "a word that the fault does not know": (
        entry("{at: 5s, do: permission, where: broker-1/dir-1, as: first, delay: 5ms}"),
        "p.yaml:10: timeline[0].delay: unknown key 'delay'; "
        "expected one of as, at, after, when, plus, within, repeat, where, for, mechanism",
    ),
    "a class of calls that is not known": (
        entry("{at: 5s, do: slow, where: broker-1/dir-1, as: first, delay: 5ms, calls: [think]}"),
        "p.yaml:10: timeline[0].calls: unknown call 'think'; expected create, ",
    ),
    "a hang that is too long": (
        entry("{at: 5s, do: hang, where: broker-1/dir-1, as: first, for: 1h}"),
        "p.yaml:10: timeline[0].for: expected at most 600 s, got '1h'",
    ),
    "a repetition without an interval": (
        entry("{at: 5s, do: permission, where: broker-1/dir-1, as: first, repeat: {times: 3}}"),
        "p.yaml:10: timeline[0].repeat: missing key 'every'",
    ),
    "a repetition without an interval, of what has a length": (
        entry(
            "{at: 5s, do: permission, where: broker-1/dir-1, as: first, for: 9s, "
            "repeat: {times: 3}}"
        ),
        "p.yaml:10: timeline[0].repeat: missing key 'every'",
    ),
    "a setting of a topic that Kafka does not know": (
        ("replicas: 3}", "replicas: 3, config: {min.insync: 2}}"),
        "p.yaml:5: topics.orders.config: invalid value '2' for configuration min.insync: "
        "Unknown topic config name",
    ),
    "a setting of a topic that is out of range": (
        ("replicas: 3}", "replicas: 3, config: {min.insync.replicas: 0}}"),
        "p.yaml:5: topics.orders.config: invalid value '0' for configuration min.insync.replicas: "
        "value must be at least 1",
    ),
    "a setting of the servers that is no number": (
        ("cluster: {brokers: 3", "cluster: {config: {num.io.threads: many}, brokers: 3"),
        "p.yaml:3: cluster.config: invalid value 'many' for configuration num.io.threads: "
        "expected an integer",
    ),
    "an action without its words": (
        entry("{at: 5s, do: move, topic: orders, partition: 0, as: first}"),
        "p.yaml:10: timeline[0]: missing key 'to'",
    ),
    "an action on a partition that is not there": (
        entry("{at: 5s, do: elect, topic: orders, partition: 4, as: first}"),
        "p.yaml:10: timeline[0]: orders has the partitions 0 to 3, not 4",
    ),
    "a name that is taken": (
        (ENTRY, ENTRY.replace("first", "writers")),
        "p.yaml:10: timeline[0]: the name 'writers' is taken",
    ),
    "an end that never is": (
        ("end: {after: last.healed, plus: 5s}", "end: {plus: 5s}"),
        "p.yaml:11: end: expected either 'at' or 'after'",
    ),
    "an objective about nobody": (
        objective("readers.lost == 0"),
        "p.yaml:13: objectives[0]: unknown load or entry 'readers' (known: writers, first, all)",
    ),
    "a metric that is not known": (
        objective("writers.losst == 0"),
        "p.yaml:13: objectives[0]: unknown metric of writers 'losst' (did you mean 'lost'?)",
    ),
    "a duration against a number": (
        objective("first.gap < 2"),
        'p.yaml:13: objectives[0]: expected a duration for "first.gap", got "2"',
    ),
    "nothing to compare with": (
        objective("writers.lost"),
        'p.yaml:13: objectives[0]: expected one of < <= == != >= > after "writers.lost", '
        "got the end",
    ),
    "two objectives without and": (
        objective("writers.lost == 0 first.gap < 2s"),
        'p.yaml:13: objectives[0]: expected "and", "or" or the end, got "first"',
    ),
    "availability within nothing": (
        objective("writers.availability > 99%"),
        'p.yaml:13: objectives[0]: "writers.availability" needs a duration: '
        "writers.availability(1s)",
    ),
    "a severity that is not known": (
        objective("{that: writers.lost == 0, severity: mild}"),
        "p.yaml:13: objectives[0].severity: expected one of fail, warn, got 'mild'",
    ),
    "what breaks the run off is known at the end only": (
        objective("{that: writers.lost == 0, abort: true}"),
        'p.yaml:13: objectives[0].that: "writers.lost" is known at the end only',
    ),
    "a key without a value": (
        entry("{at: 5s, do: permission, where: broker-1/dir-1, as: first, for: }"),
        "p.yaml:10: timeline[0].for: expected a value, got none",
    ),
    "a disk that is too small": (
        ("{each: 2}", "{each: 2, kind: tmpfs, size: 1KiB}"),
        "p.yaml:3: cluster.disks.size: expected at least 8MiB for a disk, got '1KiB'",
    ),
    "a loss of power without disks that can lose it": (
        entry("{at: 5s, do: power-loss, where: broker-1, as: first, for: 1s}"),
        "p.yaml:10: timeline[0].where: power-loss needs disks of the kind loop, and these are "
        "folder",
    ),
    "faults that no controller has": (
        entry("{at: 5s, do: power-loss, where: controller, as: first, for: 1s}"),
        "p.yaml:10: timeline[0].where: power-loss is a fault of brokers; faults of the controller: "
        "kill, stop, restart, cut, certificate-expires, certificate-replaced, "
        "certificate-untrusted",
    ),
    "a cut from a broker that is not there": (
        entry("{at: 5s, do: cut, where: broker-1, from: broker-9, as: first, for: 2s}"),
        "p.yaml:10: timeline[0].from: 'broker-9': there are the brokers 1 to 3",
    ),
    "a cut from somebody who is not known": (
        entry("{at: 5s, do: cut, where: broker-1, from: [world], as: first, for: 2s}"),
        "p.yaml:10: timeline[0].from: expected controller, brokers, clients, broker-N "
        "or controller-N, got 'world'",
    ),
    "a cut from itself": (
        entry("{at: 5s, do: cut, where: broker-1, from: broker-1, as: first, for: 2s}"),
        "p.yaml:10: timeline[0].from: 'broker-1' cannot be cut off from itself",
    ),
    "a cut of the controller from anybody else": (
        entry("{at: 5s, do: cut, where: controller, from: clients, as: first, for: 2s}"),
        "p.yaml:10: timeline[0].from: a controller is cut off from all brokers",
    ),
    "a directory that changes places with itself": (
        entry("{at: 5s, do: swapped, where: broker-1/dir-1, with: broker-1/dir-1, as: first}"),
        "p.yaml:10: timeline[0].with: 'broker-1/dir-1' is the same directory twice",
    ),
    "a directory that changes places with one of another broker": (
        entry("{at: 5s, do: swapped, where: broker-1/dir-1, with: broker-2/dir-1, as: first}"),
        "p.yaml:10: timeline[0].with: 'broker-2/dir-1' is a directory of another broker",
    ),
    "a directory that changes places with a node": (
        entry("{at: 5s, do: swapped, where: broker-1/dir-1, with: broker-2, as: first}"),
        "p.yaml:10: timeline[0].with: expected a directory, got the node 'broker-2'",
    ),
    "a replica that is none": (
        entry("{at: 5s, do: reassign, topic: orders, partition: 0, replicas: [x/dir-1], as: one}"),
        "p.yaml:10: timeline[0].replicas: expected a replica such as 2 or 2/dir-1, got 'x/dir-1'",
    ),
    "a replica on a broker that is not there": (
        entry("{at: 5s, do: reassign, topic: orders, partition: 0, replicas: [9], as: one}"),
        "p.yaml:10: timeline[0].replicas: '9': there are the brokers 1 to 3",
    ),
    "a replica in a directory that is not there": (
        entry("{at: 5s, do: reassign, topic: orders, partition: 0, replicas: [1/dir-9], as: one}"),
        "p.yaml:10: timeline[0].replicas: '1/dir-9': a broker has the directories 1 to 2",
    ),
    "two replicas on one broker": (
        entry("{at: 5s, do: reassign, topic: orders, partition: 0, replicas: [1, 1], as: one}"),
        "p.yaml:10: timeline[0].replicas: '1': duplicate broker 1",
    ),
    "a move to a whole node": (
        entry("{at: 5s, do: move, topic: orders, partition: 0, to: broker-1, as: first}"),
        "p.yaml:10: timeline[0].to: expected a directory, got the node 'broker-1'",
    ),
    "settings of a directory": (
        entry("{at: 5s, do: set-config, where: broker-1/dir-1, config: {a: b}, as: first}"),
        "p.yaml:10: timeline[0].where: expected a broker, got 'broker-1/dir-1'",
    ),
    "no settings": (
        entry("{at: 5s, do: set-config, where: broker-1, config: {}, as: first}"),
        "p.yaml:10: timeline[0].config: expected at least one setting",
    ),
    "a topic that is there": (
        entry("{at: 5s, do: create-topic, topic: orders, partitions: 1, replicas: 1, as: first}"),
        "p.yaml:10: timeline[0].topic: duplicate topic 'orders'",
    ),
    "a new topic with more replicas than brokers": (
        entry("{at: 5s, do: create-topic, topic: x, partitions: 1, replicas: 9, as: first}"),
        "p.yaml:10: timeline[0].replicas: 9 replicas need as many brokers, and there are 3",
    ),
    "an entry after itself": (
        entry("{after: first.healed, do: permission, where: broker-1/dir-1, as: first, for: 1s}"),
        "p.yaml:10: timeline[0].after: 'first' itself comes after 'first'",
    ),
    "two entries after each other": (
        entry(
            "{after: other.healed, do: permission, where: broker-1/dir-1, as: first, for: 1s}\n"
            "  - {after: first.healed, do: permission, where: broker-1/dir-2, as: other, for: 1s}"
        ),
        "p.yaml:11: timeline[1].after: 'first' itself comes after 'other'",
    ),
    "the first entry after the last": (
        entry("{after: last.healed, do: permission, where: broker-1/dir-1, as: first, for: 1s}"),
        "p.yaml:10: timeline[0].after: there is no entry above this one",
    ),
    "a repetition before the healing": (
        entry(
            "{at: 1s, do: permission, where: broker-1/dir-1, as: first, for: 10s, "
            "repeat: {times: 3, every: 2s}}"
        ),
        "p.yaml:10: timeline[0]: every 2 s is sooner than 10 s, when the fault is reverted",
    ),
    "an end before the first fault": (
        ("end: {after: last.healed, plus: 5s}", "end: {at: 2s}"),
        "p.yaml:11: end: the run ends at 2 s, before 'first' is carried out",
    ),
}
