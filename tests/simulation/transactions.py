"""Transactional producers of a history, and what must hold of what they are told.

Each transactional id has a group of its own, in which its transactions commit offsets that only
rise. Some ids have two producers that know nothing of each other, and any producer may stand still
for longer than its transaction may last: whoever comes back then is a zombie, which is refused.

A transaction whose commit was answered is seen whole for ever; one that was aborted, or given up
before its commit was asked for, is never seen; of any other either all is seen or nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from broker.produce.marker_appends import MarkerAppends
from broker.replica.partition.partition import Partition
from broker.transactions.transaction import PREPARED, TransactionState
from broker.transactions.transaction_core import TransactionCore
from jbodlab.group_records.partitions import coordinator_partition
from jbodlab.metadata.records.features import TRANSACTION_VERSION
from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch
from jbodlab.storage.log.transactions import ABORT, AbortedTransaction
from jbodlab.vocabulary.ids import INTERNAL_TOPICS, TRANSACTION_STATE_TOPIC, TopicPartition
from tests.simulation.clients import (
    DUPLICATE,
    NO_LEADER,
    NONE,
    NOT_LEADER,
    OUT_OF_ORDER,
    RETRIABLE,
    WAIT,
    Client,
    Consumer,
    Stored,
    is_whole,
    value_of,
)
from tests.simulation.members import LOADING, MOVED, UNAVAILABLE, Groups
from tests.simulation.plan import TransactionPlan
from tests.simulation.taps import after, before, in_sync_have, replica_states
from tests.simulation.world import World

CONCURRENT = 51
AGAIN = RETRIABLE | {CONCURRENT}
TRANSACTION_KEY, GROUP_KEY = 1, 0
PATIENCE_S = 12.0
"""For which a producer asks again before it gives up."""
READ_COMMITTED = 1
COMMIT_SHARE, PAUSE_SHARE, RESTART_SHARE, LATE_SHARE = 0.75, 0.06, 0.15, 0.3
"""Of transactions that are to be committed; of steps with a long pause before them; of transactions
after which a producer is another one; of aborted ones with a batch on its way."""

Producer = tuple[int, int]
"""Id and epoch."""


class Outcome(Enum):
    """The end of a transaction; ASKED while its commit is, or was not answered."""

    OPEN = "is open"
    ASKED = "may be committed"
    COMMITTED = "was committed"
    ABORTED = "was aborted"


@dataclass(eq=False)
class Attempt:
    """One transaction; `offset` is what it commits for its group, -1 for nothing."""

    name: str
    values: dict[bytes, TopicPartition] = field(default_factory=dict)
    offset: int = -1
    outcome: Outcome = Outcome.OPEN


class Decided(NamedTuple):
    """The end of a transaction that is committed in the log of its coordinator."""

    producer_id: int
    producer_epoch: int
    is_commit: bool


class Transactions:
    """Answers that producers were told.

    Attributes:
        attempts: All of each transactional id.
        of_value: The transaction of each value.
        newest: The last producer that InitProducerId has told somebody of, by id.
        told: All of them.
        decided: All ends that any coordinator has seen committed.
        states: The last state of each id that a coordinator has seen committed.
    """

    def __init__(self, world: World, groups: Groups) -> None:
        self.world = world
        self.groups = groups
        self.attempts: dict[str, list[Attempt]] = defaultdict(list)
        self.of_value: dict[bytes, Attempt] = {}
        self.newest: dict[str, Producer] = {}
        self.told: set[Producer] = set()
        self.decided: set[Decided] = set()
        self.states: dict[str, TransactionState] = {}
        self.partitions: dict[str, tuple[TopicPartition, ...]] = {}
        """Those of the transaction of each id."""
        self.offsets: Counter[str] = Counter()
        """The greatest offset that a transaction of each id was to commit."""

    @property
    def level(self) -> int:
        """The finalized transaction.version."""
        return int(self.world.image.features.levels.get(TRANSACTION_VERSION, 0))

    @property
    def is_lost(self) -> bool:
        """Whether a coordinator has lost its log, or a part: nobody ends what it knew of."""
        topic = TRANSACTION_STATE_TOPIC
        return topic in self.world.gone_topics | {each.topic for each in self.world.tainted}

    def is_void(self, name: str) -> bool:
        """Return whether nothing follows from what a coordinator says, since its log lost some."""
        topic = self.world.image.topics.by_name.get(TRANSACTION_STATE_TOPIC)
        if topic is None or TRANSACTION_STATE_TOPIC in self.world.gone_topics:
            return TRANSACTION_STATE_TOPIC in self.world.gone_topics
        index = coordinator_partition(name, len(topic.partitions))
        return TopicPartition(TRANSACTION_STATE_TOPIC, index) in self.world.tainted

    def began(self, name: str, producer: Producer) -> None:
        """I12: whoever begins is another one than all before."""
        if producer in self.told and not self.is_void(name):
            self.world.report("I12", name, f"{producer} is told to a second one")
        self.told.add(producer)
        self.newest[name] = producer

    def took(self, name: str, producer: Producer, newest: Producer | None, what: str) -> None:
        """I12: once a producer was told its epoch, nothing of an older one is taken.

        Args:
            name: The transactional id.
            producer: Whose request was taken.
            newest: Producers that had been told when it was sent.
            what: The request.
        """
        is_old = newest is not None and (producer[0] != newest[0] or producer[1] < newest[1])
        if is_old and not self.is_void(name):
            self.world.report("I12", name, f"{what} of {producer} is taken, {newest} was told")

    def answered(self, name: str, producer: Producer, *, is_commit: bool, bumps: bool) -> None:
        """I13: an end that is answered is decided for good."""
        producer_id, epoch = producer[0], producer[1] + bumps
        if Decided(producer_id, epoch, is_commit) not in self.decided and not self.is_void(name):
            self.world.report("I13", name, f"the end of {producer} is answered, not committed")

    def marked(self, markers: Any) -> None:
        """I14: a marker is sent when the end that it is of is committed."""
        for each in markers:
            key = Decided(each.producer_id, each.producer_epoch, each.is_committed)
            if key not in self.decided:
                self.world.report("I14", key, "its marker is sent, its end is not committed")

    def committed(self, core: TransactionCore) -> None:
        """Take notice of what a coordinator sees committed."""
        for name, each in core.tables.all_committed():
            self.partitions[name] = each.partitions
            if self.states.get(name) is not each.state:
                self.states[name] = each.state
                self.world.moment(f"{each.state.title} is committed")
        for name in core.tables.prepared:
            found = core.tables.committed(name)
            if found is not None and found.state in PREPARED:
                is_commit = found.state is TransactionState.PREPARE_COMMIT
                self.decided.add(Decided(found.producer_id, found.producer_epoch, is_commit))

    def saw(self, partition: TopicPartition, value: bytes) -> None:
        """I10: nobody sees what is not to be committed."""
        attempt = self.of_value.get(value)
        if attempt is None or self.is_void(attempt.name) or self.world.is_void(partition):
            return
        if attempt.outcome in (Outcome.OPEN, Outcome.ABORTED):
            label = value[:24].decode()
            self.world.report("I10", partition, f"{label} is seen, and {attempt.outcome.value}")

    def check(self, seen: dict[TopicPartition, set[bytes]]) -> None:
        """I10: each transaction is seen as it was answered.

        Args:
            seen: Records that readers of committed records see of each partition that was read to
            its end.
        """
        for name, attempts in self.attempts.items():
            for attempt in attempts if not self.is_void(name) else ():
                known = {v for v, p in attempt.values.items() if p in seen and self._is_kept(v, p)}
                found = {v for v in known if v in seen[attempt.values[v]]}
                if found and attempt.outcome in (Outcome.OPEN, Outcome.ABORTED):
                    self._torn(attempt, known, found)
                if found != known and (found or attempt.outcome is Outcome.COMMITTED):
                    self._torn(attempt, known, found)

    def _is_kept(self, value: bytes, partition: TopicPartition) -> bool:
        """Return whether no operator can have deleted a value."""
        begin, offset = self.world.trimmed[partition], self.world.acknowledged.get(value)
        return not begin or (offset is not None and offset >= begin)

    def _torn(self, attempt: Attempt, known: set[bytes], found: set[bytes]) -> None:
        what = f"{len(found)} of {len(known)} are seen of what {attempt.outcome.value}"
        label = min(known)[:24].decode()
        self.world.report("I10", f"{attempt.name} {attempt.values[min(known)]}", f"{label}: {what}")

    def floor(self, name: str) -> int:
        """Return the greatest offset whose commit was answered."""
        ended = (a for a in self.attempts[name] if a.outcome is Outcome.COMMITTED)
        return max((a.offset for a in ended), default=-1)

    def fetched(self, name: str, floor: int, offset: int) -> None:
        """I10: offsets are those of transactions that were committed, and the newest of them."""
        if offset < floor:
            self.world.report("I10", name, f"offset {offset} is committed, {floor} was answered")
        for attempt in self.attempts[name]:
            is_none = attempt.outcome in (Outcome.OPEN, Outcome.ABORTED)
            if attempt.offset == offset >= 0 and is_none:
                self.world.report("I10", name, f"{offset} is told, and {attempt.outcome.value}")


class Transactor(Client):
    """A transactional producer that also commits offsets.

    It speaks the protocol before KIP-890 or, where the cluster allows that, the one of its second
    part: then leaders add partitions, and each end of a transaction gives it another epoch.
    """

    def __init__(self, ledger: Transactions, plan: TransactionPlan, name: str) -> None:
        super().__init__(ledger.world, name)
        self.ledger = ledger
        self.plan = plan
        self.id = plan.name
        self._producer: Producer | None = None
        self._sequences: Counter[TopicPartition] = Counter()
        self._coordinators: dict[int, int] = {}
        self._number = 0

    @property
    def group(self) -> str:
        return f"group-of-{self.id}"

    @property
    def _is_new(self) -> bool:
        return self.plan.is_new and self.ledger.level >= 2

    async def run(self) -> None:
        for _ in range(self.plan.transactions):
            await asyncio.sleep(self.random.random() * self.plan.pause_ms / 1000)
            if not self.is_running:
                break
            if not self.leaders:
                await self.refresh()
            elif self._producer is not None or await self._begin():
                await self._transact()
                await self.fetch()
        self.close()

    # A transaction

    async def _transact(self) -> None:
        partitions = sorted(each for each in self.leaders if each.topic in self.plan.topics)
        count = min(len(partitions), self.random.choice((1, 2, 3)))
        attempt = Attempt(self.id)
        self.ledger.attempts[self.id].append(attempt)
        is_well = bool(partitions)
        for partition in self.random.sample(partitions, count):
            is_well = is_well and await self._part(attempt, partition)
        if is_well and self.random.random() < 0.6:
            is_well = await self._commit_offset(attempt)
        if is_well:
            await self._pause()
            await self._end(attempt, is_commit=self.random.random() < COMMIT_SHARE)
        else:
            attempt.outcome = Outcome.ABORTED
            # The fate of a batch on its way nobody knows: so its sequences cannot go on.
            if self.random.random() < 0.5:
                await self._end(attempt, is_commit=False)
            self._producer = None
        if self.random.random() < RESTART_SHARE:
            self._producer = None

    async def _part(self, attempt: Attempt, partition: TopicPartition) -> bool:
        """Take a partition into a transaction, and write to it."""
        await self._pause()
        if not self._is_new and not await self._add(partition):
            return False
        for _ in range(self.random.choice((1, 1, 2))):
            if not await self._write(attempt, partition):
                return False
        return True

    async def _pause(self) -> None:
        """Stand still now and then, for longer than a transaction may last."""
        if self.random.random() < PAUSE_SHARE:
            self.world.seen["a transactional producer stood still"] += 1
            await asyncio.sleep(self.plan.timeout_ms / 1000 + 1.5)

    # Requests; each returns whether it was taken

    async def _begin(self) -> bool:
        fields: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1}
        fields["transaction_timeout"] = timedelta(milliseconds=self.plan.timeout_ms)
        code, answer = await self._ask_for(
            22, 4, "InitProducerId", transactional_id=self.id, **fields
        )
        if code != NONE:
            await asyncio.sleep(0.2)
            return False
        self._producer = (answer.producer_id, answer.producer_epoch)
        self.ledger.began(self.id, self._producer)
        self._sequences.clear()
        return True

    async def _add(self, partition: TopicPartition) -> bool:
        topics = [{"name": partition.topic, "partitions": [partition.partition]}]
        mine = {f"v3_and_below_{key}": value for key, value in self._me().items()}
        code, _ = await self._ask_for(
            24, 3, "AddPartitionsToTxn", **mine, v3_and_below_topics=topics
        )
        return code == NONE

    async def _write(self, attempt: Attempt, partition: TopicPartition) -> bool:
        values = [self._value(attempt, partition) for _ in range(self.random.choice((1, 1, 3)))]
        data = self._batch(values, self._sequences[partition])
        self._sequences[partition] += len(values)
        code, offset = await self._produce(partition, data)
        if code == OUT_OF_ORDER and not self.world.is_void(partition):
            self.world.report("S6", partition, f"{self.name} is out of order, for its leader")
        if code not in (NONE, DUPLICATE):
            return False
        known = offset if code == NONE and offset >= 0 else None
        self.world.seen["acknowledged in a transaction"] += len(values)
        for index, value in enumerate(values):
            self.world.acknowledged[value] = None if known is None else known + index
        if known is not None and not self.world.is_void(partition):
            in_sync_have(self.world, partition, known + len(values))
        return True

    def _value(self, attempt: Attempt, partition: TopicPartition) -> bytes:
        value = value_of(self.name, self._number, self.plan.value_bytes)
        self._number += 1
        self.world.sent[value] = (partition, -1)
        self.world.once.add(value)
        attempt.values[value] = partition
        self.ledger.of_value[value] = attempt
        return value

    def _batch(self, values: list[bytes], sequence: int) -> bytes:
        producer_id, epoch = self._me_is
        return build_batch(
            [(None, value) for value in values],
            timestamp_ms=1_700_000_000_000 + int(self.world.now_s() * 1000),
            attributes=TRANSACTIONAL,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    async def _produce(
        self, partition: TopicPartition, data: bytes, *, is_once: bool = False
    ) -> tuple[int | None, int]:
        """Send a batch until its fate is known; return the last error code, and its offset."""
        fields = {"transactional_id": self.id, "acks": -1, "timeout": WAIT}
        data_of = [{"index": partition.partition, "records": data}]
        topics = [{"name": partition.topic, "partition_data": data_of}]
        producer, newest = self._me_is, self.ledger.newest.get(self.id)
        version, end_s = 12 if self._is_new else 11, self.world.now_s() + PATIENCE_S
        code, tries = None, 0
        while self.is_running and self.world.now_s() < end_s:
            answer = await self.ask_leader(partition, 0, version, topic_data=topics, **fields)
            tries += 1
            if answer is not None:
                found = answer.responses[0].partition_responses[0]
                code = int(found.error_code)
                if code == NONE and tries == 1:
                    self.ledger.took(self.id, producer, newest, "a batch")
                if code not in RETRIABLE or is_once:
                    self.world.seen[f"transactional produce answer {code}"] += 1
                    return code, found.base_offset
                if code in (NO_LEADER, NOT_LEADER):
                    self.leaders.pop(partition, None)
            if is_once:
                break
            await asyncio.sleep(0.05 + self.random.random() * 0.2)
        return None, -1

    async def _commit_offset(self, attempt: Attempt) -> bool:
        group = {"group_id": self.group}
        if not self._is_new:
            code, _ = await self._ask_for(25, 3, "AddOffsetsToTxn", **self._me(), **group)
            if code != NONE:
                return False
        self.ledger.offsets[self.id] += 1
        attempt.offset = self.ledger.offsets[self.id]
        offset = {"committed_offset": attempt.offset, "committed_metadata": ""}
        topics = [{"name": self.plan.topics[0], "partitions": [{"partition_index": 0, **offset}]}]
        member = {"generation_id": -1, "member_id": "", "group_instance_id": None}
        code, _ = await self._ask_for(
            *(28, 5 if self._is_new else 3, "TxnOffsetCommit"),
            **self._me(),
            **group,
            **member,
            topics=topics,
        )
        return code == NONE

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        """End a transaction; whoever does not hear what became of it is another one then."""
        before, bumps = self._me_is, self._is_new
        if is_commit:
            attempt.outcome = Outcome.ASKED
        late = None
        if not is_commit and attempt.values and self.random.random() < LATE_SHARE:
            late = asyncio.get_running_loop().create_task(self._write_late(attempt))
            self.world.loop.kept.append(late)
        code, answer = await self._ask_for(
            26, 5 if bumps else 3, "EndTxn", **self._me(), committed=is_commit
        )
        if late is not None:
            await late
        if code == NONE:
            self.ledger.answered(self.id, before, is_commit=is_commit, bumps=bumps)
            self.world.seen[f"a transaction was {'committed' if is_commit else 'aborted'}"] += 1
            attempt.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
            if bumps:
                self._producer = (answer.producer_id, answer.producer_epoch)
                self._sequences.clear()
        elif not is_commit:
            attempt.outcome = Outcome.ABORTED
        if code != NONE or late is not None:
            self._producer = None

    async def _write_late(self, attempt: Attempt) -> None:
        """Send one more batch as its transaction is aborted: it may come before that, or after."""
        partition = next(iter(attempt.values.values()))
        value = self._value(attempt, partition)
        await self._produce(
            partition, self._batch([value], self._sequences[partition]), is_once=True
        )

    async def fetch(self) -> bool:
        """Look what is committed for the group; returns whether somebody said that."""
        partition = TopicPartition(self.plan.topics[0], 0)
        groups = self.ledger.groups
        is_whole, led_by = groups.is_whole(self.group), groups.coordinated_by(self.group)
        floor = self.ledger.floor(self.id) if is_whole else -1
        wanted = {"name": partition.topic, "partition_indexes": [0]}
        of_group = [{"group_id": self.group, "topics": [wanted]}]
        is_stable = self.random.random() < 0.7
        coordinator = await self._coordinator(GROUP_KEY, self.group)
        if coordinator is None:
            return False
        answer = await self.ask(coordinator, 9, 8, groups=of_group, require_stable=is_stable)
        code = None if answer is None else int(answer.groups[0].error_code)
        if code != NONE:
            self._coordinators.pop(GROUP_KEY, None)
            return False
        found = answer.groups[0].topics[0].partitions[0]
        if int(found.error_code) != NONE:
            return False
        is_known = led_by == groups.coordinated_by(self.group) and led_by is not None
        if is_known and led_by[1] == coordinator and not self._is_void(led_by[0], partition):
            # Without waiting for what is stable one may hear of the past.
            self.ledger.fetched(self.id, floor if is_stable else -1, found.committed_offset)
        return is_stable and is_known

    def _is_void(self, log: TopicPartition, partition: TopicPartition) -> bool:
        is_lost = log in self.world.tainted or partition.topic in self.world.gone_topics
        return is_lost or self.ledger.is_void(self.id)

    # Coordinators

    @property
    def _me_is(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _me(self) -> dict[str, Any]:
        producer_id, epoch = self._me_is
        return {
            "transactional_id": self.id,
            "producer_id": producer_id,
            "producer_epoch": epoch,
        }

    async def _coordinator(self, kind: int, key: str) -> int | None:
        if kind not in self._coordinators:
            found = await self.ask_any(10, 3, key=key, key_type=kind)
            if found is None or int(found.error_code) != NONE:
                return None
            self._coordinators[kind] = found.node_id
        return self._coordinators[kind]

    async def _ask_for(
        self, key: int, version: int, what: str, **fields: Any
    ) -> tuple[int | None, Any]:
        """Ask a coordinator until it says something that counts.

        Returns:
            The error code, and the answer; None where nobody knows what became of it.
        """
        is_group = what == "TxnOffsetCommit"
        kind, name = (GROUP_KEY, self.group) if is_group else (TRANSACTION_KEY, self.id)
        producer, newest = self._producer, self.ledger.newest.get(self.id)
        end_s, tries, is_unknown = self.world.now_s() + PATIENCE_S, 0, False
        while self.is_running and self.world.now_s() < end_s:
            coordinator = await self._coordinator(kind, name)
            if coordinator is not None:
                answer = await self.ask(coordinator, key, version, **fields)
                code = LOADING if answer is None else code_of(answer)
                tries += 1
                self.world.seen[f"{what} answer {code}"] += 1
                if code == NONE and tries == 1 and producer is not None:
                    self.ledger.took(self.id, producer, newest, what)
                if answer is not None and code not in AGAIN:
                    return (None if is_unknown and code != NONE else code), answer
                is_unknown = is_unknown or answer is None or code in (UNAVAILABLE, MOVED)
                if answer is None or code in (UNAVAILABLE, MOVED):
                    self._coordinators.pop(kind, None)
            await asyncio.sleep(0.05 + self.random.random() * 0.2)
        return None, None


def code_of(answer: Any) -> int:
    """Return the error code of an answer of a coordinator, or of its only partition."""
    for topic in getattr(answer, "results_by_topic_v3_and_below", ()):
        return int(topic.results_by_partition[0].partition_error_code)
    for topic in getattr(answer, "topics", ()):
        return int(topic.partitions[0].error_code)
    return int(answer.error_code)


class CommittedConsumer(Consumer):
    """Reads only what is committed, as clients do: by the aborted transactions of each answer."""

    isolation_level = READ_COMMITTED

    def __init__(self, ledger: Transactions, name: str) -> None:
        super().__init__(ledger.world, name)
        self._ledger = ledger
        self.seen: dict[TopicPartition, set[bytes]] = defaultdict(set)

    def _shown(self, batches: list[Stored], answer: Any) -> Iterator[Stored]:
        """Yield the batches that are not of an aborted transaction."""
        aborted = sorted(
            (each.first_offset, each.producer_id) for each in answer.aborted_transactions or ()
        )
        inside: set[int] = set()
        for batch in batches:
            header = batch.header
            while aborted and aborted[0][0] <= header.base_offset:
                inside.add(aborted.pop(0)[1])
            if batch.marker is not None and batch.marker.type == ABORT:
                inside.discard(header.producer_id)
            is_aborted = header.is_transactional and header.producer_id in inside
            # An empty one still moves the reader on.
            yield batch._replace(values=()) if is_aborted else batch

    def _end(self, answer: Any) -> int:
        return int(answer.last_stable_offset)

    def _take(self, partition: TopicPartition, offset: int, value: bytes, end: int) -> None:
        super()._take(partition, offset, value, end)
        self.seen[partition].add(value)
        self._ledger.saw(partition, value)


def attach(world: World, ledger: Transactions) -> None:
    """Attach what looks at coordinators and leaders."""
    stable: dict[tuple[Any, int, int], int] = {}
    after(TransactionCore, "apply", functools.partial(_written, world))
    after(TransactionCore, "committed_up_to", lambda core, *_: ledger.committed(core))
    after(MarkerAppends, "_take", lambda *_: world.moment("a marker is appended"))
    before(MarkerAppends, "write_markers", lambda _, markers, *more: ledger.marked(markers))
    after(Partition, "advance_high_watermark", functools.partial(check_stable, world, stable))


def _written(world: World, core: TransactionCore, decision: Any, *_: Any) -> None:
    """Say in which state a transaction is, from the moment when that is written."""
    for _, transaction in decision.changes:
        if transaction is not None:
            world.moment(f"{transaction.state.title} is written")
    for name, partitions in decision.unmarked:
        if 0 < len(partitions) < len(core.tables.written[name].partitions):
            world.moment("some markers are written")


def check_stable(world: World, stable: dict[tuple[Any, int, int], int], partition: Any) -> None:
    """I11: the last stable offset does not fall in a leader's life, nor pass the high watermark."""
    if partition.log is None or partition.leader is None:
        return
    name, high_watermark = partition.topic_partition, partition.high_watermark
    now = partition.log.last_stable_offset(high_watermark)
    key = (partition.topic_id, name.partition, partition.leader.leader_epoch)
    was = stable.get(key, 0)
    stable[key] = max(now, was)
    if now < was:
        world.report("I11", name, f"the last stable offset falls from {was} to {now}")
    if now > max(high_watermark, partition.log.start_offset):
        world.report("I11", name, f"{now} is stable, {high_watermark} is committed")


