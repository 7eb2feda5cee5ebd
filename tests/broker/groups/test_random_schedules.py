"""Clients that follow the protocol, a log that fails and a coordinator that moves, by seed.

These rules must hold: an acknowledged commit is returned by every later fetch, and no fetch goes
back; in one generation no partition belongs to two members; nobody waits for longer than the
timeouts allow; the table is what the log says (`Bench.check`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from broker.coordination.core import Ticket
from broker.groups.responses import JoinGroupResponse, SyncGroupResponse
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import KafkaError
from tests.broker.groups.bench import (
    SETTINGS,
    Bench,
    beat,
    commit,
    compacted,
    fetched,
    join,
    lead,
    leave,
    sync,
    table_of,
)

SESSION_MS, REBALANCE_MS = 6_000, 10_000
STEP_MS = 500
LIMIT_MS = 2 * (SESSION_MS + REBALANCE_MS) + 300_000
"""Longest that anything may be parked; new members may be for five minutes."""

RETRIED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
PARTITIONS = 6


@dataclass
class Client:
    """A consumer: joins, syncs, heartbeats, commits; one request at a time."""

    name: str
    instance: str | None
    member_id: str = ""
    generation: int = -1
    is_member: bool = False
    ticket: Ticket | None = None
    asked: str = ""
    since_ms: int = 0


@dataclass
class World:
    """The cluster as its users see it."""

    rng: random.Random
    bench: Bench
    clients: list[Client]
    next_commit: int = 0
    in_flight: int = -1
    acknowledged: int = -1
    highest_fetched: int = -1

    def step(self) -> None:
        """Let one thing happen."""
        for client in self.clients:
            self.hear(client)
        self.rng.choice(
            [self.act] * 12
            + [self.let_time_pass] * 6
            + [self.commit, self.fetch, self.stall, self.fail_over, self.refuse, self.vanish]
        )()

    def act(self) -> None:
        """Let a client send what it would send next."""
        client = self.rng.choice(self.clients)
        if client.ticket is not None:
            return
        if client.is_member and self.rng.random() < 0.06 and client.instance is None:
            self.send(client, "leave", leave(client.member_id))
            client.is_member, client.member_id = False, ""
        elif client.is_member and self.rng.random() < 0.8:
            request = beat(client.member_id, client.generation, client.instance)
            self.send(client, "beat", request)
        elif not client.is_member or self.rng.random() < 0.1:
            self.send_join(client)

    def send_join(self, client: Client) -> None:
        client.is_member = False
        version = self.rng.choice([3, 9])
        self.send(
            client,
            "join",
            join(
                client.member_id,
                version=version,
                client_id=client.name,
                group_instance_id=client.instance,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            ),
        )

    def send(self, client: Client, asked: str, request: Any) -> None:
        client.asked, client.since_ms = asked, self.bench.now_ms
        client.ticket = self.bench.ask(request)

    def hear(self, client: Client) -> None:
        """Let a client take an answer in."""
        if client.ticket is None:
            return
        if client.ticket not in self.bench.answers:
            assert self.bench.now_ms - client.since_ms <= LIMIT_MS, client
            return
        response = self.bench.answers[client.ticket]
        client.ticket = None
        code = response.code if isinstance(response, KafkaError) else response.error_code
        match code:
            case ErrorCode.NONE if isinstance(response, JoinGroupResponse):
                self.joined(client, response)
            case ErrorCode.NONE if isinstance(response, SyncGroupResponse):
                self.assigned(client, response)
            case ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = response.member_id
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                client.is_member = False
            case (
                ErrorCode.UNKNOWN_MEMBER_ID
                | ErrorCode.FENCED_INSTANCE_ID
                | ErrorCode.GROUP_MAX_SIZE_REACHED
            ):
                client.is_member, client.member_id = False, ""
            case _:
                assert code is ErrorCode.NONE or code in RETRIED, code
                if client.asked in ("join", "sync"):
                    client.is_member = False

    def joined(self, client: Client, response: JoinGroupResponse) -> None:
        assert response.generation_id > 0
        client.member_id, client.generation = response.member_id, response.generation_id
        members = [member.member_id for member in response.members]
        if response.skip_assignment:
            members = []
        given = {
            each: bytes(range(at, PARTITIONS, len(members))) for at, each in enumerate(members)
        }
        request = sync(client.member_id, client.generation)
        if given:
            request = lead(client.member_id, client.generation, given)
        self.send(client, "sync", replace(request, group_instance_id=client.instance))

    def assigned(self, client: Client, response: SyncGroupResponse) -> None:
        client.is_member = True
        stored = next(
            at
            for at in range(len(self.bench.log) - 1, -1, -1)
            if getattr(self.bench.log[at][0].value, "generation", None) == client.generation
            and self.bench.log[at][0].value.members  # type: ignore[union-attr]
        )
        value: Any = self.bench.log[stored][0].value
        present = {member.member_id: member.assignment for member in value.members}
        assert present.get(client.member_id) == response.assignment
        given = [each for assignment in present.values() for each in assignment]
        assert len(given) == len(set(given))

    def commit(self) -> None:
        """Commit a larger offset, as administrators and standalone consumers do."""
        if self.in_flight != -1:
            self.look_at_commit()
        if self.in_flight == -1:
            self.next_commit += 1
            self.in_flight = self.bench.ask(commit(self.next_commit, group="standalone"))

    def look_at_commit(self) -> None:
        answer = self.bench.answers.get(Ticket(self.in_flight))
        if answer is None:
            return
        self.in_flight = -1
        if not isinstance(answer, KafkaError):
            assert answer.topics[0].partitions[0].error_code is ErrorCode.NONE
            self.acknowledged = self.next_commit

    def fetch(self) -> None:
        """Fetch what is committed."""
        if self.in_flight != -1:
            self.look_at_commit()
        found = fetched(self.bench, "standalone").get(("t", 0), -1)
        assert found >= self.acknowledged
        assert found >= self.highest_fetched
        self.highest_fetched = found

    def let_time_pass(self) -> None:
        self.bench.advance(self.rng.randrange(STEP_MS * 4))

    def stall(self) -> None:
        """Let the followers stop, or go on; a commit may come too late."""
        if self.bench.replicates:
            self.bench.replicates = False
            return
        if self.rng.random() < 0.3:
            self.bench.commit_in_time_failed()
        self.bench.replicates = True
        self.bench.replicate()

    def refuse(self) -> None:
        """Let the log refuse batches, or take them again."""
        error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.bench.refusal = None if self.bench.refusal is not None else error

    def fail_over(self) -> None:
        """Let the coordinator's directory die: everybody who waits hears 16, the next one loads."""
        if self.rng.random() < 0.7:
            return
        self.look_at_commit()
        parked = set(self.bench.shard.parked())
        for client in self.clients:
            self.hear(client)
            if client.ticket is not None:
                assert client.ticket in parked or client.ticket in self.bench.waiting()
                client.ticket, client.is_member = None, client.asked == "beat"
        self.in_flight = -1
        keeps = self.rng.choice(["written", "committed"])
        self.bench = self.bench.fail_over(keeps=keeps)

    def vanish(self) -> None:
        """Let a client crash: its request is lost, and it forgets who it was."""
        client = self.rng.choice(self.clients)
        if client.ticket is not None and self.rng.random() < 0.5:
            self.bench.hang_up(client.ticket)
        client.ticket, client.is_member, client.member_id = None, False, ""


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_or_owned_twice_and_nobody_waits_for_ever(seed: int) -> None:
    """I1, I2, I3, I7, I8, I9."""
    rng = random.Random(seed)
    delay = rng.choice([0, 3_000])
    limit = rng.choice([2, 2**31 - 1])
    settings = replace(SETTINGS, initial_rebalance_delay_ms=delay, max_size=limit)
    clients = [
        Client(name, instance)
        for name, instance in (("a", None), ("b", None), ("c", "i"), ("d", "j"))
    ]
    if limit == 2:
        clients = clients[::2]
    world = World(rng, Bench(settings), clients)

    for _ in range(400):
        world.step()

    # Once all is well, everybody gets an answer, and those that heartbeat are members.
    world.bench.refusal = None
    world.bench.replicates = True
    world.bench.replicate()
    for _ in range(300):
        for client in clients:
            world.hear(client)
            if client.ticket is None and not client.is_member:
                world.send_join(client)
            elif client.ticket is None:
                request = beat(client.member_id, client.generation, client.instance)
                world.send(client, "beat", request)
        world.bench.advance(STEP_MS)
    for client in clients:
        world.hear(client)
    assert all(client.is_member for client in clients)
    assert len({client.generation for client in clients}) == 1
    world.fetch()
    # The log may have been compacted up to any point.
    log = [(offset, record) for offset, (record, _) in enumerate(world.bench.log)]
    for below in rng.choices(range(len(log) + 1), k=5):
        assert table_of(compacted(log, below)) == world.bench.shard.tables.written
