"""The voters of a quorum of real logs change while records are appended; KIP-853."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from controller.quorum.replicated_log import NotLeaderError
from jbodlab.metadata.log.quorum_state import read_quorum_state
from jbodlab.metadata.records.control_records import KRaftVotersRecord
from jbodlab.raft.messages import (
    AddVoterRequest,
    RaiseKRaftVersionRequest,
    RemoveVoterRequest,
    VoterChangeRequest,
)
from jbodlab.raft.voters import ReplicaKey
from jbodlab.storage.directory.names import METADATA_DIR_NAME
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.ids import BrokerId, Offset
from tests.controller.quorum.nodes import DEADLINE_S, Network, directory_of, quorum, voters


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(BrokerId(node_id), directory_of(node_id))


async def changed(network: Network, request: VoterChangeRequest) -> None:
    """Ask whoever leads until the change is made, with a record before and behind it."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            leader = await network.leader()
            with suppress(NotLeaderError):
                await leader.append()
                answer = (await leader.log.ask(request)).answer
                if answer.error is ErrorCode.NONE:
                    return
            await asyncio.sleep(0.02)


def adding(node_id: int) -> AddVoterRequest:
    (voter,) = voters(node_id).voters
    return AddVoterRequest(voter=key(node_id), endpoints=voter.endpoints, timeout_ms=5_000)


def removing(node_id: int) -> RemoveVoterRequest:
    return RemoveVoterRequest(voter=key(node_id))


async def test_one_voter_becomes_three_and_one_again(tmp_path: Path) -> None:
    async with quorum(tmp_path, 1, observers=(2, 3)) as network:
        await changed(network, RaiseKRaftVersionRequest(level=1))
        await changed(network, adding(2))
        await changed(network, adding(3))
        assert (await network.leader()).log.voters.ids == (1, 2, 3)

        await changed(network, removing(1))
        await changed(network, removing(2))

        last = await network.leader()
        assert (last.id, last.log.voters.ids) == (3, (3,))
        end = (await last.append()).end_offset
        # Observers go on following.
        nodes = network.nodes.values()
        await network.until(lambda: all(each.log.high_watermark >= end for each in nodes))
        assert all(each.told == last.told for each in nodes)


async def test_a_snapshot_has_the_voters_at_its_end(tmp_path: Path) -> None:
    async with quorum(tmp_path, 1, observers=(2,)) as network:
        await changed(network, RaiseKRaftVersionRequest(level=1))
        log = (await network.leader()).log
        former_end = log.end_offset
        await changed(network, adding(2))

        ends = former_end, log.end_offset
        records = [each for end in ends for each in log.records_at(Offset(end - 1))]
        sets = [each.voters for each in records if isinstance(each, KRaftVotersRecord)]
        assert [[voter.voter_id for voter in each] for each in sets] == [[1], [1, 2]]


async def test_a_static_quorum_knows_its_directories_after_the_upgrade(tmp_path: Path) -> None:
    async with quorum(tmp_path) as network:
        await changed(network, RaiseKRaftVersionRequest(level=1))

        known = voters(1, 2, 3, are_known=True)
        nodes = network.nodes.values()
        await network.until(lambda: all(each.log.voters == known for each in nodes))
        leader = await network.leader()
        await leader.kill()
        second = await network.leader(but=leader)
        # The next transition has written the new shape of the file.
        state = read_quorum_state(second.directory / METADATA_DIR_NAME)
        assert state is not None
        assert state.data_version == 1


async def test_a_node_that_starts_again_knows_the_voters_of_its_log(tmp_path: Path) -> None:
    async with quorum(tmp_path, 1, observers=(2,)) as network:
        await changed(network, RaiseKRaftVersionRequest(level=1))
        await changed(network, adding(2))
        for node in network.nodes.values():
            await node.kill()

        network.start()

        leader = await network.leader()
        assert leader.log.voters.ids == (1, 2)
        await leader.append()


async def test_a_voter_whose_directory_is_lost_is_replaced(tmp_path: Path) -> None:
    async with quorum(tmp_path, observers=(4,)) as network:
        await changed(network, RaiseKRaftVersionRequest(level=1))
        await network.nodes[3].kill()

        await changed(network, removing(3))
        await changed(network, adding(4))

        assert (await network.leader()).log.voters.ids == (1, 2, 4)
