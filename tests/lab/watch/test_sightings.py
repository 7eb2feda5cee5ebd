"""Lines that servers write and say, as events."""

from __future__ import annotations

from uuid import UUID

import pytest
from msgspec.structs import replace

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.metadata.log.batches import MetadataBatch
from jbodlab.metadata.records.cluster_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from jbodlab.metadata.records.control_records import LeaderChangeMessage
from jbodlab.metadata.records.frame import VersionedRecord
from jbodlab.metadata.records.topic_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from jbodlab.picture.cluster_picture import PartitionPicture
from jbodlab.picture.places import Place
from jbodlab.vocabulary.ids import (
    BrokerId,
    DirectoryId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from lab.cluster.questions import Offsets, OpenTransaction
from lab.watch.sightings import MetadataNews, PolledNews, TransactionNews
from tests.lab.pictures import log_dir_told

D1, D2 = (DirectoryId(UUID(int=1000 + number)) for number in range(2))
TOPIC = TopicId(UUID(int=77))
PLACES = {D1: Place(1, 1), D2: Place(1, 2)}
ORDERS = TopicPartition("orders", 0)


def batch(*records: object) -> MetadataBatch:
    return MetadataBatch(
        base_offset=5,
        last_offset=5 + len(records),
        epoch=1,
        timestamp_ms=0,
        is_control=False,
        records=tuple((5 + n, VersionedRecord(one, 0)) for n, one in enumerate(records)),  # type: ignore[arg-type]
        size=1,
        crc=0,
    )


def told(news: MetadataNews, *records: object) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in news.read(batch(*records), 7, 1)]


def broker(number: int, *log_dirs: DirectoryId, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(number),
        incarnation_id=UUID(int=1),
        broker_epoch=0,
        fenced=fenced,
        log_dirs=log_dirs,
    )  # type: ignore[call-arg]


def topic() -> list[object]:
    replicas = tuple(map(BrokerId, (1, 2)))
    return [
        TopicRecord(name="orders", topic_id=TOPIC),
        PartitionRecord(
            partition_id=0,
            topic_id=TOPIC,
            replicas=replicas,
            isr=replicas,
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(0),
            partition_epoch=PartitionEpoch(0),
        ),
    ]


def test_a_directory_that_leaves_the_registration_is_reported() -> None:
    news = MetadataNews(PLACES)
    told(news, broker(1, D1, D2))

    change = BrokerRegistrationChangeRecord(broker_id=BrokerId(1), broker_epoch=0, log_dirs=(D2,))  # type: ignore[call-arg]

    assert told(news, change) == [
        ("offline", "broker 1 is registered without broker-1/dir-1 (offset 5)")
    ]


def led(leader: int, epoch: int) -> MetadataBatch:
    change = LeaderChangeMessage(leader_id=leader, voters=(), granting_voters=())
    return replace(batch(), epoch=epoch, is_control=True, records=((5, change),))


def test_another_controller_that_leads_is_told_with_its_epoch() -> None:
    news = MetadataNews(PLACES)

    # Which one leads at first is no news.
    assert list(news.read(led(100, 1), 7, 1)) == []
    assert str(news.leader) == "controller-100 leads the metadata log in epoch 1"
    (event,) = news.read(led(102, 3), 7, 1)

    assert (event.kind, event.t_ns, event.err_ns) == ("controller", 7, 1)
    assert event.text == "controller-102 leads the metadata log in epoch 3 (offset 5)"
    assert event.data == {"controller": 102, "epoch": 3}


def test_a_broker_is_fenced_once() -> None:
    news = MetadataNews(PLACES)
    told(news, broker(1, D1))
    fence = BrokerRegistrationChangeRecord(broker_id=BrokerId(1), broker_epoch=0, fenced=1)  # type: ignore[call-arg]

    assert told(news, fence, fence) == [("fenced", "broker 1 is fenced (offset 5)")]


def test_leaders_and_isrs_are_told_as_they_change() -> None:
    news = MetadataNews(PLACES)
    assert [kind for kind, _ in told(news, *topic())] == ["leader", "isr"]

    shrunk = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC, isr=(BrokerId(2),), leader=BrokerId(2)
    )

    assert told(news, shrunk) == [
        ("leader", "orders-0 is led by broker 2 (offset 5)"),
        ("isr", "1 of 2 replicas of orders-0 are in sync (offset 5)"),
    ]
    assert told(news, PartitionChangeRecord(partition_id=0, topic_id=TOPIC)) == []


def test_eligible_leader_replicas_are_told_as_they_change_and_are_forgotten() -> None:
    news = MetadataNews(PLACES)
    told(news, *topic())
    lost = PartitionChangeRecord(
        partition_id=0,
        topic_id=TOPIC,
        eligible_leader_replicas=(BrokerId(1), BrokerId(2)),
        last_known_elr=(BrokerId(2),),
    )

    assert told(news, lost) == [
        ("elr", "orders-0: eligible leader replicas 1, 2, last known 2 (offset 5)")
    ]
    assert told(news, lost) == []
    assert told(news, ClearElrRecord(topic_name="another")) == []
    assert told(news, ClearElrRecord(topic_name="orders")) == [
        ("elr", "orders-0: eligible leader replicas none (offset 5)")
    ]


