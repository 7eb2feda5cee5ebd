# Values that commands print with `--output json`, as mypy sees them; made of `results.tsv` by
# `scripts/command_page.py`. There is no such module: it is imported where types are checked only.

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict

class Place(TypedDict):
    topic: str
    partition: int

class Process(TypedDict):
    pid: int
    start_ticks: int

class Node(TypedDict):
    role: str
    node_id: int
    host: str
    port: int
    properties_file: str
    log_file: str
    metadata_log_dir: str
    log_dirs: Sequence[str]
    controller_port: int
    grpc_port: int
    metrics_port: int
    client_file: str
    process: Process | None

class Up(TypedDict):
    version: int
    name: str
    bootstrap: str
    root: str
    cluster_id: str
    uid: int
    gid: int
    mounts: Sequence[str]
    nodes: Sequence[Node]
    owner: Process | None
    client_files: Mapping[str, str]

class Down(TypedDict):
    name: str
    ended: bool
    problems: Sequence[str]

class ListedCluster(TypedDict):
    name: str
    bootstrap: str
    root: str
    nodes: int
    running: int
    open_faults: int

class NoticedInLog(TypedDict):
    by: str
    at: str | None
    cause: str | None

class StatusDirectory(TypedDict):
    path: str
    state: str
    conditions: Sequence[str]
    cause: str | None
    noticed: NoticedInLog | None

class StatusNode(TypedDict):
    role: str
    id: int
    address: str
    pid: int | None
    running: bool
    log_dirs: Sequence[StatusDirectory]

class StatusController(TypedDict):
    id: int
    role: str | None
    epoch: int | None
    end_offset: int | None

class Controller(TypedDict):
    id: int
    address: str
    role: str | None
    end_offset: int | None
    directory_id: str | None
    running: bool

class MetadataLog(TypedDict):
    path: str
    bytes: int
    last_offset: int

class OpenFault(TypedDict):
    id: int
    path: str
    kind: str
    mechanism: str
    since: str
    length_s: float | None

class StatusPartition(Place):
    leader: int
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]

class Status(TypedDict):
    name: str
    cluster_id: str
    bootstrap: str
    engine: str
    healthy: bool
    nodes: Sequence[StatusNode]
    controllers: Sequence[StatusController]
    metadata_log: MetadataLog
    open_faults: Sequence[OpenFault]
    partitions: Sequence[StatusPartition]

class ServerLine(TypedDict):
    server: str
    line: str

class Served(TypedDict):
    url: str
    name: str
    bootstrap: str
    token: str

class Clients(TypedDict):
    stayed: int
    closed: int
    handshakes_failed: int | None
    logins_failed: int | None
    requests_refused: int | None

class Broken(TypedDict):
    what: str
    count: int
    seen: int | None
    first_ns: int | None
    last_ns: int | None
    clients: Clients | None

class Detected(TypedDict):
    what: str
    by: str
    after_ms: float
    leaders_moved: int

class Injected(TypedDict):
    id: int
    kind: str
    mechanism: str
    broker: str
    path: str
    injected_ns: int
    proved_ns: int
    length_s: float | None
    noticed: NotRequired[Detected | None]
    broken: NotRequired[Broken]

class HealedFault(TypedDict):
    id: int
    note: str
    next_step: str

class Healed(TypedDict):
    healed: Sequence[HealedFault]
    revived: NotRequired[Sequence[str]]
    to_do: NotRequired[Sequence[str]]
    problems: Sequence[str]

class ListedFault(TypedDict):
    id: int
    kind: str
    mechanism: str
    broker: str | None
    path: str
    since: str
    length_s: float | None
    is_complete: bool

class FaultKind(TypedDict):
    kind: str
    breaks: str
    meaning: str
    mechanisms: Sequence[str]
    options: Sequence[str]

class Checked(TypedDict):
    kind: str
    path: str
    mechanism: str

class FoundInRun(TypedDict):
    kind: str
    weight: str
    subject: str
    count: int | None
    unit: str
    text: str

class RunOfProgram(TypedDict):
    exit_code: int | None
    gap_ms: float | None
    gap_partition: str | None
    gap_ended: bool | None
    acknowledged: int
    lost: int
    unread: int
    duplicated: int
    out_of_order: int
    never_acknowledged: int
    fault: str
    broken: str
    clients: Clients | None
    topic: str
    topic_kept: bool
    verdict: str
    findings: Sequence[FoundInRun]
    doubts: Sequence[str]
    to_do: Sequence[str]

class ShippedPlan(TypedDict):
    plan: str
    does: Sequence[str]
    made_by: Sequence[str]
    not_here: str

