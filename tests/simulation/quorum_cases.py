"""Situations of several controllers that a history is to have got over, as plans of histories.

Each is a small cluster under load, and what happens to it. A checker that finds something, or a
situation that did not come about, fails its test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from tests.simulation.command import print_outcomes
from tests.simulation.plan import NEVER, SESSION, SETTINGS, Event, Options, Plan, ProducerPlan
from tests.simulation.plan import TopicPlan as Topic
from tests.simulation.quorum_faults import CALLS

FIRST_SEED = 5_000
CHAOS_MS = 6_000
MANY_SNAPSHOTS = {
    "metadata.log.segment.ms": 1_000,
    "metadata.max.retention.bytes": 3_000,
    "metadata.log.max.record.bytes.between.snapshots": 1_000,
}


class Case(NamedTuple):
    """One situation.

    Attributes:
        events: Fault, when it happens in ms, for how long, and after which moment.
        comes: Names of what must have been seen.
    """

    name: str
    events: tuple[tuple[str, int, int, str], ...]
    comes: tuple[str, ...] = ()
    settings: Mapping[str, int] = MappingProxyType({})
    chaos_ms: int = CHAOS_MS
    controllers: int = 3
    partitions: int = 3


CASES = (
    Case("active-killed-under-load", (("kill_active", 2_000, 2_000, ""),), ("claimed",)),
    Case(
        "active-killed-again-and-again",
        tuple(("kill_active", 3_000 * n, 1_500, "") for n in range(1, 8)),
        chaos_ms=24_000,
    ),
    Case(
        "active-killed-for-a-minute-with-many-partitions",
        tuple(("kill_active", 3_000 * n, 1_500, "") for n in range(1, 21)),
        ("claimed",),
        chaos_ms=62_000,
        partitions=300,
    ),
    Case("killed-as-soon-as-it-is-elected", (("one_after_the_other", 1_000, 2_000, ""),)),
    Case(
        "active-back-at-once",
        (("active_restarts", 1_500, 0, ""), ("active_restarts", 3_500, 0, "")),
    ),
    Case(
        "stopped-in-order", (("stop_active", 1_500, 1_000, ""), ("stop_active", 4_000, 1_000, ""))
    ),
    Case(
        "all-lose-their-power",
        tuple(("controllers_lose_power", 1_500 * n, 800, "") for n in range(1, 4)),
    ),
    Case("active-reaches-brokers-only", (("active_without_controllers", 1_000, 5_000, ""),)),
    Case("active-reaches-controllers-only", (("active_without_brokers", 1_000, 5_000, ""),)),
    Case("active-reaches-nobody", (("active_without_anybody", 1_000, 5_000, ""),)),
    Case(
        "active-frozen-for-longer-than-a-session",
        (("freeze_controller", 1_000, 0, ""),),
        chaos_ms=12_000,
    ),
    Case(
        "active-frozen-for-a-while",
        (("freeze_a_controller", 1_000, 500, ""), ("freeze_a_controller", 3_000, 2_500, "")),
    ),
    Case(
        "killed-with-a-registration",
        (("kill", 500, 100, ""), ("kill_active", 600, 1_000, "registered")),
    ),
    Case("killed-with-an-isr-change", (("kill", 500, 100, ""), ("kill_active", 0, 1_000, "isr"))),
    Case(
        "killed-with-a-move",
        (("move", 1_000, 0, ""), ("move", 1_000, 0, ""), ("kill_active", 900, 1_000, "moving")),
    ),
    Case(
        "killed-with-a-new-topic",
        (
            ("new_topic", 1_500, 0, ""),
            ("kill_active", 1_500, 1_000, ""),
            ("new_topic", 1_510, 0, ""),
        ),
    ),
    Case("killed-with-a-broker", (("kill", 1_500, 1_000, ""), ("kill_active", 1_500, 1_000, ""))),
    Case(
        "killed-as-a-broker-stops", (("restart", 1_500, 100, ""), ("kill_active", 1_550, 1_000, ""))
    ),
    Case("killed-as-a-directory-fails", (("unheard", 1_500, 1_000, ""),)),
    Case("directory-of-the-active-fails", (("disk_of_active_dies", 1_500, 3_000, ""),)),
    Case(
        "directories-hang", tuple(("controller_hangs", 1_200 * n, 1_500, "") for n in range(1, 4))
    ),
    Case("directories-are-full", (("controllers_are_full", 1_000, 3_000, ""),)),
    Case(
        "directories-are-slow",
        (("controller_is_slow", 1_000, 4_000, ""), ("controller_is_slow", 1_000, 4_000, "")),
    ),
    Case(
        "emptied-one-gets-a-snapshot",
        (("emptied_controller", 4_000, 500, ""),),
        ("a controller fetched a snapshot", "TellWithheld"),
        MANY_SNAPSHOTS,
    ),
    Case(
        "emptied-one-after-the-other",
        tuple(("emptied_controller", 2_000 * n, 100, "") for n in range(1, 5)),
        ("TellWithheld",),
        chaos_ms=10_000,
    ),
    Case(
        "three-of-five-go-one-after-the-other",
        tuple(("kill_active", 1_000 * n, 3_000, "") for n in range(1, 4)),
        ("claimed",),
        controllers=5,
    ),
    Case(
        "two-of-five-are-emptied",
        tuple(("emptied_controller", 1_000 * n, 300, "") for n in range(1, 4)),
        ("TellWithheld",),
        controllers=5,
        chaos_ms=8_000,
    ),
    Case(
        "voters-go-and-come-back-under-load",
        (("change_voters", 1_000, 500, ""), ("change_voters", 5_000, 500, "")),
        ("a controller has other voters",),
        chaos_ms=10_000,
    ),
    Case(
        "emptied-one-is-a-voter-again-with-its-new-directory",
        (
            ("change_voters", 500, 300, ""),
            ("emptied_controller", 5_000, 300, ""),
            ("change_voters", 6_500, 300, ""),
        ),
        ("a controller has other voters",),
        chaos_ms=11_000,
    ),
    Case(
        "active-killed-as-voters-change",
        (
            ("change_voters", 1_000, 500, ""),
            ("kill_active", 1_000, 1_000, "a controller has other voters"),
            ("change_voters", 5_000, 500, ""),
            ("kill_active", 5_000, 1_000, "claimed"),
        ),
        ("a controller has other voters",),
        chaos_ms=12_000,
    ),
    Case(
        "one-of-five-goes-as-two-are-killed",
        (
            ("change_voters", 1_000, 2_000, ""),
            ("kill_active", 1_500, 2_000, ""),
            ("kill_active", 2_500, 2_000, ""),
        ),
        ("a controller has other voters",),
        controllers=5,
        chaos_ms=10_000,
    ),
    Case(
        "calls-of-directories-fail-one-by-one",
        tuple(("controller_error", 1_200 * n, 600, "") for n in range(1, 10)),
        chaos_ms=12_000,
    ),
    Case(
        "each-call-of-the-active-fails-once",
        (
            *(("call_of_active_fails", 1_000 + 6_000 * n, 500, "") for n in range(len(CALLS))),
            *(("new_topic", 700 * n, 0, "") for n in range(1, 40)),
        ),
        tuple(f"the active's {call} failed" for call in CALLS),
        MANY_SNAPSHOTS,
        chaos_ms=32_000,
    ),
    Case(
        "votes-are-lost",
        tuple(("vote_is_lost", 1_000 + 9_000 * n, 2_500, "") for n in range(4)),
        ("power was lost with a vote", "a vote could not be kept"),
        chaos_ms=36_000,
    ),
    Case(
        "upgraded-beside-a-silent-voter",
        (("upgraded_beside_a_silent_voter", 1_000, 1_000, ""),),
        ("an upgrade was refused", "an upgrade is done"),
        chaos_ms=14_000,
    ),
    Case(
        "active-killed-with-an-upgrade",
        (("killed_in_an_upgrade", 1_000, 1_000, ""),),
        ("an upgrade was with its leader alone", "an upgrade is done"),
        chaos_ms=14_000,
    ),
    Case(
        "active-killed-behind-an-upgrade",
        (("new_topic", 500, 0, ""), ("killed_in_an_upgrade", 1_000, 1_000, "")),
        ("an upgrade was replicated as its leader died", "an upgrade is done"),
        chaos_ms=14_000,
    ),
    Case(
        "snapshots-are-due-inside-of-batches",
        (
            *(("new_topic", 500 * n, 0, "") for n in range(1, 10)),
            ("kill_active", 2_600, 500, "a snapshot is written beside a quorum"),
        ),
        ("a snapshot is written beside a quorum",),
        MANY_SNAPSHOTS,
    ),
    Case(
        "certificate-of-the-active-expires",
        (("certificate_of_active_expires", 6_000, 1_000, ""),),
        ("claimed",),
        chaos_ms=16_000,
    ),
    Case(
        "certificates-expire-and-are-not-trusted",
        tuple(("certificate_of_controller", 900 * n, 1_500, "") for n in range(1, 11)),
        chaos_ms=12_000,
    ),
    Case(
        "certificate-expires-as-voters-change",
        (
            ("change_voters", 1_000, 500, ""),
            ("certificate_of_controller", 1_000, 2_500, "a controller has other voters"),
            ("certificate_of_controller", 4_500, 2_500, "claimed"),
        ),
        ("a controller has other voters",),
        chaos_ms=10_000,
    ),
    Case(
        "directories-die-with-the-active",
        tuple(("directory_dies_with_active", 500 + 5_000 * n, 500, "") for n in range(4)),
        ("the active ended as it was told of a directory",),
        {"broker.heartbeat.interval.ms": 3_000, SESSION: 9_000},
        chaos_ms=21_000,
    ),
    Case(
        "last-words-to-the-active",
        tuple(("last_word_to_active", 500 + 8_000 * n, 300, "") for n in range(3)),
        ("the active ended with a broker's last word",),
        chaos_ms=25_000,
    ),
)


def plan_of(seed: int, case: Case) -> Plan:
    """Return the history of a case."""
    events = tuple(
        Event(at_ms=at_ms, fault=fault, choice=number, length_ms=length_ms, after=after)
        for number, (fault, at_ms, length_ms, after) in enumerate(case.events)
    )
    usual = {name: choices[0] for name, choices in SETTINGS.items()}
    options = Options(
        seed=seed,
        controllers=case.controllers,
        chaos_ms=case.chaos_ms,
        topics=(Topic(name="t0", partitions=case.partitions),),
        producers=(ProducerPlan(topic="t0", records=60, pause_ms=150),),
        settings={**usual, "metadata.log.segment.ms": NEVER, SESSION: 4_000, **case.settings},
    )
    return Plan(options=options, events=events)


def plans() -> Iterator[Plan]:
    """Yield the histories of all cases."""
    for seed, case in enumerate(CASES, FIRST_SEED):
        yield plan_of(seed, case)


if __name__ == "__main__":
    print_outcomes(plans())
