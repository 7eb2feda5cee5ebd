"""Each checker fires: on values that could have come of the bug that it is for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace as Values
from typing import Any, cast

import pytest

from broker.coordination.shard import ShardState
from broker.moves.move_states import MoveEvent, MoveState
from broker.transactions.transaction import TransactionState
from jbodlab.metadata.image.metadata_image import EMPTY
from jbodlab.metadata.image.settings_image import ConfigsImage
from jbodlab.metadata.image.topics_image import TopicImage, TopicsImage
from jbodlab.metadata.records.metadata_version import LATEST
from jbodlab.metadata.records.topic_records import PartitionChangeRecord
from jbodlab.record_batch.record_batch import TRANSACTIONAL, build_batch
from jbodlab.storage.directory.checkpoints import render_frame
from jbodlab.storage.directory.names import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    RECOVERY_POINT_FILE,
)
from jbodlab.storage.log.log_config import LogConfig
from jbodlab.storage.log.transactions import (
    ABORT,
    COMMIT,
    AbortedTransaction,
    Marker,
    build_marker,
    encode_aborted,
)
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.directory_id import UNASSIGNED
from jbodlab.vocabulary.errors import DecodeError
from jbodlab.vocabulary.ids import GROUP_METADATA_TOPIC, TopicId, TopicPartition
from tests.builders import named_uuid, partition
from tests.simulation import faults, history, settled, taps
from tests.simulation.clients import Admin, Client, Producer, check_recovery, value_of
from tests.simulation.disk import File, Folder, files_below
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.members import (
    Groups,
    ModernMember,
    check_committed,
    check_coordinators,
)
from tests.simulation.plan import GroupPlan, Options, Plan, ProducerPlan
from tests.simulation.transactions import (
    Attempt,
    Decided,
    Outcome,
    Transactions,
    check_stable,
    held_up,
)
from tests.simulation.world import NotesHandler, Violation, World, directory_id

A, B = (value_of("p0", number, 30) for number in range(2))
T0, OFFSETS = (TopicPartition(name, 0) for name in ("t0", GROUP_METADATA_TOPIC))
T0_ID = TopicId(named_uuid("t0"))
NOTHING: dict[str, Any] = {}
GROUP = GroupPlan(name="g", topic="t0", members=2, is_modern=True)


class History(World):
    """A cluster of two brokers that never run; all topics have one partition on both."""

    def __init__(self) -> None:
        super().__init__(SimLoop("1"), Options(seed=1, brokers=2, is_calm=True))
        self.build()
        self.groups = Groups(self)
        self.ledger = Transactions(self, self.groups)
        self.asked: dict[Any, Any] = {}
        self.shown, self.shown_in = {(T0_ID, 0): 9}, dict[Any, int]()
        self.topics("t0", GROUP_METADATA_TOPIC)

    def image_has(self, **parts: Any) -> History:
        fields = {name: getattr(self.image, name) for name in type(EMPTY).__dataclass_fields__}
        self.metadata.image = cast("Any", Values(**fields | parts))
        return self

    def topics(self, *names: str, brokers: int = 2, **state: Any) -> History:
        registered = partition(tuple(range(1, brokers + 1)), "A B"[: 2 * brokers - 1]).state
        registered = replace(registered, **state)
        made = [
            TopicImage(name=name, topic_id=TopicId(named_uuid(name)), partitions={0: registered})
            for name in names
        ]
        topics = TopicsImage(by_id={t.topic_id: t for t in made}, by_name={t.name: t for t in made})
        return self.image_has(topics=topics)

    def undecided(self) -> History:
        return self.topics("t0", directories=(UNASSIGNED,) * 2)

    def log(self, node: int, *batches: bytes, name: str = "t0-0", directory: int = 0) -> History:
        folder, file = Folder(1), File(2)
        file.data += b"".join(batches)
        folder.names[f"{0:020}.log"] = file
        path = self.nodes[node].log_dirs[directory]
        self.disks[path].medium.root.names[name] = folder
        return self

    def on_the_disk(self) -> History:
        root = self.disks[self.nodes[1].log_dirs[0]].medium.root
        root.durable |= root.names
        for folder in root.names.values():
            if isinstance(folder, Folder):
                folder.durable |= folder.names
        for file in files_below(root):
            file.durable = file.data
        return self

    def told(self, *values: bytes, **accounts: Any) -> History:
        """Let values be sent with acks=all, and the accounts be as they are given."""
        self.sent |= dict.fromkeys(values, (T0, -1))
        for name, found in accounts.items():
            setattr(self, name, found)
        return self

    def logs(self) -> None:
        settled.check_logs(self, self.ledger)

    def wrong(self, look: Callable[..., Iterable[settled.Wrong]], *args: Any) -> None:
        for each in look(self, *args):
            self.report(*each)

    def changes(self, before: dict[str, Any] = NOTHING, **after: Any) -> None:
        checker = taps._Metadata(self)
        former = partition((1, 2), "A B", partition_epoch=5, **before).state
        checker._changed_partition(T0, former, partition((1, 2), "A B", **after).state)

    def leads(self, step: str, *args: Any) -> None:
        """Let a leader of t0 come to a step of the checkers of what it does."""
        checker = taps._Appends(self)
        checker.shown_in = self.shown_in
        log = Values(written_end=5, end_offset=5)
        values = {"topic_id": T0_ID, "topic_partition": T0, "broker_id": 2, "high_watermark": 3}
        values["registration"] = partition((1, 2), "A B").state
        values |= {"log": log, "min_isr": 2}
        roles = {"replica": (1, 2), "alone": (2,)}
        known = {
            name: Values(leader=Values(leader_epoch=0, isr=isr), **values)
            for name, isr in roles.items()
        }
        known["log"] = log
        getattr(checker, step)(*(known.get(str(each), each) for each in args))

    def follows(self, high_watermark: int, *epochs: tuple[int, int]) -> None:
        """Let broker 2 follow broker 1, of which it has other epochs of leaders."""
        state = partition((1, 2), "A B").state
        own = {"epochs": Values(entries=epochs), "start_offset": 0, "config": LogConfig()}
        self.serves(1, epochs=Values(entries=()), start_offset=0)
        role = Values(leader_epoch=state.leader_epoch)
        self.nodes[1].server._replicas.manager.registry.partition(T0).leader = role
        self.serves(2, **own)
        replica = self.nodes[2].server._replicas.manager.registry.partition(T0)
        known = {"registration": state, "high_watermark": high_watermark, "broker_id": 2}
        vars(replica).update(topic_partition=T0, leader=None, **known)
        taps._Followers(self)._heard(replica)

    def asks_from(self, offset: int) -> None:
        """Let broker 2 ask its leader from an offset."""
        registration = partition((1, 2), "A B").state
        self.serves(2).image_has(cluster=Values(brokers={2: Values(epoch=7, fenced=False)}))
        replica = self.nodes[2].server._replicas.manager.registry.partition(T0)
        replica.registration = registration
        led = Values(topic_partition=T0, topic_id=T0_ID, registration=registration)
        taps._Followers(self)._fetched(Values(_replica=led), 2, offset, 7)

    def remembers(self, last_offset: int) -> None:
        """Let a log that ends at 5 be cut, with what is known of a producer."""
        entry = Values(batches=(Values(last_offset=last_offset),))
        log = Values(end_offset=5, producers=Values(entries=((7, entry),)))
        taps._Followers(self)._cut(Values(topic_partition=T0, log=log))

    def takes(self, epoch: int) -> None:
        """Let a follower take what it has asked for in an epoch."""
        registration = partition((1, 2), "A B").state
        followed = Values(partition=Values(topic_partition=T0, registration=registration))
        taps._Followers(self)._takes(None, followed, None, None, registration.leader_epoch + epoch)

    def answers(self, *left: str) -> None:
        """Let a heartbeat be answered that named A, while A and B were to be told."""
        lifecycle = Values(_untold={"A": 1, "B": 2}, _in_flight=("A",))
        taps._told(self, lambda it: setattr(it, "_untold", dict.fromkeys(left)), lifecycle)

    def heard(self, epoch: int) -> None:
        """Let broker 1, registered in epoch 7, give a sign of life."""
        state = Values(image=Values(cluster=Values(brokers={1: Values(epoch=7)})))
        request = Values(broker_id=1, broker_epoch=epoch)
        taps._heard(self, lambda *_: Values(response=Values(error_code=0)), request, state, 0)

    def revived(self, kind: str, **fence: bool) -> None:
        """Let a directory be revived while a call hangs in it, or with a fence."""
        path = self.nodes[1].log_dirs[0]
        self.disks[path].running[PROCESS.get(), kind, "a"] = 1
        fences = (Values(**fence),) if fence else ()
        taps._revived(self, Values(path=path, identity=(1, 2), _fences=fences), None, (1, 2))

    def retires(self) -> None:
        """Let what a move has left of t0 go, while its copy is in the other directory."""
        path, other = self.nodes[1].log_dirs
        names = [f"t0-0.{kind}" for kind in (f"moved{'0' * 32}-stray", f"{'0' * 32}-delete")]
        for number, name in enumerate((names[1], "t0-0")):
            self.log(1, batch(A), name=name, directory=number)
            metadata = File(3)
            metadata.data += f"version: 0\ntopic_id: {kafka_uuid.to_text(T0_ID)}\n".encode()
            folder = self.disks[(path, other)[number]].medium.root.names[name]
            cast("Folder", folder).names["partition.metadata"] = metadata
        taps._folder_made(self, path / names[1], path / names[0])

    def serves(
        self, node: int, state: Any = None, is_moving: bool = False, untold: int = 0, **log: Any
    ) -> History:
        """Let a broker run, with a replica of t0."""
        log = {"failed": False, "end_offset": 9, "written_end": 9, "leader": None} | log
        log = {"start_offset": 0, "config": LogConfig(), "epochs": EPOCH_0} | log
        replica = Values(topic_id=T0_ID, topic_partition=T0, log=Values(**log), state=state)
        registry = Values(partition=lambda _: replica, partitions=lambda: [replica])
        moves = Values(moves=lambda: [replica] * is_moving)
        moves._announcements = Values(_assigner=Values(_sender=Values(pending_count=untold)))
        manager = Values(registry=registry, moves=moves)
        self.nodes[node].server = Values(_replicas=Values(manager=manager))
        self.nodes[node].process = Process(f"node-{node}.1")
        return self

    def has(self, *base_offsets: int) -> History:
        """Let broker 1 run, whose log of t0 has segments."""
        replica = taps.replica_of(self.serves(1), 1, T0)
        replica.log.state = Values(segments=Values(base_offsets=base_offsets))
        return self

    def asks(self) -> History:
        """Let broker 1 run, and have asked to be unfenced."""
        self.serves(1)
        self.asked[self.nodes[1].process] = EMPTY
        return self

    def commits(self, step: str, *args: Any) -> None:
        """Let the controller come to a step of the checkers of what it commits."""
        broker = Values(broker_id=1, epoch=7, fenced=False, directories=("A", "B"), active=True)
        broker.directory_is_online = lambda directory: directory == UNASSIGNED
        broker.in_controlled_shutdown = False
        self.image_has(cluster=Values(brokers=dict.fromkeys((1, 2), broker)), offset=3)
        checker = taps._Metadata(self)
        checker.images, checker._asked = {3: self.image}, self.asked
        checker._misplaced = {*taps.misplaced(self.image)}
        known = {"image": self.image, "broker": broker}
        getattr(checker, step)(*(known.get(str(each), each) for each in args))

    def vouches_for(self, end: int, name: str = f"{RECOVERY_POINT_FILE}.tmp") -> History:
        """Let a broker say of a replica of t0 up to where it is on the disk."""
        path = self.nodes[1].log_dirs[0]
        data = render_frame([("t0", 0, end)])
        taps._vouched_for(self, cast("Any", Values(disk=self.disks[path])), path / name, data)
        return self

    def swaps(self, directory: Any, end: int = 9) -> None:
        """Let a copy take the place of a replica that ends at 9 and that is known to be in A."""
        self.image_has(features=Values(metadata_version=LATEST))
        replica = Values(topic_id=T0_ID, broker_id=1)
        target = Values(directory_id=directory, path="d1")
        ends = {"future": Values(end_offset=end), "log": Values(end_offset=9)}
        move = Values(topic_partition=T0, partition=replica, target=target, **ends)
        taps._swapped(self, None, move)

    def gives_up(self, told: str) -> None:
        """Let a move to B end, of which the controller was told; it is told of another now."""
        state = Values(topic_id=T0_ID, state=None)
        move = Values(
            topic_partition=T0, partition=state, target=Values(directory_id=named_uuid("B"))
        )
        move.state = MoveState.ASSIGNMENT_QUEUED
        sender = Values(pending=lambda _: Values(directory_id=named_uuid(told)))
        teller = Values(_asks_controller=lambda: True, _assigner=Values(_sender=sender))
        ends = lambda _, its, event: setattr(its, "state", MoveState.CANCELLED)  # noqa: E731
        taps._stepped(self, ends, Values(_announcements=teller), move, MoveEvent.CANCEL)

    def compacts(self, end: int) -> None:
        """Let broker 1 compact its log of t0, of which 3 is committed."""
        self.serves(1)
        replica = self.nodes[1].server._replicas.manager.registry.partition(T0)
        replica.high_watermark = 3
        vars(replica.log).update(topic_partition=T0, log_dir=self.online_dir())
        taps._compacted(self, Values(log=replica.log), Values(end=end))

    def dismisses(self, **heard: bool) -> None:
        """Let broker 2 be told that it may go, as broker 1 knows something else of it, or not."""
        leaving = {"in_controlled_shutdown": True, "fenced": False, "epoch": 8}
        brokers = {1: Values(active=True, epoch=7), 2: Values(**leaving)}
        self.serves(1).image_has(cluster=Values(brokers=brokers))
        checker = taps._Metadata(self)
        known = Values(cluster=Values(brokers={2: Values(**leaving | heard)}))
        checker._told = {self.nodes[1].process: cast("Any", known)}
        request, leaves = Values(broker_id=2, want_fence=False), lambda _: True
        state = Values(image=self.image, heartbeats=Values(in_controlled_shutdown=leaves))
        may_go = Values(response=Values(should_shut_down=True))
        checker._dismissed(lambda *_: may_go, request, state, 0)

    def online_dir(self) -> Any:
        return Values(path=self.nodes[1].log_dirs[0], is_online=True)

    def calls(self, error: Exception) -> None:
        """Let a client's call end by an error."""

        async def call(*_: Any) -> None:
            raise error

        client = Client(self, "c")
        client._connections[1] = cast("Any", Values(is_open=True, call=call))
        with pytest.raises(Violation):
            self.loop.run_until_complete(client.refresh(1))

    def made(self, name: str) -> None:
        """Let a replica of t0 be made in a directory, while the other one has it."""
        path, other = self.nodes[1].log_dirs
        self.topics("t0", directories=(directory_id(self, other),) * 2)
        self.log(1, batch(A), directory=1)
        metadata = File(3)
        metadata.data += f"version: 0\ntopic_id: {kafka_uuid.to_text(T0_ID)}\n".encode()
        copy = self.disks[other].medium.root.names["t0-0"]
        cast("Folder", copy).names["partition.metadata"] = metadata
        taps._folder_made(self, path / name, path / f"{name}.{'0' * 32}-delete")

    def placed(self, name: str) -> None:
        """Let a broker make a replica of t0 in the directory that it has chosen."""
        self.undecided()
        path = self.nodes[1].log_dirs[0] / name
        taps._folder_made(self, path, path)

    def attempt(self, outcome: Outcome, *values: bytes, offset: int = -1) -> None:
        """Let a transaction of x be answered so."""
        attempt = Attempt("x", dict.fromkeys(values, T0), offset, outcome)
        self.ledger.attempts["x"].append(attempt)
        self.ledger.of_value |= dict.fromkeys(values, attempt)

    def reads(self, *values: bytes) -> None:
        """Let a reader of committed records have read t0 to its end."""
        self.ledger.check({T0: {*values}})

    def in_one(self, *outcomes: Outcome) -> None:
        """Let A and a commit be in a log, of a transaction that was answered so."""
        for outcome in outcomes:
            self.attempt(outcome, A)
        self.log(1, batch(A, attributes=TRANSACTIONAL, **ONCE), marker(COMMIT, 1)).logs()

    def indexed(self, last_offset: int) -> History:
        """Let the log have an index of an aborted transaction."""
        folder = cast("Folder", self.disks[self.nodes[1].log_dirs[0]].medium.root.names["t0-0"])
        file = File(4)
        file.data += encode_aborted([AbortedTransaction(1, 0, last_offset, last_offset + 1)])
        folder.names[f"{0:020}.txnindex"] = file
        return self

    def stable(self, *offsets: int) -> None:
        """Let last stable offsets follow each other in a leader whose high watermark is 5."""
        known: dict[Any, int] = {}
        for offset in offsets:
            log = Values(last_stable_offset=lambda _, its=offset: its, start_offset=0)
            replica = Values(log=log, leader=Values(leader_epoch=0), high_watermark=5)
            vars(replica).update(topic_partition=T0, topic_id=T0_ID)
            check_stable(self, known, replica)

    def ends(self, *, is_commit: bool) -> None:
        """Let the end of a transaction be answered, and its marker be sent, that is committed."""
        self.ledger.decided.add(Decided(1, 4, True))
        self.ledger.answered("x", (1, 3), is_commit=is_commit, bumps=True)
        sent = Values(producer_id=1, producer_epoch=4, is_committed=is_commit)
        self.ledger.marked([sent])

    def member(self, name: str, until_s: float = 1e9) -> ModernMember:
        found = ModernMember(self.groups, GROUP, name)
        found.owned, found.held_until_s = [T0], until_s
        return found