class JudgedObjective(TypedDict):
    text: str
    holds: bool | None
    value: float | None
    measured: str
    severity: str

class MetricValue(TypedDict):
    value: float | None
    unit: str

class LongestGap(TypedDict):
    partition: str
    seconds: float | None
    ended: bool

class NoticedInRun(TypedDict):
    place: str
    by: str
    at: float | None
    after: float | None
    err: float

class FaultOfRun(TypedDict):
    name: str
    kind: str
    places: Sequence[str]
    mechanism: str
    injected: float | None
    healed: float | None
    first_call_broken: float | None
    calls_broken: int | None
    broken: str
    clients: Clients | None
    problem: str
    detected_by: Sequence[str]
    noticed: Sequence[NoticedInRun]
    touched: Sequence[str]
    led: Sequence[str]

class ClientOfRun(TypedDict):
    name: str
    kind: str
    topic: str
    per: float
    good: Sequence[int]
    bad: Sequence[int]
    errors: Mapping[str, int]

class EventOfRun(TypedDict):
    t: float | None
    err: float
    source: str
    kind: str
    text: str
    place: str
    partition: str
    ref: str

class Run(TypedDict):
    schema: int
    name: str
    hypothesis: str
    source: str
    plan: str
    verdict: str
    sentence: str
    findings: Sequence[FoundInRun]
    missed: Sequence[str]
    doubts: Sequence[str]
    warnings: Sequence[str]
    objectives: Sequence[JudgedObjective]
    length: float | None
    metrics: Mapping[str, MetricValue]
    gaps: Mapping[str, LongestGap]
    faults: Sequence[FaultOfRun]
    clients: Sequence[ClientOfRun]
    directories: Mapping[str, Sequence[Sequence[Any]]]
    partitions: Mapping[str, Sequence[Sequence[Any]]]
    transactions: Mapping[str, Sequence[Sequence[Any]]]
    last_stable_offsets: Mapping[str, Sequence[Sequence[Any]]]
    events: Sequence[EventOfRun]
    not_measured: Mapping[str, str]
    surroundings: Mapping[str, Any]

class ListedTopic(TypedDict):
    topic: str
    id: str
    partitions: int
    internal: bool

class DescribedPartition(TypedDict):
    partition: int
    leader: int | None
    replicas: Sequence[int]
    isr: Sequence[int]
    offline: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    elr: Sequence[int] | None
    last_known_elr: Sequence[int] | None

class DescribedTopic(TypedDict):
    topic: str
    id: str
    partition_count: int
    replication_factor: int
    configs: Mapping[str, str | None]
    partitions: Sequence[DescribedPartition]

class ListedDirectory(TypedDict):
    broker: int
    number: int
    path: str
    id: str | None
    state: str
    cause: str | None
    used_bytes: int | None
    free_bytes: int | None
    total_bytes: int | None
    data_bytes: int | None
    replicas: int | None
    future_replicas: int | None

class ListedMove(TypedDict):
    partition: str
    broker: int
    source: str | None
    target: str
    copied_bytes: int
    total_bytes: int | None
    offset_lag: int
    compaction_paused: bool

class Directories(TypedDict):
    directories: Sequence[ListedDirectory]
    moves: Sequence[ListedMove]

class KafkaReplica(TypedDict):
    partition: str
    size: int
    offsetLag: int
    isFuture: bool

class KafkaLogDir(TypedDict):
    logDir: str
    error: str | None
    partitions: Sequence[KafkaReplica]

class KafkaBroker(TypedDict):
    broker: int
    logDirs: Sequence[KafkaLogDir]

class KafkaLogDirs(TypedDict):
    version: int
    brokers: Sequence[KafkaBroker]

class PlannedMove(TypedDict):
    partition: str
    source: str
    target: str
    bytes: int

class PlannedDirectory(TypedDict):
    path: str
    state: str
    bytes_before: int | None
    bytes_after: int | None
    room_bytes: int | None

class MovePlan(TypedDict):
    broker: int
    moves: Sequence[PlannedMove]
    directories: Sequence[PlannedDirectory]

class NotMoved(Place):
    broker: int
    reason: str

class Moved(TypedDict):
    plans: Sequence[MovePlan]
    not_moved: Sequence[NotMoved]

class BrokerReplica(Place):
    broker: int

class CancelledMoves(TypedDict):
    cancelled: Sequence[BrokerReplica]
    not_cancelled: Sequence[NotMoved]

class AssignedPartition(Place):
    replicas: Sequence[int]
    log_dirs: Sequence[str]

class Assignment(TypedDict):
    version: int
    partitions: Sequence[AssignedPartition]

class Reassigning(Place):
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]

