"""Each checker fires: on values that could have come of the bug that it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace as Values
from typing import Any, cast

import pytest

from jbodlab.ids import GROUP_METADATA_TOPIC, TopicId, TopicPartition
from jbodlab.image.topics_image import TopicImage, TopicsImage
from jbodlab.protocol.record_batch import build_batch
from tests.builders import named_uuid, partition
from tests.simulation import settled, taps
from tests.simulation.clients import Accounts, value_of
from tests.simulation.disk import File, Folder
from tests.simulation.loop import SimLoop
from tests.simulation.members import Groups, ModernMember
from tests.simulation.plan import GroupPlan, Options
from tests.simulation.world import World

A, B, C = (value_of("p0", number, 30) for number in range(3))
T0, T1, OFFSETS = (TopicPartition(name, 0) for name in ("t0", "t1", GROUP_METADATA_TOPIC))
T0_ID = TopicId(named_uuid("t0"))
GROUP = GroupPlan(name="g", topic="t0", members=2, is_modern=True)


class History(World):
    """A cluster of two brokers that never run; all topics have one partition on both."""

    def __init__(self) -> None:
        super().__init__(SimLoop("1"), Options(seed=1, brokers=2))
        self.build()
        self.accounts = Accounts()
        self.groups = Groups(self, self.accounts)
        self.topics("t0", GROUP_METADATA_TOPIC)

    def topics(self, *names: str, **state: Any) -> None:
        registered = partition((1, 2), "A B", **state).state
        made = [
            TopicImage(name=name, topic_id=TopicId(named_uuid(name)), partitions={0: registered})
            for name in names
        ]
        topics = TopicsImage(by_id={t.topic_id: t for t in made}, by_name={t.name: t for t in made})
        self.metadata.image = cast("Any", Values(**_fields(self.image) | {"topics": topics}))

    def log(self, node: int, *batches: bytes, name: str = "t0-0", directory: int = 0) -> History:
        folder, file = Folder(1), File(2)
        file.data += b"".join(batches)
        folder.names[f"{0:020}.log"] = file
        path = self.nodes[node].log_dirs[directory]
        self.disks[path].medium.root.names[name] = folder
        return self

    def told(self, *values: bytes, **accounts: Any) -> History:
        """Let values be sent with acks=all, and the accounts be as they are given."""
        self.accounts.sent |= dict.fromkeys(values, (T0, -1))
        for name, found in accounts.items():
            setattr(self.accounts, name, found)
        return self

    def logs(self) -> None:
        settled.check_logs(self, self.accounts)

    def disks_(self) -> None:
        self.violations += [Values(checker=each[0]) for each in settled._of_disks(self)]  # type: ignore[misc]

    def changes(self, **after: Any) -> None:
        checker = object.__new__(taps._Metadata)
        checker._world = self
        former = partition((1, 2), "A B", partition_epoch=5).state
        checker._changed_partition("t0-0", former, partition((1, 2), "A B", **after).state)

    def leads(self, step: str, *args: Any, **state: Any) -> None:
        checker = object.__new__(taps._Appends)
        checker._world, checker._leaders, checker.high = self, {}, {(T0_ID, 0): 9}
        log = Values(written_end=5, end_offset=5)
        values = {"topic_id": T0_ID, "topic_partition": T0, "broker_id": 2, "high_watermark": 3}
        leader = Values(leader_epoch=0)
        replica = Values(**{"log": log, "leader": leader} | values | state)
        getattr(checker, step)(replica, *(log if each is ... else each for each in args))

    def member(self, name: str, until_s: float = 1e9) -> ModernMember:
        found = ModernMember(self.groups, GROUP, name)
        found.owned, found.held_until_s = [T0], until_s
        return found


def _fields(image: Any) -> dict[str, Any]:
    return {name: getattr(image, name) for name in type(image).__dataclass_fields__}


def batch(value: bytes, offset: int = 0, epoch: int = 0, **producer: int) -> bytes:
    fields = {"base_offset": offset, "leader_epoch": epoch, **producer}
    return build_batch([(None, value)], timestamp_ms=0, **fields)


ONCE = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 4}
TWICE = (batch(A, 0, **ONCE), batch(A, 1, **ONCE))

CASES: list[tuple[str, Callable[[History], Any]]] = [
    ("S0", lambda h: h.log(1, batch(A)).told(A, B, acknowledged={A: 0, B: 1}).logs()),
    ("S1", lambda h: h.leads("_appends")),
    ("S2", lambda h: h.leads("_watermark", 4)),
    ("S2", lambda h: h.leads("_watermark", 6, high_watermark=6)),
    ("S2", lambda h: h.leads("_begins", ...)),
    ("S3", lambda h: h.log(1, batch(A, 3), batch(B, 2)).logs()),
    ("S3", lambda h: h.log(1, batch(A, 0, 2), batch(B, 1, 1)).logs()),
    ("S3", lambda h: h.log(1, batch(b"bits rot:00000000")).logs()),
    ("S3", lambda h: h.log(1, batch(A)).log(2, batch(B)).logs()),
    ("S3", lambda h: h.log(1, batch(A), batch(B, 1)).log(2, batch(A)).logs()),
    ("S5", lambda h: h.log(1, batch(A)).told(A, acknowledged={A: 7}).logs()),
    ("S6", lambda h: h.log(1, *TWICE).logs()),
    ("S6", lambda h: h.log(1, batch(A), batch(A, 1)).told(A, once={A}).logs()),
    ("S9", lambda h: h.log(1, batch(A)).log(1, batch(A), directory=1).disks_()),
    ("S14", lambda h: h.changes(partition_epoch=5)),
    ("S14", lambda h: h.changes(partition_epoch=6, leader=2)),
    ("S14", lambda h: h.changes(partition_epoch=6, isr=(), leader=1)),
    ("S15", lambda h: h.log(1, batch(A)).told(read={T0: {0: B}}).logs()),
    ("S19", lambda h: taps._called_on_loop(h, "d1", "write")),
    ("L3", lambda h: h.log(1, batch(A), name="t1-0").disks_()),
    ("L4", lambda h: h.log(1, batch(A), name=f"t0-0.{'0' * 32}-future").disks_()),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=4, offset=3)),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=4, offset=-1)),
    ("G1", lambda h: h.groups.fetched("g", T0, floor=0, offset=1)),
    ("G2", lambda h: [h.groups.owns("g", 3, each, [T0]) for each in ("m1", "m2")]),
    ("G2", lambda h: (h.member("m1"), h.groups.holds(h.member("m2")))),
]


@pytest.fixture(name="history")
def _history() -> Iterator[History]:
    history = History()
    yield history
    history.loop.close()


@pytest.mark.parametrize(("checker", "happen"), CASES)
def test_checker_fires(checker: str, happen: Callable[[History], Any], history: History) -> None:
    happen(history)

    assert checker in {each.checker for each in history.violations}


FINE: list[Callable[[History], Any]] = [
    lambda h: h.log(1, batch(A)).log(2, batch(A)).told(A, acknowledged={A: 0}, once={A}).logs(),
    lambda h: h.log(1, batch(A)).told(A, B, acknowledged={A: 0}).logs(),
    lambda h: h.groups.owns("g", 3, "m1", [T0]) or h.groups.owns("g", 4, "m2", [T0]),
    lambda h: (h.member("m1", until_s=-1.0), h.groups.holds(h.member("m2"))),
    lambda h: h.tainted.add(OFFSETS) or h.groups.fetched("g", T0, floor=4, offset=3),
    lambda h: h.changes(partition_epoch=6),
]


@pytest.mark.parametrize("happen", FINE)
def test_what_is_right_is_no_violation(happen: Callable[[History], Any], history: History) -> None:
    happen(history)

    assert history.violations == []