def held_up(world: World, ledger: Transactions) -> list[str]:
    """I11: return partitions whose leader has a transaction open, and ids that have one."""
    states = (TransactionState.ONGOING, *PREPARED)
    # A partition that has lost its records may have no leader, which would take a marker.
    found = {
        n
        for n, state in ledger.states.items()
        if state in states
        and not ledger.is_void(n)
        and not any(world.is_void(each) for each in ledger.partitions.get(n, ()))
    }
    for _, partition in replica_states(world):
        log, name = partition.log, partition.topic_partition
        if partition.leader is None or log is None or name in world.tainted:
            continue
        if log.last_stable_offset(partition.high_watermark) < partition.high_watermark:
            found.add(str(name))
    return sorted(found)


def check_markers(world: World, ledger: Transactions, name: str, batches: list[Stored]) -> None:
    """I12, I13: epochs never fall, and each batch is followed by the marker that was answered."""
    epochs: dict[int, int] = {}
    waiting: dict[int, list[bytes]] = defaultdict(list)
    for batch in batches:
        header = batch.header
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            continue
        if epoch < epochs.get(producer_id, -1):
            world.report("I12", name, f"{header.base_offset} is of {epoch}, after a newer epoch")
        epochs[producer_id] = epoch
        if batch.marker is None:
            waiting[producer_id] += batch.values
            continue
        for value in waiting.pop(producer_id, ()):
            attempt = ledger.of_value.get(value)
            if attempt is None or ledger.is_void(attempt.name):
                continue
            is_commit = batch.marker.type != ABORT
            expected = {Outcome.COMMITTED: True, Outcome.ABORTED: False}
            if expected.get(attempt.outcome, is_commit) != is_commit:
                what = "committed" if is_commit else "aborted"
                label = value[:24].decode()
                world.report("I13", name, f"{label} is {what}, and {attempt.outcome.value}")