def view(leader: int, isr: tuple[int, ...] = (1, 2)) -> dict[TopicPartition, PartitionPicture]:
    return {ORDERS: PartitionPicture(leader=leader, replicas=(1, 2), isr=isr, offline=())}


def test_polled_answers_are_news_only_where_they_differ() -> None:
    news = PolledNews()
    list(news.partitions_are(view(1), 0, 0))

    assert list(news.partitions_are(view(1), 1, 0)) == []
    kinds = [event.kind for event in news.partitions_are(view(2, (2,)), 2, 0)]

    assert kinds == ["leader", "isr"]


def log_dir(path: str, error: str = "") -> DescribedLogDir:
    return log_dir_told(path=path, error=error, sizes={ORDERS: 10})


@pytest.mark.parametrize(
    "second", [[log_dir("/d/1"), log_dir("/d/2", "KAFKA_STORAGE_ERROR")], [log_dir("/d/1")]]
)
def test_a_directory_with_an_error_or_not_named_at_all_is_offline(
    second: list[DescribedLogDir],
) -> None:
    news, paths = PolledNews(), {"/d/1": 1, "/d/2": 2}
    both = [log_dir("/d/1"), log_dir("/d/2")]
    assert list(news.log_dirs_are(1, paths, both, 0, 0)) == []

    found = [(event.kind, event.place) for event in news.log_dirs_are(1, paths, second, 1, 0)]

    assert found == [("offline", Place(1, 2))]
    assert news.online == {Place(1, 1)}
    back = [(event.kind, event.place) for event in news.log_dirs_are(1, paths, both, 2, 0)]
    assert back == [("online", Place(1, 2))]


def test_a_broker_that_does_not_answer_is_told_once() -> None:
    news = PolledNews()
    list(news.log_dirs_are(1, {}, [], 0, 0))

    kinds = [
        [event.kind for event in news.log_dirs_are(1, {}, answer, 1, 0)]
        for answer in (None, None, [])
    ]

    assert kinds == [["silent"], [], ["answers"]]


def test_a_broker_that_serves_without_telling_of_its_directories_is_not_silent() -> None:
    news = PolledNews()
    list(news.log_dirs_are(1, {}, [], 0, 0))

    kinds = [
        [event.kind for event in news.log_dirs_are(1, {}, answer, 1, 0, serves=serves)]
        for answer, serves in ((None, True), (None, True), (None, False), ([], True))
    ]

    assert kinds == [["untold"], [], ["silent"], ["answers"]]


def ongoing(state: str = "Ongoing") -> OpenTransaction:
    return OpenTransaction(transactional_id="pay", producer_id=7, state=state)


def told_of_transactions(
    news: TransactionNews, *some: OpenTransaction, broker: int = 1, **offsets: tuple[int, int]
) -> list[str]:
    ends = {TopicPartition(name, 0): Offsets(*values) for name, values in offsets.items()}
    return [event.text for event in news.answered(broker, some, ends, 7, 1)]


def test_a_transaction_that_is_open_for_long_is_told_once_in_each_state() -> None:
    news = TransactionNews()

    assert told_of_transactions(news, ongoing()) == [
        "the transaction of pay is open for long: Ongoing"
    ]
    assert told_of_transactions(news, ongoing()) == []
    assert news.open == [ongoing()]
    assert told_of_transactions(news, ongoing("PrepareCommit")) == [
        "the transaction of pay is open for long: PrepareCommit"
    ]
    assert told_of_transactions(news) == ["the transaction of pay has ended"]
    assert news.open == []


def test_a_transaction_does_not_end_because_its_coordinator_moves() -> None:
    news = TransactionNews()
    told_of_transactions(news, ongoing(), broker=1)
    told_of_transactions(news, ongoing(), broker=2)

    assert told_of_transactions(news, broker=1) == []
    assert news.open == [ongoing()]


def test_a_last_stable_offset_stands_still_only_before_the_high_watermark() -> None:
    news = TransactionNews()

    assert told_of_transactions(news, orders=(5, 9), calm=(9, 9)) == []
    assert told_of_transactions(news, orders=(5, 12), calm=(9, 9)) == [
        "the last stable offset of orders-0 stands at 5, 7 before the high watermark"
    ]
    assert list(news.stuck) == [ORDERS]
    assert told_of_transactions(news, orders=(12, 12), calm=(9, 9)) == [
        "the last stable offset of orders-0 moves again"
    ]
    assert news.stuck == {}


def test_a_last_stable_offset_that_moves_does_not_stand() -> None:
    news = TransactionNews()
    told_of_transactions(news, orders=(5, 9))

    assert told_of_transactions(news, orders=(6, 12)) == []
