from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.metadata.records.topic_records import TopicRecord
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId, TopicId
from jbodlab.what_if.loss import Outcome, Rules, without_replica
from tests.analytics.builders import LogBuilder, partition_record, register, uid
from tests.analytics.commands import what_if
from tests.analytics.small_logs import TOPIC, broker_change, change, config

DIRECTORIES = {broker: (uid(broker * 10), uid(broker * 10 + 1)) for broker in (1, 2, 3)}
FIRST = [DIRECTORIES[broker][0] for broker in (1, 2, 3)]


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    log = LogBuilder(tmp_path / "meta")
    log.append(
        *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
        TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
        config("min.insync.replicas", "2"),
        partition_record(TOPIC, 0, directories=FIRST),
        partition_record(TOPIC, 1, directories=FIRST),
        partition_record(TOPIC, 2, replicas=(1,), directories=[DIRECTORIES[1][1]]),
        partition_record(TOPIC, 3, replicas=(2, 1), leader=2, directories=FIRST[1::-1]),
    )
    log.append(change(1, isr=(1, 2)), broker_change(3, fenced=1))
    return log


def ask(log: LogBuilder, *arguments: str) -> int:
    return what_if([*arguments, "--input", str(log.directory)])


def test_a_directory_loses_its_own_replicas_only(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "--fail-dir", kafka_uuid.to_text(FIRST[0])) == 2

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"If directory {kafka_uuid.to_text(FIRST[0])} of broker 1 failed, ")
    assert lines[1:] == [
        "  replicas there          3",
        "  without leader          0",
        "  last copies             0",
        "  below min ISR           2",
        "    orders-1  isr [1, 2] -> [2], min.insync.replicas 2",
        "    orders-3  isr [2, 1] -> [2], min.insync.replicas 2",
        "  led by another replica  2",
        "    orders-0  leader 1 -> 2",
        "    orders-1  leader 1 -> 2",
    ]


def test_a_broker_loses_all_of_its_directories(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "--fail-broker", "1") == 2

    said = capsys.readouterr().out
    assert "    orders-2  leader 1 -> none: it has no other replica" in said.splitlines()


