"""State that the page shows of what was seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jbodlab.kafka_admin.log_dirs import DescribedLogDir
from jbodlab.picture.cluster_picture import BrokerPicture, PartitionPicture
from jbodlab.vocabulary.ids import TopicPartition
from lab.cluster.picture import place_of
from lab.cluster.questions import Offsets, OpenTransaction
from lab.ui import model
from lab.ui.model import Rates, Seen
from tests.lab.pictures import log_dir_told
from tests.lab.ui.faults import FAULT

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def dir_view(path: str, sizes: dict[TopicPartition, int], **more: Any) -> DescribedLogDir:
    return log_dir_told(path=path, error="", sizes=sizes, **more)


def broker(number: int, *views: DescribedLogDir) -> BrokerPicture:
    return BrokerPicture(
        broker_id=number,
        address=f"h:{number}",
        folder=Path(f"/b{number}"),
        paths={f"/b{number}/1": 1, f"/b{number}/2": 2},
        log_dirs=views,
    )


def partition(leader: int, *isr: int, replicas: tuple[int, ...] = (1, 2)) -> PartitionPicture:
    return PartitionPicture(leader=leader, replicas=replicas, isr=isr, offline=())


WHOLE = Seen(
    name="c",
    bootstrap="h:1",
    brokers=(
        broker(1, dir_view("/b1/1", {T0: 10}), dir_view("/b1/2", {T1: 20})),
        broker(2, dir_view("/b2/1", {T0: 10, T1: 20}), dir_view("/b2/2", {})),
    ),
    listed=frozenset({1, 2}),
    partitions={T0: partition(1, 1, 2), T1: partition(2, 1, 2)},
)


def wrong(seen: Seen) -> list[str]:
    return [f"{line['level']}: {line['text']}" for line in model.sections(seen)["problems"]]


def with_view(**partitions: PartitionPicture) -> Seen:
    found = {TopicPartition("t", int(name[1:])): view for name, view in partitions.items()}
    return replace(WHOLE, partitions=found)


def test_a_whole_cluster_has_nothing_wrong() -> None:
    found = model.sections(WHOLE)

    assert found["problems"] == found["moves"] == found["faults"] == []
    first = found["brokers"][0]
    assert (first["state"], first["leaders"]) == ("serves", 1)
    assert [one["state"] for one in first["log_dirs"]] == ["online", "online"]
    assert [one["leaders"] for one in first["log_dirs"]] == [1, 0]
    assert found["cluster"]["kinds"] == []
    assert found["cluster"]["leading_controller"] == ""
    led = model.sections(replace(WHOLE, leading_controller="controller-102 leads"))
    assert led["cluster"]["leading_controller"] == "controller-102 leads"


def test_eligible_leader_replicas_are_shown_in_the_row() -> None:
    seen = with_view(p0=replace(partition(-1), elr=(2,), last_known_elr=(1,)))

    (row,) = model.sections(seen)["partitions"]["shown"]
    assert (row["elr"], row["last_known_elr"]) == ([2], [1])


def test_kinds_of_faults_are_told_only_where_the_page_may_break() -> None:
    kinds = model.sections(replace(WHOLE, may_break=True))["cluster"]["kinds"]

    assert {"eio", "kill"} <= {kind["name"] for kind in kinds}


def test_faults_of_users_are_told_only_of_a_closed_cluster() -> None:
    def names(*, is_closed: bool) -> set[str]:
        seen = replace(WHOLE, may_break=True, is_closed=is_closed)
        return {kind["name"] for kind in model.sections(seen)["cluster"]["kinds"]}

    assert names(is_closed=True) - names(is_closed=False) == {
        *("certificate-expires", "certificate-replaced", "certificate-untrusted"),
        *("user-removed", "acl-removed"),
    }
    assert place_of(WHOLE, Path("/security")) == "cluster"


def test_a_directory_is_offline_by_its_error_or_when_its_broker_does_not_name_it() -> None:
    dead = log_dir_told(path="/b1/1", error="KAFKA_STORAGE_ERROR", sizes={}, cause="I/O error")

    assert wrong(replace(WHOLE, brokers=(broker(1, dead),)))[:2] == [
        "bad: broker-1/1 is offline: I/O error",
        "bad: broker-1/2 is offline",
    ]


def test_directories_of_a_silent_broker_are_unknown_not_offline() -> None:
    silent = replace(WHOLE.brokers[0], log_dirs=None)
    seen = replace(WHOLE, brokers=(silent, WHOLE.brokers[1]))

    (first, _) = model.sections(seen)["brokers"]
    assert first["state"] == "SILENT"
    assert [one["state"] for one in first["log_dirs"]] == ["unknown", "unknown"]
    assert wrong(seen) == ["bad: broker-1 does not answer"]


def test_directories_that_a_serving_broker_does_not_tell_of_are_unknown() -> None:
    untold = replace(WHOLE.brokers[0], log_dirs=None, serves=True)
    seen = replace(WHOLE, brokers=(untold, WHOLE.brokers[1]))

    (first, _) = model.sections(seen)["brokers"]
    assert first["state"] == "serves"
    assert [one["state"] for one in first["log_dirs"]] == ["unknown", "unknown"]
    assert wrong(seen) == ["warn: broker-1 does not report its log directories"]


def test_a_broker_that_answers_but_is_not_named_by_others_is_fenced() -> None:
    assert wrong(replace(WHOLE, listed=frozenset({2}))) == [
        "bad: broker-1 is fenced: the controller gets no heartbeats from it"
    ]


def test_conditions_shortages_and_faults_are_told() -> None:
    full = dir_view("/b1/1", {T0: 10}, conditions=("FULL",))
    seen = replace(
        with_view(p0=partition(-1), p1=partition(2, 2)),
        brokers=(broker(1, full, dir_view("/b1/2", {})), WHOLE.brokers[1]),
        faults=(FAULT,),
    )

    assert wrong(seen) == [
        "fault: open fault 7: eio on broker-1/2",
        "warn: broker-1/1 is FULL",
        "bad: partitions without a leader: 1 (t-0)",
        "warn: under-replicated partitions: 1 (t-1)",
    ]
    (fault,) = model.sections(seen)["faults"]
    assert (fault["where"], fault["until_ms"]) == ("broker-1/2", 30_000)
    assert model.sections(seen)["brokers"][0]["log_dirs"][1]["faults"] == ["eio"]


def test_open_transactions_are_listed_and_a_last_stable_offset_that_stands_is_a_problem() -> None:
    seen = replace(
        WHOLE,
        open_transactions=(
            OpenTransaction(transactional_id="pay", producer_id=7, state="Ongoing"),
        ),
        stuck={T0: Offsets(5, 12)},
    )

    assert wrong(seen) == ["warn: last stable offsets that stand still: 1 (t-0)"]
    assert model.sections(seen)["transactions"] == {
        "open": [{"id": "pay", "producer": 7, "state": "Ongoing"}],
        "stuck": [{"partition": "t-0", "offset": 5, "behind": 7}],
    }
    assert model.sections(WHOLE)["transactions"] == {"open": [], "stuck": []}


def test_partitions_in_trouble_come_first_and_the_rest_is_counted() -> None:
    many = {f"p{number}": partition(1, 1, 2) for number in range(300)}
    many["p299"] = partition(-1)

    found = model.sections(with_view(**many))["partitions"]

    assert found["count"] == 300
    assert len(found["shown"]) == model.PARTITIONS_SHOWN
    assert found["shown"][0]["partition"] == 299


def test_a_move_tells_both_directories_and_how_far_it_is() -> None:
    moving = broker(1, dir_view("/b1/1", {T0: 10}), dir_view("/b1/2", {}, futures={T0: 4}))

    assert model.sections(replace(WHOLE, brokers=(moving,)))["moves"] == [
        {"partition": "t-0", "broker": 1, "from": 1, "to": 2, "bytes": 4, "of": 10}
    ]


@pytest.mark.parametrize(
    ("place", "expected"),
    [((1, 1), [T0]), ((1, 2), []), ((1, None), [T0]), ((2, 1), []), ((2, None), [])],
)
def test_the_last_replica_in_sync_is_found(
    place: tuple[int, int | None], expected: list[TopicPartition]
) -> None:
    seen = with_view(p0=partition(1, 1), p1=partition(2, 1, 2))

    assert seen.last_in_sync(*place) == expected


def test_rates_count_growth_by_its_cause_and_never_what_is_deleted() -> None:
    rates = Rates(kept=2, over=1)
    later = replace(
        WHOLE,
        brokers=(
            broker(1, dir_view("/b1/1", {T0: 30}), dir_view("/b1/2", {T1: 0}, futures={T0: 6})),
            broker(2, dir_view("/b2/1", {T0: 20, T1: 20})),
        ),
    )

    rates.look(model.sizes(WHOLE), 1.0)
    rates.look(model.sizes(later), 3.0)
    assert rates.to_json(2.0)["points"] == [[10, 5, 3]]

    for second in (4.0, 5.0, 6.0):
        rates.look(model.sizes(later), second)
    assert rates.to_json(2.0)["points"] == [[0, 0, 0], [0, 0, 0]]


def test_a_rate_is_even_where_a_broker_answers_every_other_look() -> None:
    rates = Rates(over=4)
    for look in range(9):
        size = 20 * (look // 2)
        seen = replace(WHOLE, brokers=(broker(1, dir_view("/b1/1", {T0: size})),))
        rates.look(model.sizes(seen), float(look))

    assert [written for written, *_ in rates.to_json(1.0)["points"][3:]] == [10] * 5
