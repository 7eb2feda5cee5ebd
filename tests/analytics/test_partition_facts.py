"""Tables of random histories of topics, against the fold of single records and loops over it.

Most topics are plain, and SQL alone makes their tables; the oracle follows every topic one by one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, zip_longest
from operator import attrgetter, itemgetter
from typing import NamedTuple

import pytest

from analytics.rare.topic_records import Change, TopicFold
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import NO_LEADER, BrokerId, DirectoryId
from tests.analytics.history_logs import (
    RandomTopics,
    Row,
    by_single_records,
    random_topics,
    rows_of_changes,
    write,
)
from tests.analytics.image_tables import partitions_of, told
from tests.analytics.random_records import BROKERS, directories_of
from tests.analytics.small_logs import Rows, holds, picked, tables_of_logs

ODDITIES = (0.0, 0.0, 0.02, 0.2)
NAMES = ("partition_history", "leadership", "replica_placement", "isr_changes", "outages")


@dataclass(frozen=True, slots=True)
class Case:
    """A log, registrations of brokers that it does not hold, and its tables."""

    log: RandomTopics
    brokers: Sequence[Row]
    tables: Rows


@pytest.fixture(scope="module", params=[30, pytest.param(300, marks=pytest.mark.soak)])
def cases(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """Random logs, replayed as clusters of one run."""
    root = tmp_path_factory.mktemp("histories")
    logs, brokers, layouts = {}, {}, {}
    for seed in range(request.param):
        label = f"{seed:03}"
        log = random_topics(seed, ODDITIES[seed % len(ODDITIES)], 50)
        (root / label).mkdir()
        logs[label], layouts[label] = log, write(log, root / label)
        brokers[label] = list(brokers_of(random.Random(seed), log.offset))
    states = [{"cluster": label, **row} for label, rows in brokers.items() for row in rows]
    found = tables_of_logs([*NAMES, "problems"], layouts, broker_states=states)
    return [Case(logs[label], brokers[label], found[label]) for label in logs]


def brokers_of(randomness: random.Random, end: int) -> Iterator[Row]:
    """Registrations of brokers that are fenced, stop, lose directories, go and come back."""
    for broker in BROKERS:
        cuts = sorted(randomness.sample(range(1, end), min(6, end - 1)))
        for seq, (start, stop) in enumerate(pairwise([0, *cuts, end])):
            kind = randomness.randrange(6)
            if kind == 0:
                continue
            directories = directories_of(broker)[: {1: 1, 4: 0}.get(kind, 2)]
            yield {
                "broker": broker,
                "seq": seq,
                "valid_from_offset": start,
                "valid_to_offset": None if stop == end else stop,
                "fenced": kind == 2,
                "in_controlled_shutdown": kind == 3,
                "log_dirs": list(map(kafka_uuid.to_text, directories)),
            }


def lives(log: RandomTopics) -> Iterator[tuple[Row, list[Change], TopicFold]]:
    """Yield states of partitions as the fold of single records gives them, life by life."""
    for topic_id, fold in by_single_records(log).items():
        text = kafka_uuid.to_text(topic_id)
        changes = sorted(fold.changes, key=attrgetter("partition"))
        for partition, own in groupby(changes, key=attrgetter("partition")):
            life: list[Change] = []
            for change in own:
                life.append(change)
                if change.ended != "changed":
                    yield (
                        {"topic": change.topic, "topic_id": text, "partition": partition},
                        life,
                        fold,
                    )
                    life = []
            assert not life


def assert_equal(case: Case, table: str, expected: Sequence[Row]) -> None:
    """Compare rows of a table, whatever their order, by the columns that the expected ones have."""
    rows = list(expected)
    assert told(case.tables[table], rows) == told(rows, rows), table


def until_offset(change: Change) -> int | None:
    return None if change.until is None else change.until.offset


def leaders_and_placement(case: Case) -> None:
    leaders: list[Row] = []
    places: list[Row] = []
    for key, life, _ in lives(case.log):
        for leader, group in groupby(life, key=attrgetter("state.leader")):
            first, *_, last = [*group] * 2
            leaders.append(
                key
                | {
                    "leader": leader,
                    "leader_epoch": first.state.leader_epoch,
                    "valid_from_offset": first.since.offset,
                    "record_type": first.since.record_type,
                    "valid_to_offset": until_offset(last),
                }
            )
        for broker in map(BrokerId, BROKERS):
            places += (key | place for place in placed(life, broker))

    assert_equal(case, "leadership", leaders)
    assert_equal(case, "replica_placement", places)


def placed(life: list[Change], broker: BrokerId) -> Iterator[Row]:
    def place(one: Change) -> str | None:
        if broker not in one.state.replicas:
            return None
        return kafka_uuid.to_text(one.state.directory(broker))

    groups = [(where, list(group)) for where, group in groupby(life, key=place)]
    for (where, own), following in zip_longest(groups, groups[1:]):
        if where is None:
            continue
        if following is None:
            ended = {"still": None, "deleted": "topic_deleted"}.get(own[-1].ended, "snapshot")
        elif following[1][0].since.record_type == "SNAPSHOT":
            ended = "snapshot"
        else:
            ended = "replica_removed" if following[0] is None else "moved"
        yield {
            "broker": broker,
            "directory": where,
            "valid_from_offset": own[0].since.offset,
            "valid_to_offset": until_offset(own[-1]),
            "ended_by": ended,
        }


def changes_of_the_isr(case: Case) -> None:
    expected: list[Row] = []
    for key, life, _ in lives(case.log):
        for one, two in pairwise(life):
            before, after = one.state.isr, two.state.isr
            joined = [b for b in after if b not in before]
            left = [b for b in before if b not in after]
            if not joined and not left:
                continue
            change = "replace" if joined and left else "expand" if joined else "shrink"
            expected.append(
                key
                | {
                    "offset": two.since.offset,
                    "change": change,
                    "isr": list(after),
                    "previous_isr": list(before),
                    "joined": joined,
                    "left": left,
                }
            )

    assert_equal(case, "isr_changes", expected)


def shortages_and_their_causes(case: Case) -> None:
    expected: list[Row] = []
    for key, life, fold in lives(case.log):
        pieces = list(cut_by_min_isr(life, fold))
        for kind, is_short in SHORT.items():
            for short, group in groupby(pieces, key=is_short):
                first, *_, last = [*group] * 2
                if short and (last.end is None or last.end > first.batch_last):
                    found = shortage(first, case.brokers) | {"to_offset": last.end}
                    expected.append(key | {"kind": kind} | found)

    assert_equal(case, "outages", expected)


@pytest.mark.parametrize(
    "check", [leaders_and_placement, changes_of_the_isr, shortages_and_their_causes]
)
def test_tables_are_those_of_loops_over_the_fold(
    check: Callable[[Case], None], cases: list[Case]
) -> None:
    for case in cases:
        check(case)


class Piece(NamedTuple):
    """A state as long as the same number of replicas is required."""

    state: PartitionRegistration
    required: int
    start: int
    end: int | None
    batch_last: int
    lost: tuple[BrokerId, ...]
    """Replicas that the state lost at its begin."""


SHORT: dict[str, Callable[[Piece], bool]] = {
    "leaderless": lambda piece: piece.state.leader == NO_LEADER,
    "under_min_isr": lambda piece: (
        len(piece.state.isr) < min(piece.required, len(piece.state.replicas))
    ),
}


def cut_by_min_isr(life: list[Change], fold: TopicFold) -> Iterator[Piece]:
    previous: PartitionRegistration | None = None
    rows = [row for row in fold.history.rows if row["kind"] == "min_isr"]
    values: list[tuple[int, int]] = picked(rows, "valid_from_offset", "min_insync_replicas")  # type: ignore[assignment]
    for one in life:
        begin, end = one.since.offset, until_offset(one)
        cuts = {begin: 0} | {max(since, begin): value for since, value in values}
        starts = [at for at in cuts if at == begin or end is None or at < end]
        for start, stop in zip(starts, [*starts[1:], end], strict=True):
            lost = lost_replicas(previous, one.state) if start == begin else ()
            last = one.since.batch_last_offset
            yield Piece(one.state, cuts[start], start, stop, last, lost)
        previous = one.state


def shortage(first: Piece, brokers: Sequence[Row]) -> Row:
    found = []
    for broker in first.lost:
        is_replica = broker in first.state.replicas
        directory = first.state.directory(broker) if is_replica else None
        found.append((*loss(brokers, broker, directory, first.batch_last), broker))
    rank, directory, broker = min(found, key=itemgetter(0, 2), default=(3, None, None))
    return {
        "from_offset": first.start,
        "cause": ("directory", "broker", "unknown", "controller")[rank],
        "broker": broker,
        "directory": None if directory is None else kafka_uuid.to_text(directory),
    }


def lost_replicas(
    before: PartitionRegistration | None, after: PartitionRegistration
) -> tuple[BrokerId, ...]:
    """Return the brokers whose replicas a step took out of the ISR, or out of the leadership."""
    was_in_sync = after.replicas if before is None else before.isr
    lost = [each for each in was_in_sync if each not in after.isr and each in after.replicas]
    if after.leader == NO_LEADER and (before is None or before.leader != NO_LEADER):
        gone = after.isr if before is None else (before.leader,)
        lost += (each for each in gone if each not in lost)
    return tuple(lost)


def loss(
    brokers: Sequence[Row], broker: int, directory: DirectoryId | None, at: int
) -> tuple[int, DirectoryId | None]:
    for known in brokers:
        if known["broker"] != broker or not holds(known, at):
            continue
        if known["fenced"] or known["in_controlled_shutdown"]:
            return 1, None
        ids = [DirectoryId(kafka_uuid.parse(each)) for each in known["log_dirs"]]  # type: ignore[attr-defined]
        if directory is not None and not directory_ids.is_online(directory, ids):
            return 0, directory
        return 2, None
    return 1, None


def test_the_logs_have_every_kind_of_cause(cases: list[Case]) -> None:
    seen: dict[str, set[object]] = {}
    for case in cases:
        for name in ("outages", "leadership", "isr_changes"):
            seen.setdefault(name, set()).update(row["cause"] for row in case.tables[name])

    assert seen["outages"] == {"directory", "broker", "unknown", "controller"}
    assert seen["leadership"] >= {"created", "directory", "broker", "controlled_shutdown"}
    assert seen["leadership"] >= {"unregistered", "reassignment", "preferred", "unclean"}
    assert seen["leadership"] >= {"recovered", "unknown"}


def test_states_and_problems_are_those_of_the_fold(cases: list[Case]) -> None:
    for case in cases:
        folds = by_single_records(case.log)
        states = [row for one, fold in folds.items() for row in rows_of_changes(one, fold.changes)]
        assert_equal(case, "partition_history", states)
        problems = [
            row | {"kind": row["problem"]}
            for fold in folds.values()
            for row in fold.history.rows
            if row["kind"] == "problem"
        ]
        found = [row for row in case.tables["problems"] if "differs in the" not in str(row)]
        names = ("file", "offset", "kind", "message")
        assert sorted(map(str, picked(found, *names))) == sorted(
            map(str, picked(problems, *names))  # type: ignore[arg-type]
        )


def test_the_states_at_every_offset_are_those_of_the_image(cases: list[Case]) -> None:
    for case in cases:
        taken_over = {sync.offset for sync in case.log.syncs}
        for offset, image in case.log.images.items():
            if offset + 1 in taken_over:
                continue  # what the snapshot there says may be something else
            held = [row for row in case.tables["partition_history"] if holds(row, offset)]
            expected = partitions_of(image)
            assert told(held, expected) == told(expected, expected), offset
