from __future__ import annotations

from msgspec.structs import replace

from controller.decide.heartbeats import Contact
from controller.quorum.description import describe_quorum
from controller.quorum.replicated_log import QuorumFollower
from jbodlab.controller_api.requests import QuorumReplica
from jbodlab.metadata.records.config_records import NoOpRecord
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from tests.builders import CLUSTER_ID, PureController, directory

ONE, TWO = BrokerId(1), BrokerId(2)
END = Offset(40)


def test_the_controller_votes_and_brokers_observe() -> None:
    controller = PureController()
    for broker, dirs in ((2, "B1"), (1, "A1"), (3, "C1")):
        controller.add_broker(broker, dirs)
    heartbeats = replace(
        controller.state.heartbeats,
        contacts={
            TWO: Contact(last_contact_ms=900, metadata_offset=Offset(30), caught_up_ms=700),
            ONE: Contact(
                last_contact_ms=1_000,
                metadata_offset=Offset(55),
                metadata_log_dir=directory("A1"),
            ),
            # Not heard of since this controller began.
            BrokerId(3): Contact(last_contact_ms=0),
            # Registered no more.
            BrokerId(4): Contact(last_contact_ms=1_000, metadata_offset=Offset(1)),
        },
    )
    state = replace(controller.state, heartbeats=heartbeats)
    node_id = state.settings.node_id

    found = describe_quorum(state, LeaderEpoch(7), END, 1_000, 5_000_000)

    assert (found.cluster_id, found.leader_id, found.leader_epoch) == (CLUSTER_ID, node_id, 7)
    assert found.high_watermark == END
    assert found.current_voters == (
        QuorumReplica(
            replica_id=node_id,
            log_end_offset=END,
            last_fetch_timestamp=5_000_000,
            last_caught_up_timestamp=5_000_000,
        ),
    )
    assert found.observers == (
        QuorumReplica(
            replica_id=ONE,
            log_end_offset=END,
            last_fetch_timestamp=5_000_000,
            replica_directory_id=directory("A1"),
        ),
        QuorumReplica(
            replica_id=TWO,
            log_end_offset=Offset(31),
            last_fetch_timestamp=4_999_900,
            last_caught_up_timestamp=4_999_700,
        ),
    )


def test_a_broker_was_caught_up_when_it_had_all_that_there_was() -> None:
    controller = PureController()
    controller.add_broker(1, "A1")

    def heard(behind: int, after_ms: int = 100) -> int | None:
        """Let the broker be heard of; returns how long ago it had everything."""
        controller.now_ms += after_ms
        end = controller.state.next_offset
        controller.heartbeat(1, current_metadata_offset=Offset(end - 1 - behind))
        caught_up_ms = controller.state.heartbeats.contacts[ONE].caught_up_ms
        return None if caught_up_ms is None else controller.now_ms - caught_up_ms

    assert heard(behind=0) == 0
    controller.replay(NoOpRecord(), NoOpRecord())
    # By now it has all that there was at its last sign of life.
    assert heard(behind=1) == 100
    assert heard(behind=1) == 200
    assert heard(behind=0) == 0


def test_other_controllers_vote_or_observe_as_the_leader_knows_them() -> None:
    state = PureController().state
    voter = QuorumFollower(
        node_id=BrokerId(101),
        directory_id=None,
        is_voter=True,
        end_offset=Offset(38),
        last_fetch_ms=990,
        last_caught_up_ms=950,
    )
    unheard = QuorumFollower(node_id=BrokerId(102), directory_id=None, is_voter=True)
    observer = QuorumFollower(node_id=BrokerId(103), directory_id=directory("C"), is_voter=False)

    found = describe_quorum(
        state, LeaderEpoch(7), END, 1_000, 5_000_000, [voter, unheard, observer]
    )

    assert found.current_voters[1:] == (
        QuorumReplica(
            replica_id=BrokerId(101),
            log_end_offset=Offset(38),
            last_fetch_timestamp=4_999_990,
            last_caught_up_timestamp=4_999_950,
        ),
        QuorumReplica(replica_id=BrokerId(102), log_end_offset=Offset(-1)),
    )
    assert found.observers == (
        QuorumReplica(
            replica_id=BrokerId(103),
            log_end_offset=Offset(-1),
            replica_directory_id=directory("C"),
        ),
    )
