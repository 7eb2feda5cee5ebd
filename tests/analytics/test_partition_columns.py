"""Following partitions by columns gives what following them record by record gives."""

from __future__ import annotations

import random
from itertools import pairwise
from operator import itemgetter

from hypothesis import strategies as st

from analytics.rare.broker_facts import BrokerFacts
from analytics.rare.bucket import BucketFold
from analytics.rare.states import STILL
from jbodlab.metadata.image.metadata_image import MetadataImage
from tests.analytics.examples import examples
from tests.analytics.history_logs import (
    RandomTopics,
    Row,
    by_single_records,
    columns_of,
    rows_of_changes,
    rows_of_states,
)

ODDITIES = (0.0, 0.0, 0.02, 0.2)


def random_log(seed: int, oddity: float) -> RandomTopics:
    log = RandomTopics(random.Random(seed), oddity)
    log.run(60)
    return log


def by_columns(log: RandomTopics, cuts: list[int]) -> tuple[list[Row], list[Row]]:
    """Return states, and rows of topics and problems."""
    fold = BucketFold(BrokerFacts([]))
    states: list[Row] = []
    rows: list[Row] = []
    bounds = [0, *sorted(cuts), log.offset * 2 + 2]
    for low, high in pairwise(bounds):
        inside = [event for event in log.events if low <= event.position < high]
        of_topics = [one for one in log.topic_events() if low <= one.event.position < high]
        syncs = [sync for sync in log.syncs if low <= sync.position < high]
        found = fold.step(columns_of(inside), of_topics, syncs)
        ended = found.states.take(found.states["to_offset"] != STILL)
        states += rows_of_states(ended, fold.topics)
        rows += map(renamed, found.rows)
        fold.since = high // 2
    states += rows_of_states(fold.open.states, fold.topics)
    rows += fold.finish()
    return states, rows


def renamed(row: Row) -> Row:
    """Problems of partitions are told apart, for a later run finds those of topics again."""
    if row["kind"] != "partition_problem":
        return row
    return {"kind": "problem", "problem": row["partition_problem"]}


def sorted_text(rows: list[Row]) -> list[str]:
    return sorted(str(sorted(row.items(), key=itemgetter(0))) for row in rows)


@examples(
    20,
    120,
    st.integers(0, 2**32),
    st.sampled_from(ODDITIES),
    st.lists(st.integers(0, 250), max_size=3),
)
def test_columns_and_single_records_agree(seed: int, oddity: float, cuts: list[int]) -> None:
    log = random_log(seed, oddity)
    folds = by_single_records(log)
    expected = [row for one, fold in folds.items() for row in rows_of_changes(one, fold.changes)]
    others = [row for fold in folds.values() for row in fold.history.rows]

    found, rows = by_columns(log, cuts)

    assert sorted_text(found) == sorted_text(expected)
    assert sorted_text(rows) == sorted_text(others)


@examples(15, 60, st.integers(0, 2**32), st.sampled_from(ODDITIES))
def test_the_states_at_every_offset_are_those_of_the_image(seed: int, oddity: float) -> None:
    log = random_log(seed, oddity)
    found, _ = by_columns(log, [])
    taken_over = {sync.offset for sync in log.syncs}

    for offset, image in log.images.items():
        if offset + 1 in taken_over:
            continue  # what the snapshot there says may be something else
        held = [
            row
            for row in found
            if row["from_offset"] <= offset  # type: ignore[operator]
            and (row["to_offset"] is None or row["to_offset"] > offset)  # type: ignore[operator]
        ]
        assert sorted(map(state_of_row, held)) == sorted(states_of_image(image)), offset


def state_of_row(row: Row) -> tuple[object, ...]:
    return (
        row["topic"],
        row["partition"],
        *(
            row[name]
            for name in ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")
        ),
        *(tuple(row[name]) for name in ("replicas", "isr", "adding_replicas", "elr")),  # type: ignore[arg-type]
        tuple(row["directories"]),  # type: ignore[arg-type]
    )


def states_of_image(image: MetadataImage) -> list[tuple[object, ...]]:
    return [
        (
            (topic.name, topic.topic_id.bytes),
            index,
            state.leader,
            state.leader_epoch,
            state.partition_epoch,
            state.leader_recovery_state,
            state.replicas,
            state.isr,
            state.adding_replicas,
            state.elr,
            tuple(one.bytes for one in state.directories),
        )
        for topic in image.topics.by_id.values()
        for index, state in topic.partitions.items()
    ]