def batch(value: bytes, offset: int = 0, epoch: int = 0, **producer: int) -> bytes:
    fields = {"base_offset": offset, "leader_epoch": epoch, **producer}
    return build_batch([(None, value)], timestamp_ms=0, **fields)


def marker(kind: int, offset: int, epoch: int = 0) -> bytes:
    data = bytearray(build_marker(1, epoch, Marker(kind, 0), timestamp_ms=0))
    data[:8] = offset.to_bytes(8, "big")
    data[12:16] = (0).to_bytes(4, "big")
    return bytes(data)


def aborted(last_offset: int) -> tuple[bytes, bytes]:
    return batch(A, attributes=TRANSACTIONAL, **ONCE), marker(ABORT, last_offset)


def shows(high_watermark: int, replica: Any) -> None:
    replica.high_watermark = high_watermark


ONCE = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 4}
TWICE = (batch(A, 0, **ONCE), batch(A, 1, **ONCE))

SHARD = Values(
    state=ShardState.ACTIVE,
    waiting_count=1,
    partition=Values(is_online=False, topic_partition=OFFSETS),
)
ANOTHER = Values(**dict.fromkeys(type(EMPTY).__dataclass_fields__) | {"offset": 3})
ISR_CHANGE = PartitionChangeRecord(partition_id=0, topic_id=T0_ID, isr=())
ERROR = logging.makeLogRecord(
    {"levelno": logging.ERROR, "msg": "oh", "exc_info": (KeyError, KeyError("k"), None)}
)

