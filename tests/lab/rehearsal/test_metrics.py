"""The value of each metric, from events and messages with known answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbodlab.picture.places import Place
from jbodlab.vocabulary.expressions import MetricName
from jbodlab.vocabulary.ids import TopicPartition
from lab.rehearsal.facts import CommandFacts, Facts, Outcome, Probe, ReaderFacts, Received
from lab.rehearsal.metrics import NEVER, Measured
from lab.watch.events import Clock, Sample, join
from tests.lab.rehearsal.runs import (
    HIT,
    P0,
    event,
    facts,
    fault,
    isr,
    leader,
    ns,
    sent,
    steady,
    transaction,
    writer,
)


def value(found: Facts, name: str) -> float | None:
    owner, _, field = name.rpartition(".")
    field, _, argument = field.partition("(")
    return Measured(found)(MetricName(owner, field, argument.removesuffix(")")))


HOLE = [*steady(0, 1), sent(1.0, 2.5), *steady(5.0, 6)]


def test_a_gap_is_the_longest_stretch_between_two_acknowledgements_of_a_hit_partition() -> None:
    calm = steady(0, 6, partition=1)
    found = facts([*HOLE, *calm], faults=[fault(0.95, 2)])

    # From 0.901 to 2.5; the longer one, from 2.5 to 5.001, begins after the healing.
    assert value(found, "first.gap") == pytest.approx(1.599)
    assert value(found, "all.gap") == pytest.approx(2.501)
    assert value(found, "writers.gap") == pytest.approx(2.501)


def test_a_gap_outside_of_a_fault_is_not_its_own() -> None:
    found = facts(HOLE, faults=[fault(5.2, 5.8)])

    assert value(found, "first.gap") == pytest.approx(0.1)


def gap(found: Facts, owner: str) -> str:
    return str(Measured(found).gap(MetricName(owner, "gap")))


def test_a_gap_without_an_acknowledgement_until_the_end_lasts_until_the_end() -> None:
    found = facts([*steady(0, 1), sent(5.0), sent(7.0)], faults=[fault(1, None)])

    assert value(found, "first.gap") == pytest.approx(10 - 0.901)
    assert gap(found, "first") == "9.1 s in orders-0, not ended"


def test_a_message_that_was_handed_over_and_has_no_answer_yet_keeps_a_gap_open() -> None:
    messages = writer(steady(0, 1), last_due={0: ns(9)})
    found = facts(writers={"writers": messages}, faults=[fault(1, None)])

    assert gap(found, "all") == "9.1 s in orders-0, not ended"


def test_an_acknowledgement_after_the_end_does_not_end_a_gap() -> None:
    found = facts([*steady(0, 1), sent(2.0, 11.0)], faults=[fault(1, None)])

    assert gap(found, "first") == "9.1 s in orders-0, not ended"


def test_a_gap_that_ended_while_nothing_more_was_due_is_closed() -> None:
    found = facts([*steady(0, 1), sent(2.0, 3.0)], faults=[fault(1, None)])

    assert gap(found, "first") == "2.1 s in orders-0"


def test_a_gap_counts_from_the_last_acknowledgement_before_the_run() -> None:
    messages = writer([sent(2.1, 4.0)], earlier=[sent(1.4, 1.5)])
    found = facts(writers={"writers": messages}, faults=[fault(2.05, 5)], begin_ns=ns(2))

    assert value(found, "first.gap") == pytest.approx(2.5)


def test_of_all_partitions_the_one_with_the_longest_gap_is_named() -> None:
    found = facts([*steady(0, 10), sent(0, 1, partition=1), sent(1, 4, partition=1)])

    assert gap(found, "all") == "3 s in orders-1"


def test_a_partition_without_any_acknowledgement_is_one_gap() -> None:
    found = facts([sent(1), sent(2)], faults=[fault(0.5, None)])

    assert value(found, "first.gap") == pytest.approx(9)


def test_a_client_that_is_held_up_hides_nothing() -> None:
    """Coordinated omission: the messages that were due meanwhile were late, all of them."""
    held_up = [*steady(0, 1), *[sent(1 + n / 10, 2.0, late=1 - n / 10) for n in range(10)]]
    found = facts(held_up)

    assert value(found, "writers.max") == pytest.approx(1.0)
    assert value(found, "writers.availability(500ms)") == pytest.approx(15 / 20)
    assert value(found, "writers.windows(500ms)") == pytest.approx(2 / 3)


def test_latencies_inside_and_outside_of_faults_are_told_apart() -> None:
    messages = [sent(0.5, 0.51), sent(1.5, 2.0), sent(3.5, 3.51)]
    found = facts(messages, faults=[fault(1, 3)])

    assert value(found, "writers.max(inside)") == pytest.approx(0.5)
    assert value(found, "writers.max(outside)") == pytest.approx(0.01)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    found = facts([sent(0.1 * n, 0.1 * n + n / 1000) for n in range(1, 101)], end_ns=ns(20))

    assert value(found, "writers.p50") == pytest.approx(0.050)
    assert value(found, "writers.p99") == pytest.approx(0.099)


def test_fewer_than_ten_samples_have_no_percentile() -> None:
    assert value(facts(steady(0, 0.9)), "writers.p50") is None
    assert value(facts(steady(0, 1)), "writers.p50") == pytest.approx(0.001)


def test_messages_are_counted_by_what_became_of_them() -> None:
    errors = {-192: "_MSG_TIMED_OUT", 19: "NOT_ENOUGH_REPLICAS"}
    messages = [sent(0, 0.1), sent(1, 2, error=-192), sent(2, 3, error=19), sent(3)]
    found = facts(writers={"writers": writer(messages, due=8, errors=errors)})

    assert value(found, "writers.availability(1s)") == pytest.approx(1 / 8)
    wanted = {"sent": 4, "acked": 1, "errors": 2, "unknown": 2, "behind": 0.5}
    assert {name: value(found, f"writers.{name}") for name in wanted} == wanted


@pytest.mark.parametrize(
    ("events", "detected"),
    [
        ([event(1.2, "broker", "offline", place=HIT)], 0.2),
        # The broker's own line is surer than a poll, even where it comes later.
        (
            [
                event(1.15, "metric", "offline", place=HIT),
                event(1.2, "broker", "offline", place=HIT),
            ],
            0.2,
        ),
        ([event(1.4, "metric", "offline", place=HIT)], 0.4),
        ([event(1.2, "broker", "offline", place=Place(1, 2))], NEVER),
        ([event(0.2, "broker", "offline", place=HIT)], NEVER),
        ([], NEVER),
    ],
)
def test_a_fault_is_detected_when_its_broker_says_so(events: list, detected: float) -> None:
    found = facts(None, *events, faults=[fault()])

    assert value(found, "first.detected") == pytest.approx(detected)


def test_time_counts_from_the_first_broken_where_it_is_known() -> None:
    offline = event(2.0, "broker", "offline", place=HIT)
    found = facts(None, offline, faults=[fault(1, first_broken_ns=ns(1.75))])

    assert value(found, "first.detected") == pytest.approx(0.25)


def test_a_broker_is_detected_when_the_controller_fences_it() -> None:
    silent = event(1.1, "metric", "silent", place=Place(1))
    fenced = event(4, "metadata", "fenced", place=Place(1))
    found = facts(None, silent, fenced, faults=[fault(places=(Place(1),))])

    assert value(found, "first.detected") == pytest.approx(3)
    missing = {"elected": "not to be read"}
    assert value(replace(found, not_measured=missing), "first.detected") == pytest.approx(0.1)


def test_an_election_is_over_when_the_last_partition_has_another_leader() -> None:
    news = [leader(0.5, 1), leader(1.3, -1), leader(1.4, 2), leader(2.5, 1)]
    found = facts(None, *news, faults=[fault()])

    assert value(found, "first.elected") == pytest.approx(0.4)


def test_where_nothing_was_led_nothing_is_elected() -> None:
    assert value(facts(None, faults=[fault(led=())]), "first.elected") is None


def test_the_first_acknowledgement_is_one_of_the_new_leader() -> None:
    messages = [sent(0.9, 1.2), sent(1.1, 1.9), sent(1.2, 2.4)]
    found = facts(messages, leader(1.4, 2), faults=[fault()])

    assert value(found, "first.first_ack") == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("news", "back"),
    [
        ([isr(0.5, 3), isr(1.5, 2), isr(4.5, 3)], 1.5),
        ([isr(0.5, 3)], 0),
        ([isr(0.5, 3), isr(1.5, 2)], NEVER),
        ([isr(0.5, 3), isr(1.5, 2), isr(2.0, 3)], 0),
        # It came back and went again: what counts is when it was whole first.
        ([isr(1.5, 2), isr(4.0, 3), isr(5.0, 2), isr(6.0, 3)], 1.0),
    ],
)
def test_an_isr_is_back_when_it_is_whole_after_the_healing(news: list, back: float) -> None:
    assert value(facts(None, *news, faults=[fault()]), "first.isr_back") == pytest.approx(back)


def test_without_the_metadata_log_polls_stand_in() -> None:
    news = [leader(1.6, 2, "metric"), isr(1.5, 2, source="metric"), isr(3.5, 3, source="metric")]
    missing = {"elected": "not to be read", "reported": "not to be read"}
    found = facts([sent(1.0, 1.9)], *news, faults=[fault()], not_measured=missing)

    assert value(found, "first.elected") is None
    assert value(found, "first.leader_seen") == pytest.approx(0.6)
    assert value(found, "first.first_ack") == pytest.approx(0.9)
    assert value(found, "first.isr_back") == pytest.approx(0.5)


def test_the_worst_of_the_repetitions_counts() -> None:
    twice = [fault(1, 2, name="first#1"), fault(5, 6, name="first#2")]
    offline = [event(at, "broker", "offline", place=HIT) for at in (1.1, 5.7)]
    found = facts(None, *offline, faults=twice)

    assert value(found, "first#1.detected") == pytest.approx(0.1)
    assert value(found, "first.detected") == pytest.approx(0.7)


def test_an_application_is_measured_by_its_probes() -> None:
    probes = [
        Probe(ns(0), ns(0.01), True),
        Probe(ns(0.1), ns(1.1), False),
        Probe(ns(0.2), ns(1.2), True),
    ]
    found = facts(commands={"app": CommandFacts(probes=probes, exit_code=0)})

    wanted = {"probes": 3, "errors": 1, "gap": 1.19, "max": 1.0, "exit": 0}
    assert {name: value(found, f"app.{name}") for name in wanted} == pytest.approx(wanted)
    assert value(found, "app.availability") == pytest.approx(2 / 3)


def test_a_reader_is_measured_by_its_partitions() -> None:
    got = [
        Received(at_ns=ns(at), sequence=0, offset=0, partition=partition, key=0)
        for at, partition in ((0, 0), (0.5, 1), (1, 0), (3, 1))
    ]
    found = facts(readers={"readers": ReaderFacts(topic="orders", received=got, errors=("x",))})

    assert value(found, "readers.gap") == pytest.approx(2.5)
    assert value(found, "readers.consumed") == 4
    assert value(found, "readers.errors") == 1


def test_the_cluster_is_as_it_was_polled_last() -> None:
    sample = Sample(t_ns=0, isr_full=0.5, online_dirs=8, offline_partitions=1, under_replicated=3)
    found = facts(samples=(sample,), noise_ns=ns(0.3))

    assert value(found, "isr_full") == 0.5
    assert value(found, "noise") == pytest.approx(0.3)
    assert value(facts(), "isr_full") is None


def test_events_of_all_sources_are_one_timeline() -> None:
    a, b, c = (event(at, "fault", "x") for at in (1, 2, 3))

    assert join([c], [a], [b]) == [a, b, c]


def test_wall_clocks_are_read_by_the_nearest_sample() -> None:
    clock = Clock()
    clock.sample(monotonic_ns=1_000, wall_ns=100_000)
    clock.sample(monotonic_ns=2_000, wall_ns=101_030)

    assert clock.monotonic(100_100) == 1_100
    assert clock.monotonic(101_030) == 2_000
    assert clock.spread_ns == 30


def test_transactions_are_counted_over_all_producers_by_their_answers() -> None:
    first = [transaction(1, 1.1), transaction(2, 2.4), transaction(3, 3.1, Outcome.ABORTED)]
    second = [transaction(1, 1.1), transaction(2, 2.2, Outcome.UNKNOWN, is_fatal=True)]
    found = facts(
        writers={
            "a": writer([], transactions=first, torn=1),
            "b": writer([], transactions=second, torn=2),
            "plain": writer([]),
        },
        stuck=(P0,),
    )

    assert value(found, "transactions.committed") == 3
    assert value(found, "transactions.aborted") == 1
    assert value(found, "transactions.unknown") == 1
    assert value(found, "transactions.fatal") == 1
    assert value(found, "transactions.torn") == 3
    assert value(found, "transactions.stuck") == 1
    assert value(found, "transactions.longest_commit") == pytest.approx(0.4)


def test_a_commit_without_an_answer_lasts_until_the_end() -> None:
    open_one = transaction(4, None, Outcome.UNKNOWN)
    found = facts(writers={"a": writer([], transactions=[transaction(1, 1.1), open_one])})

    assert value(found, "transactions.longest_commit") == pytest.approx(6)
    assert value(found, "transactions.torn") is None
    assert value(found, "transactions.stuck") is None


def test_the_log_of_a_coordinator_needs_no_acknowledged_message() -> None:
    log = TopicPartition("__transaction_state", 4)
    found = facts(
        [sent(1.5, 1.6), sent(2.5, 2.6)],
        leader(2, 2),
        leader(2, 2, partition=log),
        faults=[fault(led=(P0, log))],
    )

    assert value(found, "first.elected") == 1
    assert value(found, "first.first_ack") == pytest.approx(1.6)
