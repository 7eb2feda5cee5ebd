"""The course of a history, decided before it runs: options, and events with their times.

Both are drawn from the seed and are plain values, so that a history can be written to a file, read
again, and made smaller. Options are drawn as a swarm: most histories lack most things.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec.structs import replace

from jbodlab.metadata.records.metadata_version import JBOD_LEVEL, LATEST

CHOICES = 1 << 30
CALM_SHARE = 0.12
STEERED_SHARE = 0.6
"""Of the events of a history that is steered at some faults."""
NEVER = UNLIMITED = 1 << 40
SESSION = "broker.session.timeout.ms"
FAILURE = "log.dir.failure.timeout.ms"
PROBE = "jbodlab.log.dir.probe.interval.ms"
LAG = "replica.lag.time.max.ms"
CALM, QUORUM = "calm", "quorum"
CONTROLLERS = (1, 1, 3, 3, 3)
"""The number of controllers is drawn from these."""
STOP, KILL = "stop", "kill"
RESTARTS = ((STOP, KILL), (STOP,), (KILL,), (), (), ())
"""The restarts at the end are drawn from these: both are a third of all that a history costs, and
few bugs show only there. Where one controller is asked for, as for mutants, they are the first."""
SETTINGS = {
    "metadata.log.segment.ms": (NEVER, 1_000, 4_000),
    "metadata.max.retention.bytes": (UNLIMITED, 20_000),
    SESSION: (3_000, 4_000, 9_000),
    "broker.heartbeat.interval.ms": (300, 500, 1_000),
    FAILURE: (5_000, 10_000),
    LAG: (3_000, 10_000),
    PROBE: (500, 1_000),
    "metadata.log.max.record.bytes.between.snapshots": (1_000, 5_000, 20_000_000),
}
"""Properties of all servers, and what each is drawn from."""


class TopicPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A topic that there is from the beginning."""

    name: str
    partitions: int = 4
    replication_factor: int = 3
    min_insync: int = 2
    segment_bytes: int = 16_384
    is_flushed: bool = False
    """Whether each batch is on the disk before it is acknowledged."""


class ProducerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A client that writes at most so many batches to one topic, at most `pause_ms` apart.

    A stubborn one stays with the leader that it knows, whatever that says, for some attempts.
    """

    topic: str
    acks: int = -1
    is_idempotent: bool = True
    records: int = 80
    pause_ms: int = 8
    value_bytes: int = 60
    is_stubborn: bool = False


class GroupPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group with some members, of KIP-848 or classic ones."""

    name: str
    topic: str
    members: int
    is_modern: bool


class TransactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A transactional id with one producer, or two that do not know of each other.

    Attributes:
        is_new: Whether they speak the second part of KIP-890, where the cluster does.
    """

    name: str
    topics: tuple[str, ...]
    producers: int = 1
    transactions: int = 20
    pause_ms: int = 50
    timeout_ms: int = 4_000
    value_bytes: int = 60
    is_new: bool = True


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its clients.

    Attributes:
        is_strict: Whether events that could lose what was acknowledged are left out.
        is_calm: Whether so little goes wrong that everything has to go on soon.
        is_ordered: Whether names reach the disks in order; see `disk`.
        loss: The writes that a loss of power leaves; see `disk.LOSSES`.
        is_fifo: See `SimLoop`.
        level: `metadata.version` at the start.
        capacity: Bytes of each disk.
        settings: As of `SETTINGS`.
        restarts: How all nodes end at the end of the history, one after the other; `RESTARTS`.
    """

    seed: int
    is_strict: bool = True
    is_calm: bool = False
    is_fifo: bool = False
    controllers: int = 1
    brokers: int = 3
    directories: int = 2
    chaos_ms: int = 12_000
    topics: tuple[TopicPlan, ...] = ()
    producers: tuple[ProducerPlan, ...] = ()
    consumers: int = 1
    groups: tuple[GroupPlan, ...] = ()
    transactions: tuple[TransactionPlan, ...] = ()
    is_ordered: bool = True
    loss: str = "none"
    capacity: int = UNLIMITED
    level: int = LATEST
    settings: dict[str, int] = msgspec.field(
        default_factory=lambda: {name: choices[0] for name, choices in SETTINGS.items()}
    )
    restarts: tuple[str, ...] = RESTARTS[0]

    @property
    def is_compacted(self) -> bool:
        """Whether the logs of coordinators are compacted while the history lasts."""
        return bool(self.groups or self.transactions) and self.seed % 2 == 1

    def seconds(self, name: str) -> float:
        """Return a setting that is a time."""
        return self.settings[name] / 1000


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens to a history.

    Attributes:
        at_ms: When, counted from the start of the chaos.
        fault: Name of what happens, from `faults.FAULTS`.
        choice: The seed of its other choices; to whom it happens is among them.
        length_ms: How long, where that makes sense.
        after: Name of a moment after which it happens, `at_ms` later at the earliest; empty for
            none. See `World.moment`.
    """

    at_ms: int
    fault: str
    choice: int
    length_ms: int = 0
    after: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole history."""

    options: Options
    events: tuple[Event, ...] = ()

    def to_text(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n"


def read_plan(path: Path) -> Plan:
    """Read what `Plan.to_text` has written."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)


MOMENTS = ("assigned", "heartbeat", "isr", "moving", "swapped", "elected", "registered", "appended")
"""Moments that events are drawn to follow, a little later; each is announced by a tap of `taps`.

Plans may name others: then the event follows at once.
"""


QUORUM_MOMENTS = ("claimed", "elected controller", *MOMENTS)
"""And those of faults of several controllers."""
CALM_OF_QUORUM = ("active_dies", "disk_of_active_dies")

FEATURES: dict[str, Callable[[Options], bool]] = {
    CALM: lambda _: True,
    "groups": lambda options: bool(options.groups),
    "replicas": lambda options: any(each.replication_factor > 1 for each in options.topics),
    "elr": lambda options: options.level >= LATEST,
    "isr-only": lambda options: options.level < LATEST,
    "directories": lambda options: options.directories > 1,
    "torn": lambda options: options.loss == "torn",
    "transactions": lambda options: bool(options.transactions),
    QUORUM: lambda options: options.controllers > 1,
}
"""Things that histories can be steered at besides faults: their options must have them."""


def draw(
    seed: int,
    weights: Mapping[str, tuple[str, int]],
    *,
    is_strict: bool = True,
    steered_at: Collection[str] = (),
    controllers: int | None = None,
) -> Plan:
    """Draw a history from its seed, with faults as their families and weights say.

    Args:
        controllers: How many there are; drawn where that is not said.
        steered_at: Features that it has, and faults that more than half of its events are drawn
            from; with none of them a history is what chance makes of it.
    """
    of_quorum = [each for each in steered_at if weights.get(each, ("",))[0] == QUORUM]
    if of_quorum or QUORUM in steered_at:
        controllers = max(CONTROLLERS)
    # With a stream of its own: histories of one controller are what they were without others.
    random = Random(f"{seed}:controllers")
    drawn = random.choice(CONTROLLERS)
    plan = _drawn(seed, weights, is_strict, steered_at, controllers or drawn)
    if controllers == 1:
        return plan
    restarts = Random(f"{seed}:restarts").choice(RESTARTS)
    plan = replace(plan, options=replace(plan.options, restarts=restarts))
    if plan.options.controllers == 1:
        return plan
    if plan.options.is_calm:
        is_other = steered_at or random.random() < 0.5
        fault = plan.events[0].fault if is_other else random.choice(CALM_OF_QUORUM)
        return replace(plan, events=(replace(plan.events[0], fault=fault),))
    events = (*plan.events, *_of_quorum(plan.options, weights, of_quorum, random))
    return replace(plan, events=tuple(sorted(events, key=lambda each: each.at_ms)))


def _of_quorum(
    options: Options,
    weights: Mapping[str, tuple[str, int]],
    wanted: Sequence[str],
    random: Random,
) -> Iterator[Event]:
    """Draw what happens to several controllers, besides what happens in any history."""
    names = [name for name, (family, _) in weights.items() if family == QUORUM]
    shares = [weights[name][1] for name in names]
    count = random.choice((1, 2, 2, 3, 5, 8)) if names else 0
    for number in range(count):
        fault = random.choices(names, shares)[0]
        if number < len(wanted) or (wanted and random.random() < STEERED_SHARE):
            fault = wanted[number % len(wanted)]
        is_after = random.random() < 0.33
        yield Event(
            at_ms=random.randrange(options.chaos_ms) // (1 + is_after),
            fault=fault,
            choice=random.randrange(CHOICES),
            length_ms=int(10 ** random.uniform(1, 3.9)),
            after=random.choice(QUORUM_MOMENTS) if is_after else "",
        )


def _drawn(
    seed: int,
    weights: Mapping[str, tuple[str, int]],
    is_strict: bool,
    steered_at: Collection[str],
    controllers: int,
) -> Plan:
    features = [FEATURES[each] for each in steered_at if each in FEATURES]
    for attempt in itertools.count():
        name = f"{seed}+{attempt}" if attempt else f"{seed}"
        random = Random(f"{name}:plan")
        options = _options(seed, name, random, is_strict=is_strict)
        options = replace(options, controllers=controllers)
        if all(has(options) for has in features):
            break
    wanted = [each for each in steered_at if weights.get(each, (QUORUM,))[0] != QUORUM]
    # One draw in any case: the events are those of the seed whatever its options are.
    is_calm = random.random() < CALM_SHARE
    if CALM in steered_at or (is_calm and not wanted):
        return _calm(options, random, wanted)
    families = sorted({family for family, weight in weights.values() if weight} - {QUORUM})
    chosen = {each for each in families if random.random() < 0.5} or {random.choice(families)}
    names = [name for name, (family, _) in weights.items() if family in chosen]
    shares = [weights[name][1] for name in names]
    events = [
        Event(
            at_ms=random.randrange(options.chaos_ms),
            fault=random.choices(names, shares)[0],
            choice=random.randrange(CHOICES),
            length_ms=int(10 ** random.uniform(1, 3.9)),
        )
        for _ in range(random.choice((1, 3, 4, 6, 8, 10, 12)))
    ]
    for number, event in enumerate(events):
        if random.random() < 0.33:
            after = random.choice(MOMENTS)
            events[number] = replace(event, after=after, at_ms=event.at_ms // 2)
    for number, event in enumerate(events) if wanted else ():
        if number < 2 or random.random() < STEERED_SHARE:
            fault = wanted[number % len(wanted)] if number < 2 else random.choice(wanted)
            events[number] = replace(event, fault=fault)
    return Plan(options=options, events=tuple(sorted(events, key=lambda each: each.at_ms)))


def _calm(options: Options, random: Random, wanted: Sequence[str]) -> Plan:
    """Draw a history in which one thing goes wrong, and the bounds of recovery can be checked."""
    producers = tuple(
        ProducerPlan(topic="t0", is_idempotent=n > 0, records=250, pause_ms=60, value_bytes=40)
        for n in range(3)
    )
    faults = ("eio", "eio", "hang_whole", "unreported", "freeze_controller", "killed", "restart")
    fault = random.choice(wanted or faults)
    options = replace(
        options,
        is_calm=True,
        brokers=3,
        directories=max(2, options.directories),
        # Before this level a controller cannot lead a broker with several away from one of them.
        level=max(JBOD_LEVEL, options.level),
        chaos_ms=15_000,
        topics=(TopicPlan(name="t0"),),
        producers=producers,
        groups=(),
        transactions=(),
        capacity=UNLIMITED,
        settings={**options.settings, LAG: 30_000, FAILURE: 5_000},
    )
    choice = random.randrange(CHOICES)
    at_ms, after = random.randrange(1_000, 4_000), random.choice(("", "heartbeat", "heartbeat"))
    event = Event(at_ms=at_ms, fault=fault, choice=choice, length_ms=11_000, after=after)
    return Plan(options=options, events=(event,))


def _options(seed: int, name: str, random: Random, *, is_strict: bool) -> Options:
    brokers = random.choice((1, 2, 3, 3, 3, 4, 5))
    topics = tuple(_topic(f"t{n}", brokers, random) for n in range(random.choice((1, 1, 2, 3))))
    directories = random.choice((1, 2, 2, 3, 4))
    # Before JBOD_LEVEL the controller knows of no directories.
    levels = [
        level if directories == 1 else max(level, JBOD_LEVEL) for level in (30, 30, 30, 29, 17, 14)
    ]
    return Options(
        seed=seed,
        is_strict=is_strict,
        is_fifo=random.random() < 0.05,
        brokers=brokers,
        directories=directories,
        chaos_ms=random.choice((4_000, 6_000, 6_000, 10_000)),
        topics=topics,
        producers=_producers(topics, random, Random(f"{name}:stubborn")),
        consumers=random.choice((1, 1, 2)),
        groups=_groups(topics, Random(f"{name}:groups")),
        transactions=_transactions(topics, Random(f"{name}:transactions")),
        is_ordered=random.random() < 0.6,
        loss=random.choice(("none", "all", "first", "torn", "any")),
        capacity=random.choice((UNLIMITED, UNLIMITED, UNLIMITED, 300_000)),
        level=random.choice(levels),
        settings={name: random.choice(choices) for name, choices in SETTINGS.items()},
    )


def _groups(topics: Sequence[TopicPlan], random: Random) -> tuple[GroupPlan, ...]:
    return tuple(
        GroupPlan(
            name=f"g{number}",
            topic=random.choice(topics).name,
            members=random.choice((1, 2, 3)),
            is_modern=random.random() < 0.5,
        )
        for number in range(random.choice((0, 0, 0, 1, 2)))
    )


def _transactions(topics: Sequence[TopicPlan], random: Random) -> tuple[TransactionPlan, ...]:
    return tuple(
        TransactionPlan(
            name=f"x{number}",
            topics=tuple(
                each.name for each in topics if each.name == "t0" or random.random() < 0.5
            ),
            producers=random.choice((1, 1, 2)),
            transactions=random.choice((5, 10, 20)),
            pause_ms=random.choice((20, 100, 400)),
            timeout_ms=random.choice((1_500, 4_000)),
            value_bytes=random.choice((40, 200)),
            is_new=random.random() < 0.5,
        )
        for number in range(random.choice((0, 0, 0, 1, 2)))
    )


def _topic(name: str, brokers: int, random: Random) -> TopicPlan:
    factor = random.choice([each for each in (1, 2, 3, 3) if each <= brokers])
    return TopicPlan(
        name=name,
        partitions=random.choice((1, 2, 4, 6)),
        replication_factor=factor,
        min_insync=min(2, factor),
        segment_bytes=random.choice((4_096, 16_384, 1 << 20)),
        is_flushed=random.random() < 0.3,
    )


def _producers(
    topics: Sequence[TopicPlan], random: Random, stubborn: Random
) -> tuple[ProducerPlan, ...]:
    return tuple(
        ProducerPlan(
            topic=topic.name,
            acks=random.choice((-1, -1, -1, -1, 1, 0)) if number else -1,
            is_idempotent=random.random() < 0.6,
            records=random.choice((20, 40, 80)),
            pause_ms=random.choice((5, 20, 100, 300)),
            value_bytes=random.choice((40, 200, 1_000)),
            is_stubborn=stubborn.random() < 0.5,
        )
        for topic in topics
        for number in range(random.choice((1, 2)))
    )