EPOCH_0, EPOCH_2 = (Values(epoch_for=lambda _, its=each: its, entries=()) for each in (0, 2))
NOBODY = Values(entry=lambda _: None)
FRESH = Values(end_offset=0)
COMMITTED = Values(topics=[Values(name="t0", partitions=[Values(partition_index=0, error_code=0)])])
CLOSED = ConfigsImage(resources={(4, "1"): {faults.CORDONED: "*"}})
BY_TWO = ConfigsImage(resources={(2, "t0"): {"min.insync.replicas": "2"}})
ALONE = Values(isr=(2,))
BEHIND = Values(leader_epoch=0, partition_epoch=4, topic="t0", index=0)
BEHIND.state = Values(leader_epoch=0, partition_epoch=5)


def led_since(entries: tuple[tuple[int, int], ...]) -> Any:
    """Return a leader in epoch 0 that knows of some epochs."""
    log, registration = Values(epochs=Values(entries=entries)), Values(leader_epoch=0)
    return Values(log=log, registration=registration, topic_partition=T0)


def tells(world: World, offset: int) -> None:
    """Let a member be told of an offset, as 5 is committed."""
    stored = Values(value=5)
    state = Values(committed=Values(get=lambda *_: stored))
    check_committed(world, lambda *_: offset, Values(_state=state), "g", "t0", 0)


