"""From the text of a plan to its values, or to all of its mistakes at once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from fault_injection.errors import FaultError
from fault_injection.kinds import KINDS, Scope, duration_s, kind_named, size_bytes, spec
from jbodlab.errors import JbodlabError
from jbodlab.ids import TopicPartition
from lab.rehearsal import document, expressions, targets
from lab.rehearsal.document import Fields, Item, Mistakes, one_of, text, texts, truth, whole
from lab.rehearsal.plan import (
    LAST,
    MOMENTS,
    After,
    At,
    Attach,
    BrokerThere,
    ClusterNeed,
    Command,
    End,
    Entry,
    Instant,
    Load,
    Objective,
    Plan,
    Readers,
    Steady,
    Topic,
    When,
    Writers,
)
from lab.rehearsal.targets import Target
from lab.rehearsal.values import Unit, parse_rate
from lab.rehearsal.vocabulary import (
    ACTIONS,
    ALL,
    OF_COMMAND,
    OF_CONTROLLER,
    OF_FAULT,
    OF_READERS,
    OF_WRITERS,
    Owners,
)

NO_SETTINGS: dict[str, str] = {}
VERSION = 1
BROKERS_MAX, DISKS_MAX, PARTITIONS_MAX, REPEATS_MAX = 20, 64, 1000, 100
RATE_MAX = 100_000
KEYS_MAX = 1_000_000
WORDS = ("for", "where", "at", "after", "plus", "when", "within", "do", "as", "repeat")
FAULT_WORDS = tuple(dict.fromkeys(word for kind in KINDS.values() for word in kind.parameters))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_WRONG_PARAMETER = re.compile(r"invalid [\w-]+ of [\w-]+: ")


class PlanError(JbodlabError):
    """A plan with mistakes: the text has one line for each."""


def read(source: str, file: str) -> Plan:
    """Return the plan that a text says.

    Args:
        source: The text of a YAML file.
        file: Its name, for the mistakes.

    Raises:
        PlanError: it has mistakes; all of them are told, each with line and keys.
    """
    mistakes = Mistakes(file)
    item = document.read(source, mistakes)
    plan = None if item is None else _Reader(Fields(item), source).plan()
    if mistakes.lines:
        raise PlanError("\n".join(mistakes.lines))
    assert plan is not None
    return plan


class _Reader:
    """Reads from the top down: what stands further below may only name what stands above."""

    def __init__(self, top: Fields, source: str) -> None:
        self.top = top
        self.source = source
        self.patient: ClusterNeed | Attach = ClusterNeed()
        self.topics: dict[str, Topic] = {}
        self.owners: dict[str, Mapping[str, Unit]] = {}
        self.entries: list[str] = []

    def plan(self) -> Plan:
        top = self.top
        top.read("rehearsal", whole(VERSION, VERSION), VERSION, needed=True)
        name = top.read("name", text, "", needed=True)
        hypothesis = top.read("hypothesis", text, "")
        source = top.read("source", text, "")
        seed = top.read("seed", whole(0, 2**63 - 1), 0)
        self.patient = self._patient()
        topics = self._topics()
        load = tuple(self._load(item) for item in self._list("load", needed=True))
        lines = self._list("timeline")
        for line in lines:
            self._announce(line)
        steady = self._steady()
        timeline = tuple(entry for line in lines for entry in self._entries(line))
        self._check_healed(lines, timeline)
        end = self._end()
        objectives = tuple(filter(None, map(self._objective, self._list("objectives"))))
        top.done()
        return Plan(
            name=name,
            hypothesis=hypothesis,
            source=source,
            seed=seed,
            patient=self.patient,
            topics=topics,
            load=load,
            steady=steady,
            timeline=timeline,
            end=end,
            objectives=objectives,
            text=self.source,
        )

    def _list(self, key: str, *, needed: bool = False) -> list[Item]:
        found = self.top.get(key, needed=needed)
        entries = [] if found is None else found.items()
        if needed and found is not None and isinstance(found.value, list) and not entries:
            found.wrong("it is empty")
        return entries

    # The cluster

    def _patient(self) -> ClusterNeed | Attach:
        cluster, attach = self.top.get("cluster"), self.top.get("attach")
        if cluster is not None and attach is not None:
            attach.wrong("'cluster' starts one and 'attach' takes one that is there: only one fits")
        if attach is not None:
            return self._attach(Fields(attach))
        return ClusterNeed() if cluster is None else self._cluster(Fields(cluster))

    def _cluster(self, fields: Fields) -> ClusterNeed:
        brokers = fields.read("brokers", whole(1, BROKERS_MAX), 3)
        mechanism = fields.read("mechanism", one_of("auto", "preload", "notify", "loop"), "auto")
        config = fields.read("config", texts, NO_SETTINGS)
        disks = fields.get("disks")
        each, kind, size = 3, "folder", 256 << 20
        if disks is not None:
            inner = Fields(disks)
            each = inner.read("each", whole(1, DISKS_MAX), 3)
            kind = inner.read("kind", one_of("folder", "tmpfs", "loop"), "folder")
            if "size" in inner and kind == "folder":
                disks.wrong("'size' is for disks of the kind tmpfs or loop, a folder has none")
            size = inner.read("size", size_bytes, size)
            inner.done()
        fields.done()
        return ClusterNeed(
            brokers=brokers,
            disks=each,
            kind=kind,
            size_bytes=size,
            mechanism=mechanism,
            config=config,
        )

    def _attach(self, fields: Fields) -> Attach:
        name = fields.read("cluster", text, "")
        bootstrap = fields.read("bootstrap", _addresses, "")
        if bool(name) == bool(bootstrap):
            fields.item.wrong("it names either 'cluster', one of `jbodlab up`, or 'bootstrap'")
        controller_log = fields.read("controller_log", text, "")
        found = fields.get("brokers")
        brokers = []
        for key, item in (found.value if found and isinstance(found.value, dict) else {}).items():
            inner = Fields(item)
            if not key.isdecimal():
                item.wrong(f"{key!r} is no number of a broker")
            brokers.append(
                BrokerThere(
                    number=int(key) if key.isdecimal() else 0,
                    log_dirs=inner.read("log_dirs", _words, ()),
                    pid=inner.read("pid", whole(2, 2**22), 0),
                    output=inner.read("output", text, ""),
                )
            )
            inner.done()
        if found is not None and not isinstance(found.value, dict):
            found.wrong(f"{found.shown} is no mapping of numbers to brokers")
        fields.done()
        return Attach(
            name=name,
            bootstrap=bootstrap,
            controller_log=controller_log,
            brokers=tuple(brokers),
        )

    def _topics(self) -> tuple[Topic, ...]:
        found = self.top.get("topics", needed=True)
        if found is None or not isinstance(found.value, dict):
            if found is not None:
                found.wrong(f"{found.shown} is no mapping of names to topics")
            return ()
        for name, item in found.value.items():
            fields = Fields(item)
            if not _TOPIC.fullmatch(name):
                item.wrong(f"{name!r} is no name of a topic")
            topic = Topic(
                name=name,
                partitions=fields.read("partitions", whole(1, PARTITIONS_MAX), 1),
                replicas=fields.read("replicas", whole(1, BROKERS_MAX), 1),
                config=fields.read("config", texts, {}),
            )
            if isinstance(self.patient, ClusterNeed) and topic.replicas > self.patient.brokers:
                item.wrong(
                    f"{topic.replicas} replicas need as many brokers, and there are "
                    f"{self.patient.brokers}"
                )
            fields.done()
            self.topics[name] = topic
        return tuple(self.topics.values())

    # The load

    def _load(self, item: Item) -> Load:
        fields = Fields(item)
        if "command" in fields:
            found: Load = self._command(fields)
            metrics = OF_COMMAND
        elif "rate" in fields:
            found = self._writers(fields)
            metrics = OF_WRITERS
        else:
            found = self._readers(fields)
            metrics = OF_READERS
        fields.done()
        self._own(item, found.name, metrics)
        return found

    def _own(self, item: Item, name: str, metrics: Mapping[str, Unit]) -> None:
        """Take notice of a name that has metrics."""
        if not _NAME.fullmatch(name):
            if name:
                item.wrong(f"{name!r} is no name: letters, digits, - and _")
        elif name in self.owners or name in (LAST, ALL, "and"):
            item.wrong(f"the name {name!r} is taken")
            return
        self.owners[name] = metrics

    def _writers(self, fields: Fields) -> Writers:
        size = fields.read("size", size_bytes, 100)
        if size < 40 or size > 10 << 20:
            fields.item.wrong(f"messages of {size} bytes: from 40B, for their numbers, to 10MiB")
            size = 100

        def rate(value: Any) -> float:
            found = parse_rate(value if isinstance(value, str) else f"{value}", size)
            if found > RATE_MAX:
                raise ValueError(f"{value!r} is more than {RATE_MAX} messages a second")
            return found

        acks = fields.read("acks", one_of("all", "-1", "1", "0"), "all").replace("-1", "all")
        idempotent = fields.read("idempotent", truth, acks == "all")
        if idempotent and acks != "all":
            fields.item.wrong(f"an idempotent producer needs acks: all, not {acks}")
        if acks == "0":
            fields.item.wrong("acks: 0 acknowledges nothing, so nothing could be judged")
        return Writers(
            name=fields.read("name", text, "writers"),
            topic=self._topic(fields),
            rate=fields.read("rate", rate, 1.0, needed=True),
            size_bytes=size,
            acks=acks,
            idempotent=idempotent,
            keys=fields.read("keys", whole(1, KEYS_MAX), 100),
            client=fields.read("client", texts, {}),
        )

    def _readers(self, fields: Fields) -> Readers:
        return Readers(
            name=fields.read("name", text, "readers"),
            topic=self._topic(fields),
            group=fields.read("group", text, ""),
            isolation=fields.read(
                "isolation", one_of("read_uncommitted", "read_committed"), "read_uncommitted"
            ),
            client=fields.read("client", texts, {}),
        )

    def _command(self, fields: Fields) -> Command:
        return Command(
            name=fields.read("name", text, "app"),
            command=fields.read("command", _words, (), needed=True),
            probe=fields.read("probe", _probe, ""),
            every_s=fields.read("every", _positive, 0.1),
            timeout_s=fields.read("timeout", _positive, 1.0),
            ready_s=fields.read("ready", _positive, 10.0),
        )

    def _topic(self, fields: Fields) -> str:
        def known(value: Any) -> str:
            if value not in self.topics:
                there = ", ".join(self.topics) or "none"
                raise ValueError(f"{value!r} is no topic of this plan; there are {there}")
            return str(value)

        return fields.read("topic", known, "", needed=True)

    def _steady(self) -> Steady:
        item = self.top.get("steady")
        if item is None:
            return Steady()
        fields = Fields(item)
        within = fields.read("within", _positive, 20.0)
        hold = fields.read("hold", duration_s, 2.0)
        if hold > within:
            item.wrong(f"it cannot hold for {hold:g} s within {within:g} s")
        that = fields.get("that")
        found = [self._expression(each, live=True) for each in (that.items() if that else [])]
        fields.done()
        return Steady(within_s=within, hold_s=hold, that=tuple(filter(None, found)))

    # The timeline

    def _announce(self, item: Item) -> None:
        """Take notice of an entry's name before any is read: others may come after it."""
        if isinstance(item.value, dict):
            do = item.value.get("do")
            named = item.value.get("as")
            says = named or do
            name = "" if says is None else str(says.value)
            if named is None and name in self.entries:
                name = f"{name}-{len(self.entries) + 1}"
            self._own(item, name, OF_FAULT if do and _is_kind(do.value) else {})
            self.entries.append(name)

    def _entries(self, item: Item) -> list[Entry]:
        fields = Fields(item)
        if not isinstance(item.value, dict):
            return []
        number = int(item.path.removeprefix("timeline[").removesuffix("]"))
        do = fields.read("do", _known_deed, "", needed=True)
        fields.get("as")
        instant = self._instant(fields)
        repeat = self._repeat(fields)
        fault = _is_kind(do)
        entry = Entry(
            name=self.entries[number] if number < len(self.entries) else do,
            do=kind_named(do).name if fault else do,
            instant=instant,
            **(self._fault(fields, do) if fault else self._action(fields, do) if do else {}),
        )
        if do:
            fields.done()
        if repeat is None:
            return [entry]
        times, every_s = repeat
        return _repeated(entry, times, every_s, self)

    def _check_healed(self, lines: list[Item], timeline: tuple[Entry, ...]) -> None:
        """Refuse to wait for the healing of what stands until the end."""
        endless = {
            entry.name.partition("#")[0]
            for entry in timeline
            if entry.is_fault and entry.length_s is None and entry.do != "restart"
        }
        for line in lines:
            after = line.value.get("after") if isinstance(line.value, dict) else None
            name, _, moment = ("", "", "") if after is None else str(after.value).rpartition(".")
            if after is not None and moment == "healed" and name in endless:
                after.wrong(f"{name!r} stands until the end: it has no 'for'")

    def _instant(self, fields: Fields) -> Instant:
        given = [key for key in ("at", "after", "when") if key in fields]
        if len(given) != 1:
            which = " and ".join(map(repr, given)) if given else "none"
            fields.item.wrong(
                f"one of 'at', 'after', 'when' says the instant, and there is {which}"
            )
        for key, partner in (("plus", "after"), ("within", "when")):
            if key in fields and partner not in fields:
                fields.item.wrong(f"{key!r} goes with {partner!r} only")
        plus = fields.read("plus", duration_s, 0.0)
        within = fields.read("within", _positive, 30.0)
        after = fields.read("after", self._moment, None)
        when = fields.get("when")
        at = fields.read("at", duration_s, 0.0)
        if after is not None:
            return After(name=after.name, moment=after.moment, plus_s=plus)
        expression = self._expression(when, live=True) if when is not None else None
        if expression is not None:
            return When(expression=expression, within_s=within)
        return At(seconds=at)

    def _moment(self, value: Any) -> After:
        name, _, moment = str(value).rpartition(".")
        if moment not in MOMENTS:
            raise ValueError(f"{value!r} is no NAME.MOMENT with a moment of {', '.join(MOMENTS)}")
        if name != LAST and name not in self.entries:
            there = ", ".join([*self.entries, LAST])
            raise ValueError(f"{name!r} is no entry of the timeline; there are {there}")
        return After(name=name, moment=moment)

    def _repeat(self, fields: Fields) -> tuple[int, float] | None:
        item = fields.get("repeat")
        if item is None:
            return None
        inner = Fields(item)
        times = inner.read("times", whole(2, REPEATS_MAX), 2, needed=True)
        every_s = inner.read("every", _positive, 1.0, needed=True)
        inner.done()
        return times, every_s

    def _fault(self, fields: Fields, do: str) -> dict[str, Any]:
        kind = kind_named(do)
        where = fields.read("where", self._target, None, needed=True)
        item = fields.get("where")
        if where is not None and item is not None:
            if kind.scope is Scope.DIRECTORY and targets.is_node(where):
                item.wrong(f"{kind.name} needs a directory, and {item.shown} is a whole node")
            if kind.scope is Scope.BROKER and targets.is_directory(where):
                item.wrong(f"{kind.name} needs a broker, and {item.shown} is a directory")
            if where == targets.Node(targets.CONTROLLER) and kind.name not in OF_CONTROLLER:
                known = ", ".join(OF_CONTROLLER)
                item.wrong(f"{kind.name} strikes a broker; what strikes the controller is {known}")
        given: dict[str, object] = {}
        others: dict[str, Target] = {}
        for key, one in fields.rest(("for", "mechanism", *FAULT_WORDS)).items():
            if key == "with":
                other = fields.read("with", self._target, None)
                if other is not None:
                    others["with"] = other
                continue
            given[key] = one.plain
            if key == "from":
                self._check_cut_from(one, where)
        wanted = self._spec(fields, do, given, others)
        return {
            "where": where,
            "length_s": None if wanted is None else wanted.length_s,
            "spec": wanted,
            "given": given,
            "targets": others,
        }

    def _check_cut_from(self, item: Item, where: Target | None) -> None:
        if where == targets.Node(targets.CONTROLLER):
            item.wrong("a controller is cut off from all brokers")
        if isinstance(self.patient, Attach):
            return
        known = [f"broker-{number}" for number in range(1, self.patient.brokers + 1)]
        words = item.plain if isinstance(item.plain, list) else str(item.plain).split(",")
        for word in map(str, words):
            if word.startswith("broker-") and word not in known:
                item.wrong(f"{word!r}: there are the brokers 1 to {self.patient.brokers}")

    def _spec(
        self, fields: Fields, do: str, given: Mapping[str, object], others: Mapping[str, Target]
    ) -> Any:
        """Return the fault that the words make; each wrong word is a mistake of its own."""
        needs = {"with": "in the moment"} if others else {}
        right = True
        for key, value in given.items():
            try:
                spec(do, {key: value, **needs})
            except FaultError as error:
                if "needs `with`" in str(error):
                    continue
                item = fields.get(key)
                assert item is not None
                item.wrong(_WRONG_PARAMETER.sub("", str(error)))
                right = False
        if not right:
            return None
        try:
            return spec(do, {**given, **needs})
        except FaultError as error:
            fields.item.wrong(str(error))
            return None

    def _action(self, fields: Fields, do: str) -> dict[str, Any]:
        found: dict[str, Any] = {"details": {}, "targets": {}}
        for key in ACTIONS[do]:
            if key == "where":
                found["where"] = fields.read("where", self._target, None, needed=True)
            elif key == "to":
                found["targets"]["to"] = fields.read("to", self._target, None, needed=True)
            elif key == "topic":
                read = text if do == "create-topic" else self._known_topic
                found["details"]["topic"] = fields.read("topic", read, "", needed=True)
            elif key == "config":
                config = fields.read("config", texts, NO_SETTINGS, needed=True)
                found["details"] |= {f"config.{name}": value for name, value in config.items()}
            elif key in ("text",):
                found["details"][key] = fields.read(key, text, "", needed=True)
            elif key == "replicas" and do == "reassign":
                found["details"][key] = ",".join(fields.read(key, _words, (), needed=True))
            else:
                most = PARTITIONS_MAX if key != "replicas" else BROKERS_MAX
                least = 0 if key == "partition" else 1
                found["details"][key] = str(fields.read(key, whole(least, most), 0, needed=True))
        topic, partition = found["details"].get("topic"), found["details"].get("partition")
        if topic in self.topics and partition is not None:
            self._check_partition(fields.item, topic, int(partition))
            found["partition"] = TopicPartition(topic, int(partition))
        return found

    def _known_topic(self, value: Any) -> str:
        if value in self.topics:
            return str(value)
        raise ValueError(f"{value!r} is no topic of this plan; there are {', '.join(self.topics)}")

    def _check_partition(self, item: Item, topic: str, partition: int) -> None:
        count = self.topics[topic].partitions
        if partition >= count:
            item.wrong(f"{topic} has the partitions 0 to {count - 1}, not {partition}")

    def _target(self, value: Any) -> Target:
        found = targets.parse(str(value))
        need = self.patient if isinstance(self.patient, ClusterNeed) else None
        broker = getattr(found, "broker", None)
        number = found.number if isinstance(found, targets.Node) else broker
        if need is not None and number is not None and number > need.brokers:
            raise ValueError(f"{value!r}: there are the brokers 1 to {need.brokers}")
        if number == 0 and found != targets.Node(targets.CONTROLLER):
            raise ValueError(f"{value!r}: brokers are counted from 1")
        if isinstance(found, targets.Directory):
            most = DISKS_MAX if need is None else need.disks
            if not 1 <= found.number <= most:
                raise ValueError(f"{value!r}: a broker has the directories 1 to {most}")
        if isinstance(found, targets.ReplicaOf):
            self._check_replica(str(value), found)
        return found

    def _check_replica(self, value: str, found: targets.ReplicaOf) -> None:
        topic = self.topics.get(found.partition.topic)
        if topic is None:
            there = ", ".join(self.topics) or "none"
            raise ValueError(f"{value!r}: there is no such topic in this plan, there are {there}")
        if found.partition.partition >= topic.partitions:
            raise ValueError(
                f"{value!r}: {topic.name} has the partitions 0 to {topic.partitions - 1}"
            )
        if not found.is_leader and topic.replicas < 2:
            raise ValueError(f"{value!r}: {topic.name} has one replica, so nobody follows")

    # The end

    def _end(self) -> End:
        item = self.top.get("end")
        if item is None:
            return End() if self.entries else End(instant=At(seconds=10.0))
        fields = Fields(item)
        if ("at" in fields) == ("after" in fields):
            item.wrong("one of 'at' and 'after' says when it ends")
        elif "plus" in fields and "after" not in fields:
            item.wrong("'plus' goes with 'after' only")
        plus = fields.read("plus", duration_s, 0.0)
        after = fields.read("after", self._moment, None)
        at = fields.read("at", duration_s, 0.0)
        within = fields.read("within", _positive, 600.0)
        fields.done()
        instant: At | After = At(seconds=at)
        if after is not None:
            instant = After(name=after.name, moment=after.moment, plus_s=plus)
        return End(instant=instant, within_s=within)

    def _objective(self, item: Item) -> Objective | None:
        if not isinstance(item.value, dict):
            that = self._expression(item, live=False)
            return None if that is None else Objective(that=that)
        fields = Fields(item)
        severity = fields.read("severity", one_of("fail", "warn"), "fail")
        aborts = fields.read("abort", truth, False)
        that_item = fields.get("that", needed=True)
        fields.done()
        that = None if that_item is None else self._expression(that_item, live=aborts)
        if that is None:
            return None
        return Objective(that=that, is_warning=severity == "warn", aborts=aborts)

    def _expression(self, item: Item, *, live: bool) -> expressions.Expression | None:
        if not isinstance(item.value, str):
            item.wrong(f"{item.shown} is no expression, such as writers.lost == 0")
            return None
        owners = Owners(self.owners)
        try:
            return expressions.parse(item.value, owners.live_unit_of if live else owners.unit_of)
        except ValueError as error:
            item.wrong(str(error))
            return None


