from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from jbodlab.metadata.records.cluster_records import UnregisterBrokerRecord
from jbodlab.metadata.records.config_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    NoOpRecord,
)
from jbodlab.metadata.records.topic_records import (
    PartitionChangeRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import BrokerEpoch, BrokerId, DirectoryId, TopicId
from tests.analytics.builders import (
    START_MS,
    LogBuilder,
    RandomHistory,
    partition_record,
    register,
    uid,
)
from tests.analytics.commands import why as main
from tests.analytics.small_logs import TOPIC, broker_change, change, config

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2)]
LOST = kafka_uuid.to_text(DIRECTORIES[2][0])


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Broker 2 led orders-events-0 until its directory failed; then broker 1 was fenced."""
    log = LogBuilder(tmp_path / "meta")
    log.append(  # 0 to 4, at second 1
        register(1, DIRECTORIES[1]),
        register(2, DIRECTORIES[2]),
        TopicRecord(name="orders-events", topic_id=TopicId(TOPIC)),
        config("min.insync.replicas", "2", resource="orders-events"),
        partition_record(TOPIC, replicas=(2, 1), leader=2, directories=FIRST[::-1]),
    )
    log.append(NoOpRecord())  # 5, second 2
    log.append(  # 6, 7, second 3
        change(isr=(1,), leader=1),
        broker_change(2, log_dirs=(DirectoryId(DIRECTORIES[2][1]),)),
    )
    log.append(change(leader=-1), broker_change(1, fenced=1))  # 8, 9, second 4
    log.append(NoOpRecord())  # 10
    return log


def ask(log: LogBuilder, *arguments: str) -> int:
    return main([*arguments, "--input", str(log.directory)])


def test_a_leaderless_partition_is_told_with_the_chain_that_led_there(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "partition", "orders-events-0") == 0

    topic, one, lost = (kafka_uuid.to_text(each) for each in (TOPIC, *FIRST))
    assert capsys.readouterr().out.splitlines() == [
        f"orders-events-0, at the end of the log (offset 10, 2023-11-14 22:13:25.000Z), "
        f"topic id {topic}",
        "  state     leaderless since offset 8 2023-11-14 22:13:24.000Z, under "
        "min.insync.replicas since offset 6 2023-11-14 22:13:23.000Z, a replica is offline",
        "  leader    none since offset 8 2023-11-14 22:13:24.000Z, leader epoch 2",
        f"  replica   2 in {lost}: out of the ISR since offset 6 2023-11-14 22:13:23.000Z, "
        "directory offline, because of offset 7",
        f"  replica   1 in {one}: in sync, broker fenced, because of offset 9",
        "  isr       [1], min.insync.replicas 2",
        "Chain",
        f"  offset 4  2023-11-14 22:13:21.000Z  PARTITION_RECORD  leader=2 replicas=[2, 1] "
        f"isr=[2, 1] directories=[{lost}, {one}]",
        "  offset 6  2023-11-14 22:13:23.000Z  PARTITION_CHANGE_RECORD  leader=1 (was 2) "
        "isr=[1]; replica 2 lost by offset 7",
        "  offset 7  2023-11-14 22:13:23.000Z  BROKER_REGISTRATION_CHANGE_RECORD  broker=2 "
        f"directory {lost} went offline",
        "  offset 8  2023-11-14 22:13:24.000Z  PARTITION_CHANGE_RECORD  leader=-1 (was 1); "
        "replica 1 lost by offset 9",
        "  offset 9  2023-11-14 22:13:24.000Z  BROKER_REGISTRATION_CHANGE_RECORD  broker=1 "
        "unfenced -> fenced",
        "Next",
        f"  repair or replace directory {lost} of broker 2 and restart the broker",
        "  start broker 1, or see in its log why it sends no heartbeats",
    ]


def test_the_answer_as_json_has_the_values_that_the_text_is_made_of(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "partition", "orders-events-0", "--output", "json") == 0

    said = json.loads(capsys.readouterr().out)
    topic, one, lost = (kafka_uuid.to_text(each) for each in (TOPIC, *FIRST))

    def event(offset: int, second: int, kind: str) -> dict[str, object]:
        return {"offset": offset, "time": f"2023-11-14T22:13:2{second}.000Z", "type": kind}

    change, broker = "PARTITION_CHANGE_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"
    moved, led_by_none = event(6, 3, change), event(8, 4, change)
    directory_lost, fenced = event(7, 3, broker), event(9, 4, broker)
    links = said.pop("chain")
    assert [{**link, "text": ""} for link in links[1:]] == [
        {**one, "text": ""} for one in (moved, directory_lost, led_by_none, fenced)
    ]
    assert links[-1]["text"] == "broker=1 unfenced -> fenced"
    assert said == {
        "kind": "partition",
        "name": "orders-events-0",
        "topic_id": topic,
        "moment": {"offset": 10, "time": "2023-11-14T22:13:25.000Z", "is_end": True},
        "earlier_topics": [],
        "deleted": None,
        "conditions": [
            {"condition": "leaderless", "since": led_by_none},
            {"condition": "under min.insync.replicas", "since": moved},
            {"condition": "a replica is offline", "since": None},
        ],
        "leader": {"broker": None, "leader_epoch": 2, "since": led_by_none},
        "replicas": [
            {
                "broker": 2,
                "directory": lost,
                "leads": False,
                "in_sync": False,
                "out_of_isr_since": moved,
                "broker_state": "unfenced",
                "directory_state": "offline",
                "unassigned_since": None,
                "caused_by": directory_lost,
            },
            {
                "broker": 1,
                "directory": one,
                "leads": False,
                "in_sync": True,
                "out_of_isr_since": None,
                "broker_state": "fenced",
                "directory_state": "online",
                "unassigned_since": None,
                "caused_by": fenced,
            },
        ],
        "isr": [1],
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "adding_replicas": [],
        "removing_replicas": [],
        "min_insync_replicas": 2,
        "min_insync_replicas_assumed_from": None,
        "next": [
            f"repair or replace directory {lost} of broker 2 and restart the broker",
            "start broker 1, or see in its log why it sends no heartbeats",
        ],
        "problems": [],
    }


def test_a_broker_and_a_directory_as_json(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "broker", "1", "--output", "json") == 0
    of_broker = json.loads(capsys.readouterr().out)
    assert ask(log, "directory", LOST, "--output", "json") == 0
    of_directory = json.loads(capsys.readouterr().out)

    assert (of_broker["state"], of_broker["since"]["offset"]) == ("fenced", 9)
    assert [each["state"] for each in of_broker["directories"]] == ["online", "online"]
    assert of_broker["replicas"]["leaderless"] == ["orders-events-0"]
    (owner,) = of_directory["brokers"]
    assert (owner["broker"], owner["directory_state"], owner["state"]) == (2, "offline", "unfenced")
    assert owner["directory_since"]["offset"] == 7
    assert of_directory["replicas"] == ["orders-events-0"]
    assert of_directory["chain"][-1]["offset"] == 7


@pytest.mark.parametrize(
    "moment",
    ["7", "2023-11-14T22:13:23.500Z", "2023-11-14T22:13:23.500", str(START_MS + 3500)],
)
def test_a_moment_is_an_offset_or_a_time(
    log: LogBuilder, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    assert ask(log, "partition", "orders-events-0", "--at", moment) == 0

    said = capsys.readouterr().out
    assert "at offset 7, " in said
    assert "  leader    1 since offset 6 " in said
    assert "leaderless" not in said


def test_a_directory_is_told_with_what_it_holds(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "directory", LOST) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1:6] == [
        "  state     offline since offset 7 2023-11-14 22:13:23.000Z",
        "  broker    2, unfenced since offset 1 2023-11-14 22:13:21.000Z",
        "  replicas  1 placed there, 0 of them lead",
        "  out       1 not in sync: orders-events-0",
        "  leaderless 1: orders-events-0",
    ]
    assert lines[-3].startswith("  offset 7 ")
    assert lines[-2:] == [
        "Next",
        f"  repair or replace directory {LOST} of broker 2 and restart the broker",
    ]


def test_a_broker_is_told_with_its_directories(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "broker", "1") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "  state     fenced since offset 9 2023-11-14 22:13:24.000Z"
    assert lines[-3].endswith("broker=1 unfenced -> fenced")
    assert lines[-1] == "  start broker 1, or see in its log why it sends no heartbeats"


def test_an_unassigned_replica_is_told_since_its_creation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBuilder(tmp_path / "meta")
    log.append(
        register(1, DIRECTORIES[1]),
        TopicRecord(name="t", topic_id=TopicId(TOPIC)),
        partition_record(TOPIC, replicas=(1,), directories=[directory_ids.UNASSIGNED]),
    )

    assert ask(log, "partition", "t-0") == 0

    said = capsys.readouterr().out
    assert "1 in UNASSIGNED: leads, in sync, no directory assigned since offset 2 " in said


def test_a_topic_of_the_same_name_is_another_one(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(RemoveTopicRecord(topic_id=TopicId(TOPIC)))  # 11
    assert ask(log, "partition", "orders-events-0") == 0
    assert "  state     deleted with its topic, offset 11 " in capsys.readouterr().out

    again = uid(2)
    log.append(  # 12, 13
        TopicRecord(name="orders-events", topic_id=TopicId(again)),
        partition_record(again, replicas=(2,), leader=2, directories=[DIRECTORIES[2][1]]),
    )
    assert ask(log, "partition", "orders-events-0") == 0

    said = capsys.readouterr().out
    assert f"topic id {kafka_uuid.to_text(again)}" in said
    assert f"  before    topic id {kafka_uuid.to_text(TOPIC)}, created offset 2 " in said
    assert "  state     healthy" in said
    assert ask(log, "partition", "orders-events-0", "--at", "10") == 0
    assert "leaderless since offset 8" in capsys.readouterr().out


def test_what_an_aborted_transaction_held_is_not_told(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(BeginTransactionRecord(name="x"), change(leader=1), broker_change(1, fenced=-1))
    log.append(AbortTransactionRecord(reason="y"))

    assert ask(log, "partition", "orders-events-0") == 0
    assert "leaderless since offset 8" in capsys.readouterr().out


def test_a_log_that_begins_at_a_snapshot_is_told_from_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBuilder(tmp_path / "meta", segment_bytes=2048)
    RandomHistory(log, seed=3).run(60)
    log.snapshot()
    base = log.log.end_offset
    topic = next(iter(log.loader.image.topics.by_id.values()))
    index = next(iter(topic.partitions))
    name = f"{topic.name}-{index}"
    log.append(NoOpRecord())
    log.append(
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=BrokerId(-1))
    )
    first, *_ = sorted(log.directory.glob("*.log"))
    first.unlink()

    assert ask(log, "partition", name) == 0
    assert f"leader    none since offset {base + 1} " in capsys.readouterr().out
    assert ask(log, "partition", name, "--at", str(base)) == 0
    assert f"offset {base - 1} " in capsys.readouterr().out
    assert ask(log, "partition", name, "--at", str(base - 2)) == 1
    assert f"outside of the log, {base - 1} to {base + 1}" in capsys.readouterr().err
    for path in log.directory.glob("*.log"):
        path.unlink()
    assert ask(log, "partition", name) == 0

    said = capsys.readouterr().out
    assert f"offset {base - 1}" in said
    assert "SNAPSHOT  leader=" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["partition", "nowhere-0"], "topic 'nowhere' does not exist, and did not before"),
        (["partition", "orders-events-7"], "topic 'orders-events' has no partition 7"),
        (["partition", "orders"], "expected a partition such as topic-0, got 'orders'"),
        (["directory", "x"], "expected the id of a directory, got 'x'"),
        (["directory", "AAAAAAAAAAAAAAAAAAAAAQ"], "reserved id UNASSIGNED"),
        (["directory", kafka_uuid.to_text(uid(77))], "known to no broker and to no partition"),
        (["broker", "9"], "broker 9 was never registered"),
        (["broker", "x"], "expected the id of a broker, got 'x'"),
        (["broker", "1", "--at", "11"], "offset 11 is outside of the log, 0 to 10"),
        (["broker", "1", "--at", "2001-01-01"], "is outside of the log, 2023-11-14 22:13:21"),
        (["broker", "1", "--at", "2031-01-01"], "is outside of the log, 2023-11-14 22:13:21"),
        (["broker", "1", "--at", "soon"], "'soon' is neither an offset nor a time"),
    ],
)
def test_what_cannot_be_answered_is_said_on_one_line(
    log: LogBuilder, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert ask(log, *arguments) == 1

    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("jbodlab: ")
    assert message in line


def test_a_damaged_log_is_answered_from_what_is_whole(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(UnregisterBrokerRecord(broker_id=BrokerId(1), broker_epoch=BrokerEpoch(0)))
    log.close()
    (path,) = log.directory.glob("*.log")
    path.write_bytes(path.read_bytes()[:-5])

    assert ask(log, "broker", "1") == 0

    said = capsys.readouterr()
    assert "fenced since offset 9" in said.out
    assert said.err.startswith("jbodlab: the log has problems: ")


def test_what_reports_name_as_the_log_answers_also_archives_and_copies(
    log: LogBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    assert ask(log, "broker", "1") == 0
    expected = capsys.readouterr().out
    (segment,) = log.directory.glob("*.log")
    packed, zipped = tmp_path / "a.tar.gz", tmp_path / "b.zip"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(segment, f"n1/__cluster_metadata-0/{segment.name}")
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr(segment.name, segment.read_bytes()[:-5])

    for named in (
        [str(packed)],
        [f"{packed}!n1/__cluster_metadata-0"],
        [f"{zipped}!", str(packed)],
    ):
        arguments = [argument for one in named for argument in ("--input", one)]
        assert main(["broker", "1", *arguments]) == 0
        assert capsys.readouterr() == (expected, "")
    assert main(["broker", "1", "--input", f"{packed}!n2"]) == 1
    assert capsys.readouterr().err == f"jbodlab: input {packed}!n2 holds no metadata log\n"


def test_logs_of_several_clusters_are_not_taken_for_one(
    log: LogBuilder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.close()
    other = LogBuilder(tmp_path / "other")
    other.append(NoOpRecord())
    other.close()
    for one, name in ((log, "A"), (other, "B")):
        (one.root / "meta.properties").write_text(f"cluster.id={name}\n")

    assert main(["broker", "1", "--input", str(log.root), "--input", str(other.root)]) == 1
    assert "hold logs of 2 clusters" in capsys.readouterr().err