CASES: list[tuple[str, Callable[[History], Any]]] = [
    ("S0", lambda h: h.log(1, batch(A)).told(A, B, acknowledged={A: 0, B: 1}).logs()),
    ("S1", lambda h: h.leads("_appends", "replica")),
    ("S2", lambda h: h.leads("_advance", partial(shows, 2), "replica")),
    ("S2", lambda h: h.leads("_advance", partial(shows, 6), "replica")),
    ("S2", lambda h: h.leads("_begins", "replica", None, "log")),
    ("S2", lambda h: h.heirless.update({T0: 2}) or h.leads("_begins", "replica", None, FRESH)),
    ("S2", lambda h: h.shown.update({(T0_ID, 0): 2}) or h.leads("_begins", "replica", None, "log")),
    ("S2", lambda h: h.follows(10)),
    ("S3", lambda h: h.follows(9, (0, 0), (1, 4))),
    ("S3", lambda h: h.log(1, batch(A, 3), batch(B, 2)).logs()),
    ("S3", lambda h: h.log(1, batch(A, 0, 2), batch(B, 1, 1)).logs()),
    ("S3", lambda h: h.log(1, batch(A, 0, 2)).serves(1, producers=NOBODY).logs()),
    ("S3", lambda h: h.log(1, batch(b"bits rot:00000000")).logs()),
    ("S3", lambda h: h.log(1, batch(A)).log(2, batch(B)).logs()),
    ("S3", lambda h: h.log(1, batch(A), batch(B, 1)).log(2, batch(A)).logs()),
    ("S4", lambda h: taps.in_sync_have(h.serves(2, written_end=4), T0, 5)),
    ("S4", lambda h: h.asks_from(10)),
    ("S4", lambda h: h.topics("t0", isr=(1,), elr=(2,)).asks_from(3)),
    ("S4", lambda h: h.leads("_advance", partial(shows, 4), "alone")),
    (
        "S4",
        lambda h: (
            h.topics("t0", isr=(), leader=-1, elr=(2,))
            .serves(2, written_end=4)
            .commits("_is_eligible", 2, "image")
        ),
    ),
    ("S4", lambda h: h.image_has(configs=BY_TWO).leads("_accepted", "replica", ALONE, -1, None)),
    ("S5", lambda h: h.log(1, batch(A)).told(A, acknowledged={A: 7}).logs()),
    ("S6", lambda h: h.log(1, *TWICE).logs()),
    ("S6", lambda h: h.log(1, batch(A), batch(A, 1)).told(A, once={A}).logs()),
    ("S6", lambda h: h.log(1, batch(A, **ONCE), batch(B, 1, **ONCE | {"base_sequence": 6})).logs()),
    ("S6", lambda h: h.log(1, batch(A, **ONCE)).serves(1, producers=NOBODY).logs()),
    ("S6", lambda h: Producer(h, ProducerPlan(topic="t0"), "p")._forgotten(T0)),
    ("S0", lambda h: h.serves(1, start_offset=3).wrong(settled._of_brokers)),
    ("S7", lambda h: h.commits("_published", None, ANOTHER)),
    ("S7", lambda h: h.commits("_begun", None, None, None, -1)),
    ("S8", lambda h: h.commits("_check_durable", 1)),
    ("S9", lambda h: h.log(1, batch(A)).log(1, batch(A), directory=1).wrong(settled._of_disks)),
    ("S9", lambda h: h.swaps(named_uuid("B"))),
    ("S9", lambda h: h.gives_up("B")),
    ("S4", lambda h: h.swaps(named_uuid("A"), end=8)),
    ("S10", lambda h: h.commits("_changed", EMPTY, "image")),
    ("S10", lambda h: h.undecided().commits("_leaves", 1, "image")),
    ("S10", lambda h: h.dismisses(in_controlled_shutdown=False)),
    ("S11", lambda h: taps._goes_offline(h, h.online_dir(), "it was bored")),
    ("S12", lambda h: history._unhandled(h, {"message": "oh", "exception": KeyError()})),
    ("S12", lambda h: NotesHandler(h).emit(ERROR)),
    ("S13", lambda h: h.made("t0-0")),
    ("S13", lambda h: h.cordoned_s.update({h.nodes[1].log_dirs[0]: -3.0}) or h.placed("t0-0")),
    ("S14", lambda h: h.commits("_decided", None, Values(records=[(ISR_CHANGE, 0)] * 2))),
    ("S14", lambda h: h.commits("_proposed", BEHIND, BEHIND)),
    ("S14", lambda h: h.changes(partition_epoch=5)),
    ("S14", lambda h: h.changes(partition_epoch=6, leader=2)),
    ("S14", lambda h: h.changes(partition_epoch=6, isr=(), leader=1)),
    ("S14", lambda h: h.changes({"adding_replicas": (2,)}, partition_epoch=6, isr=(1,))),
    ("S15", lambda h: h.log(1, batch(A)).told(read={T0: {0: B}}).logs()),
    ("S16", lambda h: h.calls(DecodeError("response to request 4, expected 5"))),
    ("S17", lambda h: h.undecided().commits("_unfenced", "broker", "image")),
    ("S18", lambda h: h.hit_until_s.update({1: -9.0}) or h.asks().commits("_fenced", "broker")),
    ("S3", lambda h: h.takes(1)),
    ("S3", lambda h: h.leads("_leads", led_since(()))),
    ("S3", lambda h: h.leads("_leads", led_since(((0, 0), (1, 5))))),
    ("S3", lambda h: h.compacts(4)),
    ("S6", lambda h: h.remembers(5)),
    ("L8", lambda h: h.answers()),
    ("S18", lambda h: h.heard(6)),
    ("S19", lambda h: taps._called_on_loop(h, h.disks[h.nodes[1].log_dirs[0]], "write")),
    ("S20", lambda h: h.revived("write")),
    ("S20", lambda h: h.revived("read", is_closed=False)),
    ("D1", lambda h: h.topics("t0", brokers=1).log(1).told(A, acknowledged={A: 0}).logs()),
    ("D1", lambda h: h.log(1, batch(A)).vouches_for(1)),
    ("D1", lambda h: h.log(1, batch(A)).vouches_for(0, CLEAN_SHUTDOWN_FILE)),
    ("D1", lambda h: h.retires()),
    ("L1", lambda h: h.wrong(settled.unsettled)),
    ("L2", lambda h: h.wrong(settled._of_partition, T0, partition((1,), "A", leader=-1).state)),
    ("L2", lambda h: h.wrong(settled._of_partition, T0, partition((1, 2), "A B", isr=(1,)).state)),
    ("L3", lambda h: h.log(1, batch(A), name="t1-0").wrong(settled._of_disks)),
    ("L4", lambda h: h.log(1, batch(A), name=f"t0-0.{'0' * 32}-future").wrong(settled._of_disks)),
    ("L3", lambda h: h.serves(1, untold=1).wrong(settled._of_brokers)),
    ("L4", lambda h: h.serves(1, is_moving=True, start_offset=0).wrong(settled._of_brokers)),
    ("L3", lambda h: h.log(1, batch(A)).has(0, 9).wrong(settled._of_segments)),
    ("L4", lambda h: h.image_has(configs=CLOSED).wrong(settled._of_brokers)),
    ("L5", lambda h: setattr(h, "is_settled", True) or h.calls(TimeoutError())),
    ("L6", lambda h: settled.check_same(h, {"ids": {"d1": "A"}}, {"ids": {"d1": "B"}})),
    ("L7", lambda h: check_recovery(h, T0, 2.6)),
    ("L8", lambda h: faults.check_stopped(h.serves(1), h.nodes[1], h.nodes[1].log_dirs[0])),
    ("G1", lambda h: tells(h, 6)),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=4, offset=3)),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=4, offset=-1)),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=0, offset=1)),
    ("G2", lambda h: [h.groups.owns("g", 3, each, [T0]) for each in ("m1", "m2")]),
    ("G2", lambda h: h.groups.took_old("g", COMMITTED)),
    ("G3", lambda h: check_coordinators(h, Process("node-1.1"), [SHARD])),
    ("G2", lambda h: (h.member("m1"), h.groups.holds(h.member("m2")))),
    ("I10", lambda h: h.attempt(Outcome.COMMITTED, A, B) or h.reads(A)),
    ("I10", lambda h: h.attempt(Outcome.COMMITTED, A, B) or h.reads()),
    ("I10", lambda h: h.attempt(Outcome.ABORTED, A, B) or h.reads(A, B)),
    ("I10", lambda h: h.attempt(Outcome.ASKED, A, B) or h.reads(B)),
    ("I10", lambda h: h.attempt(Outcome.OPEN, A) or h.ledger.saw(T0, A)),
    ("I10", lambda h: h.attempt(Outcome.ABORTED, A) or h.ledger.saw(T0, A)),
    ("I10", lambda h: h.ledger.fetched("x", 4, 3)),
    ("I10", lambda h: h.attempt(Outcome.OPEN, offset=5) or h.ledger.fetched("x", 4, 5)),
    ("I11", lambda h: h.stable(4, 3)),
    ("I11", lambda h: h.stable(6)),
    ("I12", lambda h: h.ledger.took("x", (1, 3), (1, 4), "EndTxn")),
    ("I12", lambda h: h.ledger.took("x", (1, 3), (2, 0), "EndTxn")),
    ("I12", lambda h: h.log(1, batch(A, **ONCE | {"producer_epoch": 1}), marker(COMMIT, 1)).logs()),
    ("I12", lambda h: [h.ledger.began("x", (1, 3)) for _ in range(2)]),
    ("I13", lambda h: h.ends(is_commit=False)),
    ("I13", lambda h: h.in_one(Outcome.ABORTED)),
    ("I14", lambda h: h.ends(is_commit=False)),
    ("I10", lambda h: h.log(1, *aborted(1)).logs()),
    ("I10", lambda h: h.log(1, *aborted(1)).indexed(3).logs()),
    ("I10", lambda h: h.log(1, batch(A)).indexed(1).logs()),
]