class VerifiedReassignment(Place):
    broker: int | None
    state: str
    text: str

class RecordHeader(TypedDict):
    name: str
    value: str | None
    value_encoding: str | None

class Record(Place):
    offset: int
    timestamp: int | None
    key: str | None
    key_encoding: str | None
    value: str | None
    value_encoding: str | None
    headers: Sequence[RecordHeader]

class ListedGroup(TypedDict):
    group: str
    type: str
    state: str

class GroupMember(TypedDict):
    member: str
    instance: str | None
    client: str
    host: str
    partitions: Sequence[Place]

class GroupOffset(Place):
    offset: int | None
    end_offset: int | None
    lag: int | None
    member: str | None

class DescribedGroup(ListedGroup):
    assignor: str | None
    coordinator: int
    members: Sequence[GroupMember]
    offsets: Sequence[GroupOffset]

class ResetOffset(Place):
    old_offset: int | None
    new_offset: int

class ListedTransaction(TypedDict):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str

class DescribedTransaction(ListedTransaction):
    producer_epoch: int
    timeout_ms: int
    start_ms: int
    partitions: Sequence[Place]

class Producer(Place):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

class AclEntry(TypedDict):
    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str

class ScramUser(TypedDict):
    user: str
    mechanism: str
    iterations: int

class Config(TypedDict):
    name: str
    value: str | None
    source: str

class PartitionOffset(Place):
    offset: int | None
    timestamp: int | None

class StorageInfo(TypedDict):
    directories: Sequence[str]
    metadata: Mapping[str, str] | None
    problems: Sequence[str]

class Damage(TypedDict):
    file: str
    base_offset: int
    position: int
    problem: str
    first_offset: int | None
    last_offset: int | None
    in_index: bool

class DamagedReplica(Place):
    folder: str
    damage: Sequence[Damage]

class VerifiedDirectory(TypedDict):
    path: str
    directory_id: str | None
    in_use: bool
    replicas: int
    segments: int
    bytes: int
    damaged: Sequence[DamagedReplica]

class Verified(TypedDict):
    directories: Sequence[VerifiedDirectory]

class DumpedLine(TypedDict):
    kind: str

class Repaired(TypedDict):
    folder: str
    repaired: bool
    refusal: str | None

class RecordType(TypedDict):
    type: str
    record: str
    meaning: str

class RecordField(TypedDict):
    record: str
    field: str
    type: str
    versions: str
    tag: str
    default: str
    meaning: str

class Figure(TypedDict):
    title: str
    rows: Sequence[Mapping[str, Any]]
    all_rows: int
    query: str

class Report(TypedDict):
    first: str | None
    last: str | None
    directory_paths: Mapping[str, str]
    figures: Mapping[str, Figure]
    page: str | None

class Replayed(TypedDict):
    ranking: Sequence[str]
    start_page: str | None
    clusters: Mapping[str, Report]
    tables: Mapping[str, str]
    ran_on: str

class LogEvent(TypedDict):
    offset: int
    time: str | None
    type: str

class Link(LogEvent):
    text: str

class LogMoment(TypedDict):
    offset: int
    time: str | None
    is_end: bool

class FormerTopic(TypedDict):
    topic_id: str
    created: LogEvent
    deleted: LogEvent | None

class Condition(TypedDict):
    condition: str
    since: LogEvent | None

class LeaderSince(TypedDict):
    broker: int | None
    leader_epoch: int
    since: LogEvent

class ReplicaSince(TypedDict):
    broker: int
    directory: str
    leads: bool
    in_sync: bool
    out_of_isr_since: LogEvent | None
    broker_state: str
    directory_state: str
    unassigned_since: LogEvent | None
    caused_by: LogEvent | None

class PartitionHistory(TypedDict):
    kind: str
    name: str
    topic_id: str
    moment: LogMoment
    earlier_topics: Sequence[FormerTopic]
    deleted: LogEvent | None

class WhyPartition(PartitionHistory):
    conditions: NotRequired[Sequence[Condition]]
    leader: NotRequired[LeaderSince]
    replicas: NotRequired[Sequence[ReplicaSince]]
    isr: NotRequired[Sequence[int]]
    eligible_leader_replicas: NotRequired[Sequence[int]]
    last_known_elr: NotRequired[Sequence[int]]
    adding_replicas: NotRequired[Sequence[int]]
    removing_replicas: NotRequired[Sequence[int]]
    min_insync_replicas: NotRequired[int]
    min_insync_replicas_assumed_from: NotRequired[str | None]
    chain: Sequence[Link]
    next: Sequence[str]
    problems: Sequence[str]

class HeldReplicas(TypedDict):
    placed: int
    leads: int
    out_of_isr: Sequence[str]
    leaderless: Sequence[str]