def test_who_lacks_nothing_afterwards_gives_0(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(log, "--fail-dir", kafka_uuid.to_text(DIRECTORIES[2][1])) == 0
    assert "  replicas there          0" in capsys.readouterr().out


def test_no_stays_no_beside_a_condition_that_does_not_hold(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    condition = ("--fail-on", "leaderless > 100")

    assert ask(log, "--ok-to-remove", kafka_uuid.to_text(FIRST[0]), *condition) == 2
    assert ask(log, "--ok-to-remove", kafka_uuid.to_text(DIRECTORIES[2][1]), *condition) == 0
    assert "no" in capsys.readouterr().out


def test_a_count_of_pairs_is_0_where_no_pair_costs_anything(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "meta")
    log.append(*(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)))

    assert ask(log, "--fail-on", "pair.last_copies == 0") == 2
    assert ask(log, "--fail-on", "pair.last_copies > 0") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fail-broker", "9"], "broker 9 is unknown; known: 1, 2, 3"),
        (["--fail-dir", kafka_uuid.to_text(uid(99))], "is known to no broker"),
        (["--fail-dir", "x"], "expected a directory such as broker-3:/data2 or its id, got 'x'"),
        (["--fail-dir", "broker-9/1"], "broker 9 is unknown; known: 1, 2, 3"),
        (["--fail-dir", "broker-1/3"], "broker 1 has no log directory 3, it has 1: broker-1:"),
        (["--fail-dir", "broker-1/d"], "expected broker-1/2 or broker-1:/PATH, got 'broker-1/d'"),
    ],
)
def test_what_is_not_there_cannot_fail(
    log: LogBuilder, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert ask(log, *arguments) == 1
    assert message in capsys.readouterr().err


def test_a_directory_that_is_offline_already_cannot_fail(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(broker_change(1, log_dirs=(DirectoryId(FIRST[0]),)))

    assert ask(log, "--fail-dir", kafka_uuid.to_text(DIRECTORIES[1][1])) == 1
    assert "of broker 1 is offline already" in capsys.readouterr().err


def test_the_last_directory_takes_its_broker_with_it(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(broker_change(1, log_dirs=(DirectoryId(FIRST[0]),)))

    assert ask(log, "--fail-dir", kafka_uuid.to_text(FIRST[0])) == 2
    assert capsys.readouterr().out.startswith("If broker 1 failed, ")


def partition(**fields: object) -> PartitionRegistration:
    return PartitionRegistration.from_record(partition_record(TOPIC, **fields))  # type: ignore[arg-type]


def lost(state: PartitionRegistration, broker: int, alive: set[int], **rules: object) -> Outcome:
    known = {"min_isr": 1, "has_elr": False, "unclean_election": False} | rules
    return without_replica(
        state,
        BrokerId(broker),
        Rules(may_lead=lambda each: each in alive, **known),  # type: ignore[arg-type]
    )


def told(outcome: Outcome) -> tuple[int, tuple[int, ...], tuple[int, ...], bool]:
    return outcome.leader, outcome.isr, outcome.elr, outcome.is_unclean


def test_a_leader_that_stays_alive_keeps_leading() -> None:
    assert told(lost(partition(leader=2), 1, {2, 3})) == (2, (2, 3), (), False)


def test_the_first_replica_in_sync_that_lives_takes_over() -> None:
    state = partition(replicas=(1, 3, 2), isr=(1, 2, 3))
    assert told(lost(state, 1, {2, 3})) == (3, (2, 3), (), False)
    assert told(lost(state, 1, {2})) == (2, (2, 3), (), False)


def test_the_last_in_sync_stays_there_without_leading() -> None:
    state = partition(isr=(1,))
    assert told(lost(state, 1, {2, 3})) == (NO_LEADER, (1,), (), False)
    assert told(lost(state, 1, {2, 3}, has_elr=True)) == (NO_LEADER, (), (), False)


def test_an_unclean_election_takes_who_lives() -> None:
    assert told(lost(partition(isr=(1,)), 1, {3}, unclean_election=True)) == (3, (3,), (), True)


def test_a_lost_replica_is_not_eligible() -> None:
    outcome = lost(partition(isr=(1, 2)), 1, {2, 3}, min_isr=2, has_elr=True)
    assert told(outcome) == (2, (2,), (), False)


def test_an_eligible_replica_takes_over_from_the_last_in_sync() -> None:
    state = replace(partition(isr=(1,)), elr=(BrokerId(2), BrokerId(3)))
    assert told(lost(state, 1, {2, 3}, min_isr=2, has_elr=True)) == (2, (2,), (3,), False)
    assert told(lost(state, 1, {3}, min_isr=2, has_elr=True)) == (3, (3,), (2,), False)
    assert told(lost(state, 1, set(), min_isr=2, has_elr=True)) == (NO_LEADER, (), (2, 3), False)


def test_to_take_out_what_is_offline_already_loses_nothing_more(
    log: LogBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    log.append(
        broker_change(1, log_dirs=(DirectoryId(FIRST[0]),)),
        change(2, isr=(1,), leader=-1),
    )
    offline = kafka_uuid.to_text(DIRECTORIES[1][1])

    assert ask(log, "--ok-to-remove", offline) == 2
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"no: without {offline}, which is offline already, 1 partition would suffer",
        "  orders-2  no other replica has all of its records",
    ]

    log.append(partition_record(TOPIC, 2, replicas=(2,), leader=2, directories=[FIRST[1]]))
    assert ask(log, "--ok-to-remove", offline) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"yes: without {offline}, which is offline already, nothing more is lost"
    ]


def test_what_was_assumed_stands_below_yes_and_no(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogBuilder(tmp_path / "meta")
    log.append(
        *(register(broker, DIRECTORIES[broker]) for broker in (1, 2, 3)),
        TopicRecord(name="orders", topic_id=TopicId(TOPIC)),
        partition_record(TOPIC, 0, directories=FIRST),
    )
    assumed = "assumed: min.insync.replicas 1 (Kafka's default) for 1 topic that the log sets none"

    assert ask(log, "--ok-to-remove", kafka_uuid.to_text(FIRST[0])) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(assumed)

    log.append(change(0, isr=(1,)))
    assert ask(log, "--ok-to-remove", kafka_uuid.to_text(FIRST[0])) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith(assumed)