@pytest.fixture(name="cluster")
def _cluster() -> Iterator[History]:
    cluster = History()
    yield cluster
    taps.detach()
    cluster.loop.close()


@pytest.mark.parametrize(("checker", "happen"), CASES)
def test_checker_fires(checker: str, happen: Callable[[History], Any], cluster: History) -> None:
    happen(cluster)

    assert checker in {each.args[0] for each in cluster.violations}


FINE: list[Callable[[History], Any]] = [
    lambda h: h.log(1, batch(A)).log(2, batch(A)).told(A, acknowledged={A: 0}, once={A}).logs(),
    lambda h: h.log(1, batch(A)).told(A, B, acknowledged={A: 0}).logs(),
    lambda h: h.groups.owns("g", 3, "m1", [T0]) or h.groups.owns("g", 4, "m2", [T0]),
    lambda h: (h.member("m1", until_s=-1.0), h.groups.holds(h.member("m2"))),
    lambda h: h.tainted.add(OFFSETS) or h.groups.fetched("g", T0, floor=4, offset=3),
    lambda h: h.changes(partition_epoch=6),
    lambda h: (
        h.retargeted.update({T0: 1})
        or h.changes({"adding_replicas": (2,)}, partition_epoch=6, isr=(1,))
    ),
    lambda h: (
        h.heirless.update({T0: 1})
        or h.tainted.add(T0)
        or h.leads("_begins", "replica", None, FRESH)
    ),
    lambda h: h.shown_in.update({(T0_ID, 0): 1}) or h.leads("_begins", "replica", None, "log"),
    lambda h: h.leads("_accepted", "replica", ALONE, -1, None),
    lambda h: h.leads("_leads", led_since(((0, 0),))) or tells(h, 5),
    lambda h: h.follows(9, (0, 0)),
    lambda h: h.asks_from(9),
    lambda h: h.log(1, batch(A)).vouches_for(0).vouches_for(1, HIGH_WATERMARK_FILE),
    lambda h: h.log(1, batch(A)).on_the_disk().vouches_for(1).vouches_for(0, CLEAN_SHUTDOWN_FILE),
    lambda h: (
        h.swaps(named_uuid("A"))
        or h.gives_up("A")
        or h.compacts(3)
        or h.dismisses()
        or h.dismisses(directories=("B",))
        or h.revived("read", is_closed=True)
    ),
    lambda h: h.log(1, batch(A, 0, 2)).serves(1, epochs=EPOCH_2, producers=NOBODY).logs(),
    lambda h: (h.heard(7), h.revived("read"), h.takes(0), h.remembers(4), h.answers("B")),
    lambda h: h.log(1, batch(A)).has(0).wrong(settled._of_segments),
    lambda h: (
        h.attempt(Outcome.COMMITTED, A)
        or h.attempt(Outcome.ABORTED, B)
        or h.attempt(Outcome.ASKED, b"")
        or h.reads(A)
        or h.ledger.saw(T0, A)
    ),
    lambda h: h.attempt(Outcome.COMMITTED, A, B) or h.ledger.check({}),
    lambda h: (
        h.trimmed.update({T0: 1})
        or h.attempt(Outcome.COMMITTED, A, B)
        or h.told(acknowledged={A: 0, B: 1}).reads(B)
    ),
    lambda h: h.attempt(Outcome.ASKED, offset=5) or h.ledger.fetched("x", 4, 5),
    lambda h: h.stable(3, 3, 5) or h.ends(is_commit=True),
    lambda h: [h.ledger.took("x", (1, 4), each, "a batch") for each in (None, (1, 4), (1, 3))],
    lambda h: h.in_one(Outcome.ASKED),
    lambda h: h.in_one(),
    lambda h: h.log(1, *aborted(1)).indexed(1).logs(),
    lambda h: h.trimmed.update({T0: 3}) or h.serves(1, start_offset=3).wrong(settled._of_brokers),
    lambda h: h.trimmed.update({T0: 1}) or h.log(1).told(A, acknowledged={A: 0}).logs(),
    lambda h: h.trimmed.update({T0: 1}) or h.log(1).log(2, batch(A)).logs(),
    lambda h: h.trimmed.update({T0: 2}) or h.log(1, batch(A), batch(B, 1)).log(2).logs(),
    lambda h: h.cordoned_s.update({h.nodes[1].log_dirs[0]: -1.0}) or h.placed("t0-0"),
    lambda h: h.copy_identity(*reversed(h.nodes[1].log_dirs)) or h.made("t0-0"),
    lambda h: (
        h.asked.update({None: EMPTY}) or h.undecided().commits("_unfenced", "broker", "image")
    ),
]


