"""Leaders, replicas in sync, places and shortages by columns, against loops over the states."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from operator import itemgetter

import pytest
from hypothesis import strategies as st

from analytics.rare.broker_facts import BrokerFacts, BrokerState
from analytics.rare.bucket import BucketFold
from analytics.rare.table_rows import RowMaker
from analytics.rare.topic_records import TopicFold, lost_replicas
from jbodlab.metadata.image.partition_registration import PartitionRegistration
from jbodlab.vocabulary import directory_id as directory_ids
from jbodlab.vocabulary import kafka_uuid
from jbodlab.vocabulary.ids import DirectoryId
from tests.analytics.examples import examples
from tests.analytics.history_logs import BROKERS, RandomTopics, by_single_records, columns_of
from tests.analytics.test_partition_columns import ODDITIES

Row = dict[str, object]
FOR_EVER = 2**62


def brokers_of(randomness: random.Random, end: int) -> list[BrokerState]:
    """Registrations of brokers that are fenced, stop, lose directories, go and come back."""
    states = []
    for broker in BROKERS:
        cuts = sorted(randomness.sample(range(1, end), min(6, end - 1)))
        for start, stop in pairwise([0, *cuts, end]):
            kind = randomness.randrange(6)
            if kind == 0:
                continue
            directories = [broker << 100, broker << 100 | 1]
            if kind == 1:
                directories = directories[:1]
            states.append(
                BrokerState(
                    broker=broker,
                    from_offset=start,
                    to_offset=None if stop == end else stop,
                    fenced=kind == 2,
                    in_controlled_shutdown=kind == 3,
                    directories=frozenset(
                        number.to_bytes(16, "big") for number in directories if kind != 4
                    ),
                )
            )
    return states


def tables(log: RandomTopics, facts: BrokerFacts, cuts: list[int]) -> dict[str, list[Row]]:
    """What the columns give, as rows of tables."""
    fold = BucketFold(facts)
    maker = RowMaker(fold.topics)
    found: dict[str, list[Row]] = {}
    bounds = [0, *sorted(cuts), log.offset * 2 + 2]
    for low, high in pairwise(bounds):
        made = maker.ended(
            fold.step(
                columns_of([e for e in log.events if low <= e.position < high]),
                [one for one in log.topic_events() if low <= one.event.position < high],
                [sync for sync in log.syncs if low <= sync.position < high],
            )
        )
        for table, rows in made.items():
            found.setdefault(table.name, []).extend(rows.to_pylist())
        fold.since = high // 2
    for table, rows in maker.still(fold.open).items():
        found.setdefault(table.name, []).extend(rows.to_pylist())
    return found


class Lives:
    """States of partitions as the fold of single records gives them, life by life."""

    def __init__(self, log: RandomTopics) -> None:
        self.folds = by_single_records(log)

    def __iter__(self) -> Iterator[tuple[Row, list[Row], TopicFold]]:
        for topic_id, fold in self.folds.items():
            text = kafka_uuid.to_text(topic_id)
            changes = sorted(fold.changes, key=lambda c: c.partition)
            for partition, own in groupby(changes, key=lambda c: c.partition):
                life: list[Row] = []
                for change in own:
                    life.append(
                        {
                            "state": change.state,
                            "since": change.since,
                            "until": change.until,
                            "ended": change.ended,
                        }
                    )
                    if change.ended != "changed":
                        key = {"topic": change.topic, "topic_id": text, "partition": partition}
                        yield key, life, fold
                        life = []
                assert not life


def text(rows: list[Row], *names: str) -> list[str]:
    return sorted(str([row[name] for name in names]) for row in rows)


def until_offset(state: Row) -> int | None:
    until = state["until"]
    return None if until is None else until.offset  # type: ignore[attr-defined,no-any-return]


def random_case(seed: int, oddity: float) -> tuple[RandomTopics, BrokerFacts]:
    log = RandomTopics(random.Random(seed), oddity)
    log.run(50)
    return log, BrokerFacts(brokers_of(random.Random(seed), log.offset))


CASES = (
    st.integers(0, 2**32),
    st.sampled_from(ODDITIES),
    st.lists(st.integers(0, 200), max_size=2),
)


def batch_ends(log: RandomTopics) -> set[int]:
    return {event.batch_last_offset + 1 for event in log.events if not event.snapshot}


def cuts_between_batches(log: RandomTopics, cuts: list[int]) -> list[int]:
    """Steps end between batches; a snapshot at the border belongs to the later one."""
    return [2 * offset for offset in cuts if offset in batch_ends(log)]


@examples(15, 80, *CASES)
def test_leaders_and_placement(seed: int, oddity: float, cuts: list[int]) -> None:
    log, facts = random_case(seed, oddity)
    leaders: list[Row] = []
    places: list[Row] = []
    for key, life, _ in Lives(log):
        for leader, group in groupby(life, key=lambda s: s["state"].leader):  # type: ignore[attr-defined]
            own = list(group)
            leaders.append(
                key
                | {
                    "leader": leader,
                    "leader_epoch": own[0]["state"].leader_epoch,  # type: ignore[attr-defined]
                    "valid_from_offset": own[0]["since"].offset,  # type: ignore[attr-defined]
                    "record_type": own[0]["since"].record_type,  # type: ignore[attr-defined]
                    "valid_to_offset": until_offset(own[-1]),
                }
            )
        for broker in BROKERS:
            places += placed(key, life, broker)

    found = tables(log, facts, cuts_between_batches(log, cuts))

    names = ("topic", "topic_id", "partition", "leader", "leader_epoch", "valid_from_offset")
    names += ("record_type", "valid_to_offset")
    assert text(found["leadership"], *names) == text(leaders, *names)
    names = ("topic", "topic_id", "partition", "broker", "directory", "valid_from_offset")
    names += ("valid_to_offset", "ended_by")
    assert text(found["replica_placement"], *names) == text(places, *names)


def placed(key: Row, life: list[Row], broker: int) -> list[Row]:
    def place(one: Row) -> str | None:
        state = one["state"]
        assert isinstance(state, PartitionRegistration)
        if broker not in state.replicas:
            return None
        return kafka_uuid.to_text(state.directory(broker))  # type: ignore[arg-type]

    rows = []
    groups = [(where, list(group)) for where, group in groupby(life, key=place)]
    for index, (where, own) in enumerate(groups):
        if where is None:
            continue
        following = groups[index + 1] if index + 1 < len(groups) else None
        if following is None:
            ended = {"still": None, "deleted": "topic_deleted"}.get(
                str(own[-1]["ended"]), "snapshot"
            )
        elif following[1][0]["since"].record_type == "SNAPSHOT":  # type: ignore[attr-defined]
            ended = "snapshot"
        else:
            ended = "replica_removed" if following[0] is None else "moved"
        rows.append(
            key
            | {
                "broker": broker,
                "directory": where,
                "valid_from_offset": own[0]["since"].offset,  # type: ignore[attr-defined]
                "valid_to_offset": until_offset(own[-1]),
                "ended_by": ended,
            }
        )
    return rows


@examples(15, 80, *CASES)
def test_changes_of_the_isr(seed: int, oddity: float, cuts: list[int]) -> None:
    log, facts = random_case(seed, oddity)
    expected: list[Row] = []
    for key, life, _ in Lives(log):
        for one, two in pairwise(life):
            before, after = one["state"].isr, two["state"].isr  # type: ignore[attr-defined]
            joined = [b for b in after if b not in before]
            left = [b for b in before if b not in after]
            if not joined and not left:
                continue
            change = "replace" if joined and left else "expand" if joined else "shrink"
            expected.append(
                key
                | {
                    "offset": two["since"].offset,  # type: ignore[attr-defined]
                    "change": change,
                    "isr": list(after),
                    "previous_isr": list(before),
                    "joined": joined,
                    "left": left,
                }
            )

    found = tables(log, facts, cuts_between_batches(log, cuts))

    names = ("topic", "partition", "offset", "change", "isr", "previous_isr", "joined", "left")
    assert text(found.get("isr_changes", []), *names) == text(expected, *names)


@examples(15, 80, *CASES)
def test_shortages_and_their_causes(seed: int, oddity: float, cuts: list[int]) -> None:
    log, facts = random_case(seed, oddity)
    expected: list[Row] = []
    for key, life, fold in Lives(log):
        pieces = list(cut_by_min_isr(life, fold))
        for kind, is_short in SHORT.items():
            for short, group in groupby(pieces, key=is_short):
                own = list(group)
                if short and visible(own):
                    expected.append(key | {"kind": kind} | shortage(own, facts))

    found = tables(log, facts, cuts_between_batches(log, cuts))

    names = ("topic", "partition", "kind", "from_offset", "to_offset", "cause", "broker")
    names += ("directory",)
    assert text(found["outages"], *names) == text(expected, *names)


SHORT: dict[str, Callable[[Row], bool]] = {
    "leaderless": lambda piece: piece["state"].leader == -1,  # type: ignore[attr-defined]
    "under_min_isr": lambda piece: (
        len(piece["state"].isr)  # type: ignore[attr-defined]
        < min(piece["required"], len(piece["state"].replicas))  # type: ignore[attr-defined,type-var]
    ),
}


def cut_by_min_isr(life: list[Row], fold: TopicFold) -> Iterator[Row]:
    previous: PartitionRegistration | None = None
    for one in life:
        state, begin = one["state"], one["since"].offset  # type: ignore[attr-defined]
        assert isinstance(state, PartitionRegistration)
        end = until_offset(one)
        required = [v for v, since in fold.min_isr_values if since.offset <= begin][-1:] or [0]
        cuts = [
            (since.offset, value)
            for value, since in fold.min_isr_values
            if begin < since.offset < (FOR_EVER if end is None else end)
        ]
        lost = lost_replicas(previous, state)
        for (start, value), stop in zip(
            [(begin, required[0]), *cuts], [*(c[0] for c in cuts), end], strict=True
        ):
            yield {
                "state": state,
                "required": value,
                "from": start,
                "to": stop,
                "last": one["since"].batch_last_offset,  # type: ignore[attr-defined]
                "lost": lost if start == begin else (),
            }
        previous = state


def visible(pieces: list[Row]) -> bool:
    end = pieces[-1]["to"]
    return end is None or end > pieces[0]["last"]  # type: ignore[operator]


def shortage(pieces: list[Row], facts: BrokerFacts) -> Row:
    first = pieces[0]
    state, found = first["state"], []
    assert isinstance(state, PartitionRegistration)
    for broker in first["lost"]:  # type: ignore[attr-defined]
        directory = state.directory(broker) if broker in state.replicas else None
        found.append((*loss(facts, broker, directory, int(str(first["last"]))), broker))
    rank, directory, broker = min(found, key=itemgetter(0, 2), default=(3, None, None))
    return {
        "from_offset": first["from"],
        "to_offset": pieces[-1]["to"],
        "cause": ("directory", "broker", "unknown", "controller")[rank],
        "broker": broker,
        "directory": None if directory is None else kafka_uuid.to_text(directory),
    }


def loss(
    facts: BrokerFacts, broker: int, directory: DirectoryId | None, at: int
) -> tuple[int, DirectoryId | None]:
    for known in facts.states:
        end = FOR_EVER if known.to_offset is None else known.to_offset
        if known.broker != broker or not known.from_offset <= at < end:
            continue
        if known.fenced or known.in_controlled_shutdown:
            return 1, None
        ids = [DirectoryId(kafka_uuid.UUID(bytes=raw)) for raw in known.directories]
        if directory is not None and not directory_ids.is_online(directory, ids):
            return 0, directory
        return 2, None
    return 1, None


def test_the_loop_of_this_test_sees_every_kind_of_cause() -> None:
    seen = set()
    for seed in range(60):
        log, facts = random_case(seed, 0.0)
        found = tables(log, facts, [])
        seen |= {("outage", row["cause"]) for row in found["outages"]}
        seen |= {("leader", row["cause"]) for row in found["leadership"]}
        seen |= {("isr", row["cause"]) for row in found.get("isr_changes", [])}

    assert {cause for kind, cause in seen if kind == "outage"} == {
        "directory",
        "broker",
        "unknown",
        "controller",
    }
    leaders = {cause for kind, cause in seen if kind == "leader"}
    assert leaders >= {"created", "directory", "broker", "controlled_shutdown", "unregistered"}
    assert leaders >= {"reassignment", "preferred", "unclean", "recovered", "unknown"}


@pytest.mark.parametrize("broker", [None, 1])
def test_a_broker_that_no_record_names_is_gone(broker: int | None) -> None:
    states = [] if broker is None else [BrokerState(1, 5, None, True, False, frozenset())]
    facts = BrokerFacts(states)

    assert loss(facts, 1, None, 4) == (1, None)
