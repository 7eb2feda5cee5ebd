"""Each checker of several controllers fires: on what could have come of the bug that it is for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace as Values
from typing import Any

import pytest

from jbodlab.controller_api.requests import AllocateProducerIdsResponse
from jbodlab.metadata.log.quorum_state import FILE_NAME
from jbodlab.metadata.log.snapshots import snapshot_name
from jbodlab.metadata.records.control_records import KRaftVersionFeature, KRaftVoter
from jbodlab.raft.events import LeaderSuspected
from jbodlab.raft.instructions import (
    AdvanceHighWatermark,
    ElectionState,
    Respond,
    SendRequest,
    TruncateLog,
    WriteQuorumState,
)
from jbodlab.raft.log_view import OffsetAndEpoch
from jbodlab.raft.messages import (
    BeginQuorumEpochResponse,
    FetchRequest,
    VoteRequest,
    VoteResponse,
)
from jbodlab.raft.states import Leader
from jbodlab.raft.voters import UNKNOWN_DIRECTORY, History, ReplicaKey, VoterSet
from jbodlab.record_batch.record_batch import build_batch, iterate_headers
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.simulation import faults, plan, quorum_faults, settled, taps
from tests.simulation.disk import File, Folder
from tests.simulation.loop import PROCESS, Process, SimLoop
from tests.simulation.plan import Options
from tests.simulation.quorum import Quorum
from tests.simulation.world import World

HERE, THERE, YONDER = 100, 101, 102


def voters(*nodes: int) -> VoterSet:
    feature = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    return VoterSet.of(
        KRaftVoter(
            voter_id=node,
            voter_directory_id=UNKNOWN_DIRECTORY,
            endpoints=(),
            k_raft_version_feature=feature,
        )
        for node in nodes
    )


def log_with(*sets: VoterSet) -> Any:
    """Return the view of a log with these voters, one set behind the other from offset 5 on."""
    history = History(voters(HERE, THERE, YONDER))
    for offset, each in enumerate(sets, 5):
        history.add(offset, each)
    return Values(voters=history)


class Controllers(World):
    """Three controllers that never run."""

    def __init__(self) -> None:
        super().__init__(SimLoop("1"), Options(seed=1, brokers=1, controllers=3))
        self.build()
        self.loaded: list[bytes] = []
        self.next_offset = 0
        self.images: dict[int, Any] = {}
        self.quorum = self.its = Quorum(self, self._load, self.images)
        for node in self.controllers:
            node.process = Process(f"{node.name}.1")
            folder = Folder(1)
            self.disks[node.metadata_dir].medium.root.durable[METADATA_DIR_NAME] = folder
        self.committed_to(0)

    def _load(self, data: bytes) -> None:
        self.loaded.append(data)
        self.committed_to(self.metadata.next_offset + 1)

    def committed_to(self, offset: int) -> Controllers:
        self.metadata: Any = Values(next_offset=offset, image=Values(offset=offset - 1))
        return self

    def at(self, node: int, step: Callable[..., Any], *args: Any) -> Any:
        """Let something happen in a process."""
        token = PROCESS.set(self.nodes[node].process or Process("none"))
        try:
            return step(*args)
        finally:
            PROCESS.reset(token)

    def stores(self, node: int, **state: int) -> Controllers:
        file = File(2, durable=bytearray(json.dumps(state).encode()))
        self._folder(node).durable[FILE_NAME] = file
        return self

    def _folder(self, node: int) -> Folder:
        root = self.disks[self.nodes[node].metadata_dir].medium.root
        folder = root.durable[METADATA_DIR_NAME]
        assert isinstance(folder, Folder)
        return folder

    def has(self, end_offset: int, *nodes: int) -> Controllers:
        """Let logs on disks end at an offset."""
        for node in nodes:
            file = File(3)
            for offset in range(end_offset):
                file.durable += batch(offset)
            self._folder(node).durable[f"{0:020}.log"] = file
        return self

    def does(self, node: int, instruction: Any, **core: Any) -> Controllers:
        """Let a core decide something; it leads if nothing else is said."""
        known = {"is_whole": True, "end_offset": 9, "state": leader(), "log": log_with()} | core
        self.at(node, self.its._carries_out, Values(core=Values(**known)), instruction)
        return self

    def asked(self, node: int, candidate: int, epoch: int) -> Controllers:
        event = Values(request_id=1, request=vote(candidate, epoch))
        self.its._asked[self.nodes[node].process or Process(""), 1] = event.request
        return self

    def votes(self, node: int, candidate: int, epoch: int = 3) -> Controllers:
        """Let a controller give its vote, which is on its disk."""
        self.stores(node, votedId=candidate, leaderEpoch=epoch).asked(node, candidate, epoch)
        return self.does(node, answer(epoch, is_granted=True))

    def appends(self, node: int, *batches: bytes) -> Controllers:
        found = [Values(base_offset=int.from_bytes(each[:8]), data=each) for each in batches]
        self.at(node, self.its._appends, None, 1, found)
        return self

    def commits(self, node: int, *batches: bytes) -> Controllers:
        found = [(int.from_bytes(each[:8]), each) for each in batches]
        last = next(header for _, header in iterate_headers(batches[-1]))
        end = last.next_offset
        self.at(node, self.its._commits, None, Values(batches=found, end_offset=end))
        return self

    def refuses(self, node: int, other: int) -> Controllers:
        self.network.disown(self.nodes[node].name, self.nodes[other].name)
        return self

    def suspects(self, node: int, leader_id: int) -> Controllers:
        self.its._begun[leader_id] = -10.0
        core = Values(state=Values(leader_id=leader_id))
        self.at(node, self.its._takes_in, Values(core=core), LeaderSuspected())
        return self

    def snapshots(self, node: int, end_offset: int) -> Controllers:
        path = Path(snapshot_name(end_offset, 0))
        self.at(node, self.its._writes_snapshot, Values(path=path))
        return self

    def answers(
        self, epoch: int, *, after: int = 0, needs: int = 0, controls: int = 0, response: Any = None
    ) -> None:
        """Let an active controller answer, after one of another epoch has while it was asked."""

        async def submit(_active: Any, decide: Any) -> Any:
            decide(Values(next_offset=needs + controls, image=Values(offset=needs - 1)), 0)
            self.its._answered = max(self.its._answered, after)
            return response

        decide = lambda _state, _now: Values(records=())  # noqa: E731
        asyncio.run(self.its._answers(submit, Values(epoch=epoch), decide))

    def knows(self, node: int, offset: int, topics: Any) -> Controllers:
        parts = dict.fromkeys(("cluster", "configs", "features", "next_producer_id"))
        image = Values(offset=offset, topics=topics, **parts)
        self.images.setdefault(offset, image)
        self.at(node, self.its._has_committed, Values(image=image), None)
        return self


def leader() -> Leader:
    return Leader(
        epoch=LeaderEpoch(3), leader_id=BrokerId(HERE), start_offset=Offset(0), progress=None
    )  # type: ignore[arg-type]


def batch(offset: int, epoch: int = 0, value: bytes = b"a") -> bytes:
    return build_batch([(None, value)], base_offset=offset, leader_epoch=epoch, timestamp_ms=0)


def wide_batch(offset: int) -> bytes:
    values = [(None, b"a"), (None, b"b"), (None, b"c")]
    return build_batch(values, base_offset=offset, leader_epoch=0, timestamp_ms=0)


def vote(candidate: int, epoch: int) -> VoteRequest:
    end = OffsetAndEpoch(Offset(0), LeaderEpoch(0))
    key = ReplicaKey(BrokerId(candidate), UNKNOWN_DIRECTORY)
    return VoteRequest(
        candidate=key, epoch=LeaderEpoch(epoch), voter=None, end=end, is_pre_vote=False
    )


def answer(epoch: int, *, is_granted: bool) -> Respond:
    response = VoteResponse(epoch=LeaderEpoch(epoch), leader_id=None, is_granted=is_granted)
    return Respond(1, response)


def writes(epoch: int, leader_id: int | None = None) -> WriteQuorumState:
    known = None if leader_id is None else BrokerId(leader_id)
    return WriteQuorumState(ElectionState(epoch=LeaderEpoch(epoch), leader_id=known), 0, ())


def asks_from(node: int, offset: int) -> SendRequest:
    end = OffsetAndEpoch(Offset(offset), LeaderEpoch(0))
    key = ReplicaKey(BrokerId(node), UNKNOWN_DIRECTORY)
    request = FetchRequest(replica=key, epoch=LeaderEpoch(0), end=end, max_wait_ms=0, max_bytes=1)
    return SendRequest(1, BrokerId(HERE), (), request)


def stands(candidate: int, epoch: int) -> SendRequest:
    return SendRequest(1, BrokerId(THERE), (), vote(candidate, epoch))


def advances(offset: int) -> AdvanceHighWatermark:
    return AdvanceHighWatermark(Offset(offset))


def begins(epoch: int) -> Respond:
    return Respond(1, BeginQuorumEpochResponse(epoch=LeaderEpoch(epoch), leader_id=None))


def led_alone(world: Controllers) -> list[Any]:
    """Return what is wrong with a cluster whose active controller is the sole voter."""
    process = world.nodes[HERE].process
    world.its._leaderships[process] = Values(is_active=True)
    core = Values(is_whole=True, log=log_with(voters(HERE)))
    world.its._drivers[process] = Values(core=core)
    return [each for each in settled._of_controllers(world) if each[0] == "RL5"]


def committed(world: Controllers) -> Controllers:
    return world.has(9, *ALL).does(HERE, advances(9))


GIVEN = AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)
ALL = (HERE, THERE, YONDER)
CASES: list[tuple[str, Callable[[Controllers], Any]]] = [
    ("R1", lambda w: w.does(HERE, writes(3, HERE)).does(THERE, writes(3, THERE))),
    ("R1", lambda w: w.does(HERE, writes(3, HERE)).does(YONDER, writes(3, THERE))),
    ("R2", lambda w: w.votes(YONDER, HERE).votes(YONDER, THERE)),
    ("R2", lambda w: w.votes(HERE, THERE).does(HERE, stands(HERE, 3))),
    ("R3", lambda w: w.appends(HERE, batch(0)).appends(THERE, batch(0, value=b"b"))),
    (
        "R3",
        lambda w: w.appends(HERE, batch(0), batch(1, 2)).appends(THERE, batch(0, 1), batch(1, 2)),
    ),
    ("R4", lambda w: w.committed_to(10).does(HERE, writes(3, HERE), end_offset=9)),
    ("R5", lambda w: w.commits(HERE, batch(0)).commits(THERE, batch(0, value=b"b"))),
    ("R5", lambda w: w.knows(HERE, 4, "t0").knows(THERE, 4, "t1")),
    ("R5", lambda w: w.at(HERE, w.its._installs, None, Values(content=Values(end_offset=1)))),
    ("R6", lambda w: w.has(9, *ALL).does(HERE, advances(9)).does(HERE, advances(8))),
    ("R6", lambda w: w.has(9, *ALL).committed_to(9).does(HERE, advances(8))),
    ("R7", lambda w: w.has(9, HERE).has(8, THERE, YONDER).does(HERE, advances(9))),
    (
        "R7",
        lambda w: w.has(9, HERE, YONDER).does(HERE, advances(9), log=log_with(voters(HERE, THERE))),
    ),
    ("R8", lambda w: w.has(9, *ALL).does(HERE, advances(9)).does(HERE, TruncateLog(Offset(8)))),
    (
        "R8",
        lambda w: (
            w.appends(HERE, batch(0)).commits(THERE, batch(0)).does(HERE, TruncateLog(Offset(0)))
        ),
    ),
    ("R9", lambda w: (w.answers(4), w.answers(3))),
    ("R10", lambda w: w.committed_to(8).answers(3, needs=9)),
    ("R12", lambda w: committed(w).does(HERE, writes(3), log=log_with(voters(*ALL), voters(HERE)))),
    ("R12", lambda w: w.does(HERE, writes(3), log=log_with(voters(HERE, THERE), voters(HERE)))),
    ("R13", lambda w: w.does(HERE, writes(3)).does(HERE, writes(2))),
    ("R14", lambda w: w.stores(HERE, leaderEpoch=2).does(HERE, begins(3))),
    ("R14", lambda w: w.asked(HERE, THERE, 3).does(HERE, answer(0, is_granted=True))),
    ("R14", lambda w: w.stores(HERE, leaderEpoch=3, votedId=-1).does(HERE, stands(HERE, 3))),
    ("R14", lambda w: w.has(8, THERE).does(THERE, asks_from(THERE, 9))),
    ("R18", lambda w: w.refuses(HERE, THERE).suspects(HERE, THERE)),
    ("R20", lambda w: [w.answers(3, response=each) for each in (GIVEN, again())]),
    ("RL1", settled.check_led),
    ("RL2", lambda w: [w.report(*each) for each in settled._of_controllers(w)]),
    ("RL2", lambda w: w.commits(HERE, wide_batch(0)).snapshots(THERE, 2)),
    ("RL5", lambda w: [w.report(*each) for each in led_alone(w)]),
    ("RL4", lambda w: (setattr(w, "is_settled", True), w.does(HERE, writes(1)))),
]


def again() -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=1000)


FINE: list[Callable[[Controllers], Any]] = [
    lambda w: w.does(HERE, writes(3, HERE)).does(THERE, writes(3, HERE)).does(HERE, writes(4)),
    lambda w: w.votes(YONDER, HERE).votes(YONDER, HERE).votes(YONDER, THERE, 4),
    lambda w: w.stores(HERE, votedId=HERE, leaderEpoch=3).does(HERE, stands(HERE, 3)),
    lambda w: w.appends(HERE, batch(0), batch(1)).appends(THERE, batch(0), batch(1, 2)),
    lambda w: w.commits(HERE, batch(0)).commits(THERE, batch(0)),
    lambda w: w.knows(HERE, 4, "t0").knows(THERE, 4, "t0"),
    lambda w: w.has(9, HERE, YONDER).does(HERE, advances(9)),
    lambda w: w.has(9, HERE).does(HERE, advances(9), log=log_with(voters(HERE))),
    lambda w: committed(w).does(
        HERE, writes(3), log=log_with(voters(*ALL), voters(HERE, THERE), voters(HERE))
    ),
    lambda w: w.emptied.add(THERE) or w.has(9, HERE).does(HERE, advances(9)),
    lambda w: w.appends(HERE, batch(0), batch(1)).does(HERE, TruncateLog(Offset(1))),
    lambda w: w.answers(3, after=4, needs=0),
    lambda w: w.does(HERE, begins(3), is_whole=False),
    lambda w: w.has(9, THERE).does(THERE, asks_from(THERE, 9)),
    lambda w: w.commits(HERE, wide_batch(0)).snapshots(THERE, 3),
    lambda w: w.committed_to(8).answers(3, needs=8, controls=2),
    lambda w: w.suspects(HERE, THERE),
    lambda w: w.refuses(HERE, YONDER).suspects(HERE, THERE),
    lambda w: (
        setattr(w.nodes[THERE], "process", None) or w.refuses(HERE, THERE).suspects(HERE, THERE)
    ),
]


@pytest.fixture(name="world")
def _world() -> Iterator[Controllers]:
    world = Controllers()
    yield world
    taps.detach()
    world.loop.close()


@pytest.mark.parametrize(("rule", "happen"), CASES)
def test_a_checker_of_controllers_fires(
    rule: str, happen: Callable[[Controllers], Any], world: Controllers
) -> None:
    happen(world)

    assert rule in {each.args[0] for each in world.violations}


@pytest.mark.parametrize("happen", FINE)
def test_what_controllers_may_do_is_no_violation(
    happen: Callable[[Controllers], Any], world: Controllers
) -> None:
    happen(world)

    assert world.violations == []


def test_a_log_on_a_disk_ends_behind_what_is_durable(world: Controllers) -> None:
    durable, node = world.its.durable, world.nodes[HERE]
    assert durable.end_offset(node) == 0

    world.has(3, HERE)
    assert durable.end_offset(node) == 3
    file: Any = world._folder(HERE).durable[f"{0:020}.log"]
    file.durable += batch(3) + batch(4)[:-1]
    assert durable.end_offset(node) == 4
    file.durable += batch(4)[-1:]
    assert durable.end_offset(node) == 5


def test_one_of_three_controllers_may_be_emptied_until_it_has_all(world: Controllers) -> None:
    here, there = world.nodes[HERE], world.nodes[THERE]
    assert quorum_faults.may_be_emptied(world, here)

    world.emptied.add(HERE)
    assert quorum_faults.may_be_emptied(world, here)
    assert not quorum_faults.may_be_emptied(world, there)


def test_no_controller_is_emptied_that_the_voters_of_now_cannot_do_without(
    world: Controllers,
) -> None:
    here, yonder = world.nodes[HERE], world.nodes[YONDER]
    # The third one is no voter for a while, so both others are needed.
    world.does(HERE, writes(1), log=log_with(voters(HERE, THERE)))

    assert not quorum_faults.may_be_emptied(world, here)
    assert quorum_faults.may_be_emptied(world, yonder)


def test_controllers_have_faults_where_there_are_several() -> None:
    plans = [plan.draw(seed, faults.WEIGHTS) for seed in range(60)]
    counts = {each.options.controllers for each in plans}
    families = [
        (each.options.controllers, {faults.WEIGHTS[event.fault][0] for event in each.events})
        for each in plans
    ]

    assert counts == {1, 3}
    assert all(plan.QUORUM not in found for count, found in families if count == 1)
    assert any(plan.QUORUM in found for count, found in families if count == 3)


def test_a_history_of_one_controller_is_the_same_whatever_others_have() -> None:
    for seed in range(30):
        alone = plan.draw(seed, faults.WEIGHTS, controllers=1)
        without = {k: v for k, v in faults.WEIGHTS.items() if v[0] != plan.QUORUM}

        assert alone == plan.draw(seed, without, controllers=1)


def test_a_history_that_is_steered_at_a_fault_of_controllers_has_several() -> None:
    steered = plan.draw(3, faults.WEIGHTS, steered_at=["emptied_controller", "move"])

    assert steered.options.controllers == 3
    assert {"emptied_controller", "move"} <= {each.fault for each in steered.events}
