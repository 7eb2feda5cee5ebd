"""PASS, FAIL and INCONCLUSIVE: what outweighs what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jbodlab.vocabulary.ids import TopicPartition
from lab.findings import Finding, Kind, Outcome
from lab.plan.reader import read
from lab.rehearsal.facts import CommandFacts, Counted, Facts, StreamsFacts, Verdict
from lab.rehearsal.judgement import Judgement, judge
from tests.lab.rehearsal.runs import (
    COUNTING,
    P0,
    PLAN,
    TRANSACTIONAL,
    facts,
    fault,
    ns,
    steady,
    transaction,
    writer,
)

MESSAGES = steady(0, 10)


def judged(found: Facts, *objectives: str) -> Judgement:
    wanted = objectives or ("writers.lost == 0", "first.gap < 2s")
    return judge(read(PLAN.replace("OBJECTIVES", ", ".join(wanted)), "p.yaml"), found)


def lost(count: int, **more: Any) -> Facts:
    verdict = Verdict(acknowledged=100, read=100, lost=count, duplicated=0, out_of_order=0)
    writers = {"writers": writer(MESSAGES, verdict=verdict)}
    return facts(faults=[fault()], writers=writers, **more)


NOT_STEADY = Finding(kind=Kind.NOT_STEADY, why="10 s: it hangs")
GOOD = facts(MESSAGES, faults=[fault()])


def test_objectives_that_are_met_pass() -> None:
    found = judged(GOOD)

    assert found.outcome is Outcome.PASS
    assert found.sentence == "PASS: all 2 objectives are met"


def test_an_objective_that_is_missed_fails() -> None:
    found = judged(GOOD, "first.gap < 50ms")

    assert found.outcome is Outcome.FAIL
    assert found.sentence == "FAIL: expected first.gap < 50ms, measured 100 ms in orders-0"


def test_an_objective_with_or_is_judged_as_a_whole() -> None:
    met = judged(GOOD, '"first.gap < 50ms or writers.lost == 0"')
    missed = judged(GOOD, '"first.gap < 50ms or writers.lost > 0"')

    assert met.outcome is Outcome.PASS
    assert missed.outcome is Outcome.FAIL
    (held,) = missed.objectives
    assert held.text == "first.gap < 50ms or writers.lost > 0"
    assert held.measured == "first.gap 100 ms in orders-0, writers.lost 0"


def test_an_objective_that_only_warns_does_not_fail() -> None:
    found = judged(GOOD, '{that: "first.gap < 50ms", severity: warn}')

    assert found.outcome is Outcome.PASS
    assert found.warnings == ("first.gap < 50ms: 100 ms in orders-0",)


def test_a_doubt_is_said_once() -> None:
    why = Finding(kind=Kind.ENDED, subject="writers", why="exit code -9")
    writers = {"writers": writer(MESSAGES, failure="exit code -9")}

    found = judged(facts(faults=[fault()], writers=writers, broken_off=(why,)))

    assert found.sentence == f"INCONCLUSIVE: {why.text}"


def test_what_never_came_is_missed() -> None:
    found = judged(GOOD, "first.detected < 5s")

    assert found.outcome is Outcome.FAIL
    assert found.missed == ("expected first.detected < 5s, measured never",)


INCONCLUSIVE = {
    "no steady state": (
        facts(MESSAGES, faults=[fault()], broken_off=[NOT_STEADY]),
        "no steady state within 10 s: it hangs",
    ),
    "a fault that was not made": (facts(MESSAGES), "first was never injected"),
    "a fault that was not proved": (
        facts(MESSAGES, faults=[fault(problem="not injected: no room")]),
        "first: not injected: no room",
    ),
    "a fault without effect": (
        facts(MESSAGES, faults=[fault(counts=True, calls_broken=0)]),
        "first had no effect: the broker made no call that it breaks",
    ),
    "a place that holds nothing": (
        facts(MESSAGES, faults=[fault(touched=(), led=())]),
        "first proves nothing: broker-1/dir-1 has no partition of the plan's topics",
    ),
    "nothing sent to what was hit": (
        facts(steady(0, 10, partition=1), faults=[fault()]),
        "nothing was sent to the partitions of broker-1/dir-1 while first was in effect",
    ),
    "nothing sent meanwhile": (
        facts([*steady(0, 0.9), *steady(3.5, 10)], faults=[fault()]),
        "nothing was sent to the partitions of broker-1/dir-1 while first was in effect",
    ),
    "a client that sends nothing": (
        facts([], faults=[fault()]),
        "writers: no message was acknowledged",
    ),
    "a client that falls behind": (
        facts(writers={"writers": writer(MESSAGES, due=120)}, faults=[fault()]),
        "writers fell behind its own schedule: 100 of 120 messages were sent",
    ),
    "a client that ended": (
        facts(writers={"writers": writer(MESSAGES, failure="exit code 1")}, faults=[fault()]),
        "writers ended before the end of the run: exit code 1",
    ),
}


@pytest.mark.parametrize(("found", "why"), INCONCLUSIVE.values(), ids=INCONCLUSIVE)
def test_a_run_that_proves_nothing_is_inconclusive(found: Facts, why: str) -> None:
    judgement = judged(found, "writers.errors == 0")

    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert why in judgement.doubts


def test_what_cannot_be_known_here_is_inconclusive_with_the_reason() -> None:
    found = replace(GOOD, not_measured={"elected": "the log is not to be read here"})

    judgement = judged(found, "first.elected < 1s")

    assert judgement.outcome is Outcome.INCONCLUSIVE
    assert judgement.doubts == ("cannot judge first.elected < 1s: the log is not to be read here",)


def test_a_doubt_outweighs_an_objective_that_is_missed() -> None:
    found = facts(MESSAGES, faults=[fault()], broken_off=[NOT_STEADY])

    assert judged(found, "first.gap < 50ms").outcome is Outcome.INCONCLUSIVE


def test_a_lost_message_outweighs_every_doubt() -> None:
    found = judged(lost(3, broken_off=[NOT_STEADY]))

    assert found.outcome is Outcome.FAIL
    assert found.sentence == "FAIL: 3 of the acknowledged messages of writers were lost"


def test_a_lost_message_fails_where_no_objective_is_about_it() -> None:
    assert judged(lost(1), "first.gap < 2s").outcome is Outcome.FAIL


def test_losses_that_a_plan_expects_do_not_fail() -> None:
    assert judged(lost(5), "writers.lost < 10").outcome is Outcome.PASS
    assert judged(lost(15), "writers.lost < 10").outcome is Outcome.FAIL


def judged_transactions(*objectives: str, stuck: Any = (), torn: int = 0, **more: Any) -> Judgement:
    mine = writer(MESSAGES, transactions=[transaction(1, 1.1)], torn=torn, due=200)
    found = facts(faults=[fault()], writers={"writers": mine}, stuck=stuck, **more)
    wanted = ", ".join(objectives or ("writers.lost == 0",))
    return judge(read(TRANSACTIONAL.replace("OBJECTIVES", wanted), "p.yaml"), found)


def test_a_torn_transaction_outweighs_every_doubt() -> None:
    found = judged_transactions(torn=2, broken_off=[NOT_STEADY])

    assert found.outcome is Outcome.FAIL
    assert found.sentence == "FAIL: 2 transactions are not seen as they were answered"


def test_a_last_stable_offset_that_nobody_moves_fails() -> None:
    found = judged_transactions(stuck=(P0,))

    assert found.outcome is Outcome.FAIL
    assert found.sentence == (
        "FAIL: the last stable offset of orders-0 stands before the end after the full read"
    )


def test_torn_transactions_that_a_plan_expects_do_not_fail() -> None:
    assert judged_transactions("transactions.torn < 3", torn=2).outcome is Outcome.PASS
    assert judged_transactions("transactions.torn < 2", torn=2).outcome is Outcome.FAIL


def test_a_producer_that_waits_for_its_commit_is_not_behind() -> None:
    assert judged_transactions().outcome is Outcome.PASS


def test_a_fault_of_the_coordinator_proves_by_what_its_producers_send() -> None:
    log = TopicPartition("__transaction_state", 4)
    found = facts(
        faults=[fault(touched=(log,), led=(log,))],
        writers={"writers": writer(MESSAGES, transactions=[])},
    )
    plain = facts(faults=[fault(touched=(log,), led=(log,))], writers={"writers": writer(MESSAGES)})

    assert judged(found, "writers.lost == 0").outcome is Outcome.PASS
    assert judged(plain, "writers.lost == 0").outcome is Outcome.INCONCLUSIVE


def judged_counts(counted: Counted | None, *objectives: str, **more: Any) -> Judgement:
    wanted = ", ".join(objectives or ("words.exit == 0",))
    found = facts(
        MESSAGES,
        faults=[fault()],
        streams={"words": StreamsFacts(counted=counted, exit_code=0)},
        **more,
    )
    return judge(read(COUNTING.replace("OBJECTIVES", wanted), "p.yaml"), found)


def test_an_application_that_has_counted_all_words_once_passes() -> None:
    found = judged_counts(Counted(7, 0, 0), "words.counted > 0", "words.missing == 0")

    assert found.outcome is Outcome.PASS


def test_words_that_were_counted_twice_or_not_outweigh_every_doubt() -> None:
    twice = judged_counts(Counted(9, 0, 2), broken_off=[NOT_STEADY])
    never = judged_counts(Counted(4, 3, 0), "words.missing == 0", broken_off=[NOT_STEADY])

    assert twice.outcome is never.outcome is Outcome.FAIL
    assert twice.sentence == "FAIL: 2 words were counted by words that are not in the input"
    assert never.sentence == "FAIL: 3 words of the input were not counted by words"


def test_miscounts_that_a_plan_expects_do_not_fail() -> None:
    assert judged_counts(Counted(9, 0, 2), "words.excess < 3").outcome is Outcome.PASS


def test_an_application_that_has_counted_nothing_proves_nothing() -> None:
    found = judged_counts(Counted(0, 7, 0))

    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.sentence == "INCONCLUSIVE: words has counted nothing"


def test_counts_that_could_not_be_read_are_not_judged() -> None:
    assert judged_counts(None, "words.missing == 0").outcome is Outcome.INCONCLUSIVE


def test_a_last_stable_offset_of_an_application_that_nobody_moves_fails() -> None:
    found = judged_counts(Counted(7, 0, 0), stuck=(TopicPartition("counts", 1),))

    assert found.outcome is Outcome.FAIL
    assert "the last stable offset of counts-1 stands" in found.sentence


def test_an_application_of_the_users_own_proves_by_the_bytes_that_came() -> None:
    plan = read(
        PLAN.replace(
            "{name: writers, topic: orders, rate: 10/s}", "{name: app, command: [x]}"
        ).replace("OBJECTIVES", "app.exit == 0"),
        "p.yaml",
    )
    app = {"app": CommandFacts(exit_code=0)}

    silent = judge(plan, facts(faults=[fault(growth=0)], commands=app))
    busy = judge(plan, facts(faults=[fault(growth=4096)], commands=app))

    assert silent.outcome is Outcome.INCONCLUSIVE
    assert busy.outcome is Outcome.PASS


def test_a_busy_machine_is_a_warning() -> None:
    found = judged(replace(GOOD, noise_ns=ns(0.4)))

    assert found.outcome is Outcome.PASS
    assert found.warnings == ("this machine was busy: a tick of 10 ms came 400 ms late",)


def test_a_percentile_of_fewer_than_ten_messages_is_not_judged() -> None:
    found = judged(facts(MESSAGES[:9], faults=[fault(0.1, 0.5)]), "writers.p99 < 1s")

    assert "cannot judge writers.p99 < 1s: fewer than 10 were measured" in found.doubts