def _repeated(entry: Entry, times: int, every_s: float, reader: _Reader) -> list[Entry]:
    """Return the entry so many times, as `NAME#1` and so on, the later ones after the first."""
    from dataclasses import replace

    first = f"{entry.name}#1"
    for number in range(1, times + 1):
        reader.owners[f"{entry.name}#{number}"] = reader.owners[entry.name]
    return [
        replace(
            entry,
            name=f"{entry.name}#{number}",
            instant=entry.instant
            if number == 1
            else After(name=first, moment="injected", plus_s=every_s * (number - 1)),
        )
        for number in range(1, times + 1)
    ]


def _is_kind(word: object) -> bool:
    try:
        kind_named(str(word))
    except FaultError:
        return False
    return True


def _known_deed(value: Any) -> str:
    if isinstance(value, str) and (value in ACTIONS or _is_kind(value)):
        return value
    raise ValueError(
        f"{value!r} is neither a fault ({', '.join(KINDS)}) nor an action ({', '.join(ACTIONS)})"
    )


def _positive(value: Any) -> float:
    found = duration_s(value)
    if found <= 0:
        raise ValueError(f"{value!r} is not above 0")
    return found


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value.strip():
        return tuple(shlex.split(value))
    if isinstance(value, list) and value and not any(isinstance(x, dict | list) for x in value):
        return tuple(map(str, value))
    raise ValueError(f"{value!r:.60} is no list of words")


def _addresses(value: Any) -> str:
    found = ",".join(value) if isinstance(value, list) else str(value)
    for address in found.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"{address!r} is no HOST:PORT")
    return found


def _probe(value: Any) -> str:
    if isinstance(value, str) and re.match(r"https?://[^/]+", value):
        return value
    raise ValueError(
        f"{value!r:.60} is no address of a probe, such as http://127.0.0.1:8000/health"
    )