@pytest.mark.parametrize("happen", FINE)
def test_what_is_right_is_no_violation(happen: Callable[[History], Any], cluster: History) -> None:
    happen(cluster)

    assert cluster.violations == []


def test_a_transaction_that_is_open_in_a_log_or_at_its_coordinator_is_told(
    cluster: History,
) -> None:
    stable = {"last_stable_offset": lambda high_watermark: high_watermark - 1}
    replica = taps.replica_of(cluster.serves(1, **stable), 1, T0)
    replica.leader, replica.high_watermark = Values(), 5
    cluster.ledger.states |= {"x": TransactionState.ONGOING, "y": TransactionState.EMPTY}

    assert held_up(cluster, cluster.ledger) == ["t0-0", "x"]


def test_what_was_cordoned_takes_replicas_again_after_healing(cluster: History) -> None:
    cluster.cordoned_s[cluster.nodes[1].log_dirs[0]] = -3.0
    history._History(cluster, Plan(options=cluster.options))._heal()

    cluster.placed("t0-0")
    assert cluster.violations == []


def test_an_operator_hears_why_a_whole_request_was_refused(cluster: History) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        return Values(responses=(), error_code=41)

    admin = Admin(cluster, "a")
    admin.ask_any = refuse  # type: ignore[method-assign]

    with pytest.raises(StopIteration) as code:
        admin.reassign(T0, [1]).send(None)
    assert code.value.value == 41
