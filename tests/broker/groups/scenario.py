"""Runs the text scenarios of classic groups in `tests/broker/groups/scenarios`.

A file has scenarios, each below a line `== TITLE`. A scenario is a list of commands, each of one
line, behind it or indented below it what happens: records that are written, requests that are
answered, and the state of the group when it is another one. Lines that begin with `#` are comments.

    settings KEY=VALUE ...            of the coordinator; only as the first command
    join NAME [KEY=VALUE ...]         fields of JoinGroup; version=3 unless said otherwise
    sync NAME [KEY=VALUE ...]         ask for the assignment
    lead NAME MEMBER=BYTES ...        ask for it and bring those of all
    beat NAME [KEY=VALUE ...]         a heartbeat
    leave NAME ... [KEY=VALUE ...]
    commit NAME OFFSET [KEY=VALUE ..] an offset of t-0; NAME `-` is no member
    completing NAME ... [KEY=VALUE .] members join; NAME:INSTANCE is a static one. Tells nothing
    stable NAME ... [KEY=VALUE ...]   they get their names as assignments, too. Tells nothing
    wait MS                           timers fire
    timers                            those that are set, in ms from now
    parked                            requests that wait for other members
    hangup NAME                       the client of a parked request goes away
    refuse, accept                    the log takes no records; takes them again
    stall, replicate                  the high watermark stays; reaches the end of the log
    late                              what waits for the high watermark waits no longer
    failover [committed] [KEY=VALUE ..]  another leader loads the log, or what is committed of it
    offsets [group=NAME]              all that a client is told
    asks-stable TOPIC                 its offset of partition 0, whatever still waits to be
    forget TOPIC NUMBER ... [group=NAME]  delete offsets of partitions
    groups [states=..] [types=..]     those that are listed, with protocol type, state and type
    delete NAME ...                   delete groups
    topic NAME COUNT                  a topic is created, or created anew
    drop TOPIC, vanish TOPIC          it is deleted, and the shard is told; is not told

The fields `instance`, `generation`, `session`, `rebalance`, `protocols` and `topics` are short for
those of the requests; `id=NAME` sends the member id of another name, `id=?` one that nobody has. A
name that has no member id joins without one. Generations are those that a name was told last.

`JBODLAB_REWRITE_SCENARIOS=1` writes what happens in place of what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.requests import (
    DeleteGroups,
    DescribeGroups,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    NamedPartitions,
    OffsetDelete,
    OffsetFetch,
    Request,
)
from broker.groups.responses import (
    DeleteGroupsResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetFetchResponse,
    OffsetResults,
    SyncGroupResponse,
)
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    SETTINGS,
    Bench,
    beat,
    commit,
    fetched,
    join,
    lead,
    subscription,
    sync,
)

WIDTH = 100
SHORT = {
    "instance": "group_instance_id",
    "session": "session_timeout_ms",
    "rebalance": "rebalance_timeout_ms",
    "type": "protocol_type",
    "protocol": "protocol_name",
    "retention": "offsets_retention_ms",
    "look": "offsets_retention_check_interval_ms",
}
Fields = dict[str, Any]


def scenarios_of(text: str) -> dict[str, str]:
    """Return the scenarios of a file by their titles."""
    _, *parts = ("\n" + text).split("\n== ")
    return {title: body for title, _, body in (part.partition("\n") for part in parts)}


def run_scenario(text: str) -> str:
    """Return a scenario with what happens below each command."""
    scenario = _Scenario()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        command = line.partition(" -> ")[0]
        happened = scenario.run(command) if command and not command.startswith("#") else []
        on_one_line = " -> ".join([command, *(["; ".join(happened)] if happened else [])])
        if len(on_one_line) <= WIDTH:
            lines.append(on_one_line)
        else:
            lines += [command, *(f"  {each}" for each in happened)]
    return "\n".join(lines) + "\n"


class _Scenario:
    def __init__(self) -> None:
        self.bench = Bench()
        self.ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.asked: dict[Ticket, tuple[str, str]] = {}
        self.told: set[Ticket] = set()
        self.written = 0
        self.state = "Dead"

    def run(self, line: str) -> list[str]:
        command, *words = line.split()
        fields = {}
        for word in [each for each in words if "=" in each]:
            key, _, value = word.partition("=")
            fields[SHORT.get(key, key)] = int(value) if value.lstrip("-").isdigit() else value
        names = [word for word in words if "=" not in word]
        name = f"_{command.replace('-', '_')}"
        run: Callable[[list[str], Fields], Iterable[str] | None] = getattr(self, name)
        told = [*(run(names, fields) or ()), *self._happened()]
        return [] if command in ("completing", "stable") else told

    def _happened(self) -> Iterable[str]:
        for ticket, response in self.bench.answers.items():
            if ticket in self.asked and getattr(response, "member_id", ""):
                self.ids[self.asked[ticket][0]] = response.member_id
        for record, _ in self.bench.log[self.written :]:
            yield f"writes {self._record(record)}"
        self.written = len(self.bench.log)
        for ticket, response in self.bench.answers.items():
            if ticket in self.asked and ticket not in self.told:
                self.told.add(ticket)
                name, asked = self.asked[ticket]
                yield f"{name} {asked}: {self._response(name, response)}"
        (group,) = self.bench.answer(DescribeGroups(groups=("g",))).groups
        if group.group_state != self.state:
            self.state = group.group_state
            yield self.state

    def _record(self, record: Any) -> str:
        key, value = record
        if hasattr(key, "topic"):
            return f"{key.topic}-{key.partition} " + ("-" if value is None else str(value.offset))
        if value is None:
            return "no group"
        members = " ".join(
            f"{self._name(each.member_id)}={each.assignment.decode() or '-'}"
            for each in value.members
        )
        return f"generation {value.generation} of {members or 'nobody'}"

    def _name(self, member_id: str) -> str:
        if not member_id:
            return "-"
        known = [name for name, each in self.ids.items() if each == member_id]
        return known[0] if known else "?"

    def _response(self, name: str, response: Any) -> str:
        if isinstance(response, KafkaError):
            return response.code.name
        if isinstance(response, OffsetResults):
            (topic,) = response.topics
            return " ".join(each.error_code.name for each in topic.partitions)
        if isinstance(response, OffsetFetchResponse):
            offset = response.topics[0].partitions[0]
            return f"{offset.committed_offset} {offset.error_code.name}"
        if isinstance(response, DeleteGroupsResponse):
            return " ".join(each.error_code.name for each in response.results)
        if isinstance(response, LeaveGroupResponse) and response.members:
            return " ".join(each.error_code.name for each in response.members)
        if response.error_code is not ErrorCode.NONE:
            return str(response.error_code.name)
        if isinstance(response, JoinGroupResponse):
            self.generations[name] = response.generation_id
            return self._joined(response)
        if isinstance(response, SyncGroupResponse):
            return f"gets {response.assignment.decode() or 'nothing'}"
        return "NONE"

    def _joined(self, response: JoinGroupResponse) -> str:
        members = " ".join(self._name(each.member_id) for each in response.members)
        return (
            f"generation {response.generation_id} {response.protocol_name} "
            f"of {self._name(response.leader)}"
            + (f" with {members}" if members else "")
            + (", assigned already" if response.skip_assignment else "")
        )

    def _ask(self, name: str, asked: str, request: Request) -> None:
        ticket = Ticket(self.bench.next_ticket)
        self.asked[ticket] = name, asked
        self.bench.ask(request)

    def _member(self, name: str, fields: Fields) -> tuple[str, int]:
        """The member id and the generation that a request is sent with."""
        who = fields.pop("id", name)
        generation = fields.pop("generation", self.generations.get(name, -1))
        return ("who" if who == "?" else self.ids.get(who, "")), generation

    # The commands

    def _settings(self, names: list[str], fields: Fields) -> None:
        self.bench = Bench(replace(SETTINGS, **fields))

    def _join(self, names: list[str], fields: Fields) -> None:
        (name,) = names
        member_id, _ = self._member(name, fields)
        topics = subscription(*str(fields.pop("topics", "t")).split(","), version=0)
        protocols = str(fields.pop("protocols", "range")).split(",")
        metadata = str(fields.pop("metadata", "")).encode() or topics
        fields["protocols"] = tuple(JoinProtocol(each, metadata) for each in protocols)
        values = {"version": 3, "client_id": name, **fields}
        self._ask(name, "join", join(member_id, **values))

    def _sync(self, names: list[str], fields: Fields) -> None:
        (name,) = names
        member_id, generation = self._member(name, fields)
        request = sync(member_id, generation, version=fields.pop("version", 3))
        self._ask(name, "sync", replace(request, **fields))

    def _lead(self, names: list[str], fields: Fields) -> None:
        (name,) = names
        instance = fields.pop("group_instance_id", None)
        member_id, generation = self._member(name, fields)
        given = {self.ids.get(each, each): str(has).encode() for each, has in fields.items()}
        self._ask(name, "sync", lead(member_id, generation, given, group_instance_id=instance))

    def _beat(self, names: list[str], fields: Fields) -> None:
        for name in names:
            member_id, generation = self._member(name, dict(fields))
            self._ask(name, "beat", beat(member_id, generation, fields.get("group_instance_id")))

    def _leave(self, names: list[str], fields: Fields) -> None:
        version, instance = fields.pop("version", 5), fields.get("group_instance_id")
        members = tuple(
            LeavingMember(self._member(name, dict(fields))[0], instance) for name in names
        )
        request = LeaveGroup(version=version, group_id="g", members=members)
        self._ask(" ".join(names), "leave", request)

    def _commit(self, names: list[str], fields: Fields) -> None:
        name, offset = names
        if name != "-":
            fields["member_id"], generation = self._member(name, fields)
            fields["generation_id_or_member_epoch"] = generation
        self._ask(name, "commit", commit(int(offset), **fields))

    def _offsets(self, names: list[str], fields: Fields) -> Iterable[str]:
        found = fetched(self.bench, **fields).items()
        yield ", ".join(f"{topic}-{index} {offset}" for (topic, index), offset in found) or "none"

    def _asks_stable(self, names: list[str], fields: Fields) -> None:
        topics = (NamedPartitions(names[0], (0,)),)
        request = OffsetFetch(group_id="g", topics=topics, require_stable=True)
        self._ask("-", "offset", request)

    def _forget(self, names: list[str], fields: Fields) -> None:
        topics = (NamedPartitions(names[0], tuple(map(int, names[1:]))),)
        request = OffsetDelete(group_id=fields.get("group", "g"), topics=topics)
        self._ask("-", "forget", request)

    def _groups(self, names: list[str], fields: Fields) -> Iterable[str]:
        filters = {f"{key}_filter": tuple(value.split(",")) for key, value in fields.items()}
        listed = filter(None, self.bench.answer(ListGroups(**filters)))
        yield ", ".join(" ".join(filter(None, each)) for each in listed) or "none"

    def _delete(self, names: list[str], fields: Fields) -> None:
        self._ask("-", "delete", DeleteGroups(groups_names=tuple(names)))

    def _topic(self, names: list[str], fields: Fields) -> None:
        self.bench.topics.create(names[0], int(names[1]))

    def _vanish(self, names: list[str], fields: Fields) -> None:
        self.bench.topics.delete(names[0])

    def _drop(self, names: list[str], fields: Fields) -> None:
        self._vanish(names, fields)
        self.bench.carry_out(self.bench.shard.topics_deleted(names, self.bench.now_ms))
        self.bench.advance(0)

    def _completing(self, names: list[str], fields: Fields) -> None:
        for name, instance in self._static(names):
            self._join([name], fields | instance)
        while self.asked.keys() - self.bench.answers.keys():
            self.bench.advance(self.bench.settings.initial_rebalance_delay_ms or 1)
        assert [*self._happened()][-1] == "CompletingRebalance"

    def _stable(self, names: list[str], fields: Fields) -> None:
        self._completing(names, fields)
        (leader, its_instance), *others = self._static(names)
        for name, instance in others:
            self._sync([name], instance)
        given = {name: name for name, _ in self._static(names)}
        self._lead([leader], given | its_instance)
        assert [*self._happened()][-1] == "Stable"

    def _static(self, names: list[str]) -> list[tuple[str, Fields]]:
        split = (name.partition(":") for name in names)
        return [(name, {"group_instance_id": of} if of else {}) for name, _, of in split]

    def _wait(self, names: list[str], fields: Fields) -> None:
        self.bench.advance(int(names[0]))

    def _timers(self, names: list[str], fields: Fields) -> Iterable[str]:
        for (kind, *rest), at_ms in sorted(self.bench.timers.items(), key=lambda each: each[1]):
            if kind != "offsets":
                who = [self._name(str(each)) for each in rest[1:]]
                yield " ".join([str(kind).removeprefix("classic "), *who, str(at_ms - self.now_ms)])

    @property
    def now_ms(self) -> int:
        return self.bench.now_ms

    def _parked(self, names: list[str], fields: Fields) -> Iterable[str]:
        for ticket in sorted(self.bench.shard.parked()):
            yield " ".join(self.asked[ticket])

    def _hangup(self, names: list[str], fields: Fields) -> None:
        parked = self.bench.shard.parked()
        (ticket,) = (each for each in parked if self.asked[each][0] == names[0])
        self.bench.hang_up(ticket)

    def _refuse(self, names: list[str], fields: Fields) -> None:
        self.bench.refusal = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _accept(self, names: list[str], fields: Fields) -> None:
        self.bench.refusal = None

    def _stall(self, names: list[str], fields: Fields) -> None:
        self.bench.replicates = False

    def _replicate(self, names: list[str], fields: Fields) -> None:
        self.bench.replicates = True
        self.bench.replicate()

    def _late(self, names: list[str], fields: Fields) -> None:
        self.bench.commit_in_time_failed()

    def _failover(self, names: list[str], fields: Fields) -> None:
        settings = replace(self.bench.settings, **fields)
        bench = self.bench.fail_over(keeps="committed" if names else "written")
        self.bench = Bench(settings, bench.topics, bench.log, bench.now_ms)
        self.asked, self.told, self.written = {}, set(), len(self.bench.log)


FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