class DirectorySince(TypedDict):
    directory: str
    state: str
    since: LogEvent

class WhyBroker(TypedDict):
    kind: str
    name: str
    moment: LogMoment
    state: str
    since: LogEvent
    broker_epoch: int | None
    incarnation_id: str | None
    directories: Sequence[DirectorySince]
    replicas: HeldReplicas
    chain: Sequence[Link]
    next: Sequence[str]
    problems: Sequence[str]

class OwnerSince(TypedDict):
    broker: int
    state: str
    since: LogEvent
    directory_state: str
    directory_since: LogEvent
    replicas: HeldReplicas

class WhyDirectory(TypedDict):
    kind: str
    name: str
    moment: LogMoment
    brokers: Sequence[OwnerSince]
    replicas: Sequence[str]
    chain: Sequence[Link]
    next: Sequence[str]
    problems: Sequence[str]

class LossMoment(TypedDict):
    time: NotRequired[str | None]
    offset: NotRequired[int]
    is_end: NotRequired[bool]
    bootstrap_server: NotRequired[str]

class LossCounts(TypedDict):
    racks: Sequence[str]
    takes_broker: bool
    replicas: int
    last_copies: int
    leaderless: int
    below_min_isr: int
    unclean: int
    leaders_moved: int
    undescribed: int
    leaders_moved_to: Mapping[str, int]
    held_bytes: int | None
    copy_bytes: int | None
    copy_seconds: float | None

class LossOfDirectory(LossCounts):
    broker: int
    log_dir: str | None
    directory_id: str | None

class LossOfBroker(LossCounts):
    broker: int

class LossOfRack(LossCounts):
    rack: str

class NamedDirectory(TypedDict):
    broker: int
    log_dir: str | None
    directory_id: str | None

class LossOfPair(TypedDict):
    directories: Sequence[NamedDirectory]
    same_rack: bool | None
    replicas: int
    last_copies: int
    leaderless: int
    below_min_isr: int
    unclean: int
    leaders_moved: int
    held_bytes: int | None

class Losses(TypedDict):
    moment: LossMoment
    bytes_per_second: float
    directories: Sequence[LossOfDirectory]
    brokers: Sequence[LossOfBroker]
    racks: Sequence[LossOfRack]
    pairs: Sequence[LossOfPair]
    notes: Sequence[str]

class PartitionThen(TypedDict):
    partition: str
    leader: int | None
    leader_then: int | None
    isr_then: Sequence[int]
    min_insync_replicas: int | None
    leaderless: bool
    below_min_isr: bool
    last_copy: bool
    unclean: bool

class FailureLoss(LossCounts):
    failure: str
    moment: LossMoment
    partitions: Sequence[PartitionThen]
    notes: Sequence[str]

class HarmedPartition(TypedDict):
    partition: str
    reasons: Sequence[str]

class Removal(TypedDict):
    ok: bool
    undescribed: int
    partitions: Sequence[HarmedPartition]
    notes: Sequence[str]

class SaferMove(TypedDict):
    partition: str
    replicas: Sequence[int]
    bytes: int | None
    why: str

class SaferMoves(TypedDict):
    file: str | None
    moves: Sequence[SaferMove]

PrintedRows: TypeAlias = (
    Sequence[AclEntry]
    | Sequence[Config]
    | Sequence[Controller]
    | Sequence[DescribedGroup]
    | Sequence[DescribedTopic]
    | Sequence[DescribedTransaction]
    | Sequence[FaultKind]
    | Sequence[ListedCluster]
    | Sequence[ListedFault]
    | Sequence[ListedGroup]
    | Sequence[ListedTopic]
    | Sequence[ListedTransaction]
    | Sequence[PartitionOffset]
    | Sequence[Producer]
    | Sequence[Reassigning]
    | Sequence[RecordField]
    | Sequence[RecordType]
    | Sequence[Repaired]
    | Sequence[ResetOffset]
    | Sequence[Run]
    | Sequence[ScramUser]
    | Sequence[ShippedPlan]
    | Sequence[VerifiedReassignment]
)

Printed: TypeAlias = (
    PrintedRows
    | Assignment
    | CancelledMoves
    | Checked
    | Directories
    | Down
    | DumpedLine
    | FailureLoss
    | Healed
    | Injected
    | KafkaLogDirs
    | Losses
    | Moved
    | Record
    | Removal
    | Replayed
    | Run
    | RunOfProgram
    | SaferMoves
    | Served
    | ServerLine
    | Status
    | StorageInfo
    | Up
    | Verified
    | WhyBroker
    | WhyDirectory
    | WhyPartition
)