def check_aborted(
    world: World, name: str, batches: list[Stored], aborted: list[AbortedTransaction]
) -> None:
    """I10: readers are told of each aborted transaction with batches in the log, and of no other.

    The batches of one may be deleted before its marker.
    """
    inside: set[int] = set()
    expected: set[tuple[int, int]] = set()
    markers: set[tuple[int, int]] = set()
    for batch in batches:
        header = batch.header
        if batch.marker is None and header.is_transactional:
            inside.add(header.producer_id)
        elif batch.marker is not None and batch.marker.type == ABORT:
            markers.add((header.producer_id, header.last_offset))
            if header.producer_id in inside:
                expected.add((header.producer_id, header.last_offset))
        if batch.marker is not None:
            inside.discard(header.producer_id)
    indexed = {(each.producer_id, each.last_offset) for each in aborted}
    if missing := sorted(expected - indexed):
        world.report("I10", name, f"no index has the aborted transactions {missing[:3]}")
    if extra := sorted(indexed - markers):
        world.report("I10", name, f"an index has {extra[:3]}, which no marker has aborted")


def is_data(partition: TopicPartition) -> bool:
    """Return whether producers write to a partition."""
    return partition.topic not in INTERNAL_TOPICS


def is_damaged(batch: Stored) -> bool:
    """Return whether a batch of a producer has a value that is not whole."""
    return not all(map(is_whole, batch.values))
