"""Each call by itself, over a real connection: what arrives, what decides, what is answered.

The decisions are the matter of the tests of their modules; here a script answers instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import grpc
import grpc.aio
import msgspec
import pytest

from controller.decide.brokers import brokers, registration
from controller.decide.partitions import (
    added_partitions,
    directories,
    elections,
    isr,
    reassignments,
    topics,
)
from controller.decide.settings import (
    acls,
    client_quotas,
    configs,
    feature_updates,
    producer_ids,
    scram_credentials,
)
from controller.health import serves_brokers
from controller.lead.committed_state import CommittedState
from controller.lead.leadership import Term
from controller.quorum.replicated_log import NotLeaderError
from controller.serve.service import ControllerService
from jbodlab.controller_api import messages as pb
from jbodlab.controller_api import requests
from jbodlab.controller_api.grpc_server import OPTIONS, GrpcServer, add_to_server
from jbodlab.controller_api.grpc_transport import ControllerStub, GrpcTransport
from jbodlab.controller_api.rpc_tls import RpcServerTls, broker_principals
from jbodlab.controller_api.translate import from_proto, to_proto
from jbodlab.controller_api.transport import NotControllerError
from jbodlab.metadata.image.loader import MetadataLoader
from jbodlab.metadata.image.metadata_delta import MetadataDelta
from jbodlab.metadata.records.cluster_records import BrokerEndpoint, RegisterControllerRecord
from jbodlab.raft.messages import RaiseKRaftVersionRequest, VoterChangeRequest
from jbodlab.runtime.machine import system_environment
from jbodlab.security.mapping_rules import SUBJECT_ITSELF
from jbodlab.vocabulary.endpoint import Endpoint
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import ControllerUnavailableError, KafkaError
from jbodlab.vocabulary.ids import BrokerId, LeaderEpoch, Offset
from lab.machine.ports import HeldPorts
from tests.builders import CLUSTER_ID, PureController
from tests.builders import brokers as brokers_of
from tests.certificates import Authority, now, rpc_keys_of
from tests.controller.formatted import config_of
from tests.jbodlab.controller_api.samples import sample
from tests.waiting import DEADLINE_S

HEARTBEAT_INTERVAL_MS = 3_000
HOLD_MS = 300
CALLS = pb.DESCRIPTOR.services_by_name["Controller"].methods_by_name

# The decision of each call, and its deadline in the queue: a number, the sender's own, or none.
DECIDED: dict[str, tuple[Callable[..., Any], int | str | None]] = {
    "BrokerRegistration": (registration.register_broker, None),
    "BrokerHeartbeat": (brokers.heartbeat, HEARTBEAT_INTERVAL_MS // 2),
    "UnregisterBroker": (registration.unregister_broker, None),
    "AssignReplicasToDirs": (directories.assign_replicas_to_dirs, None),
    "AlterPartition": (isr.alter_partition, None),
    "CreateTopics": (topics.create_topics, "timeout_ms"),
    "DeleteTopics": (topics.delete_topics, "timeout_ms"),
    "CreatePartitions": (added_partitions.create_partitions, "timeout_ms"),
    "ElectLeaders": (elections.elect_leaders, "timeout_ms"),
    "AlterPartitionReassignments": (reassignments.alter_partition_reassignments, "timeout_ms"),
    "AllocateProducerIds": (producer_ids.allocate_producer_ids, None),
    "IncrementalAlterConfigs": (configs.incremental_alter_configs, None),
    "AlterConfigs": (configs.alter_configs, None),
    "AlterClientQuotas": (client_quotas.alter_client_quotas, None),
    "CreateAcls": (acls.create_acls, None),
    "DeleteAcls": (acls.delete_acls, None),
    "AlterUserScramCredentials": (scram_credentials.alter_user_scram_credentials, None),
    "UpdateFeatures": (feature_updates.update_features, "timeout_ms"),
}
READ = {"ListPartitionReassignments", "DescribeQuorum", "FindController", "MetadataStream"}
OF_QUORUM = {"AddRaftVoter", "RemoveRaftVoter", "ResignLeadership"}


class ScriptedController:
    """Stands where the active controller does: notes what is submitted, and answers as told."""

    epoch = LeaderEpoch(5)
    now_ms = staticmethod(system_environment().monotonic_ms)
    wall_ms = staticmethod(system_environment().wall_ms)

    def __init__(self) -> None:
        self.pure = PureController()
        self.submitted: list[tuple[partial[Any], dict[str, Any]]] = []
        self.answer: object = None

    @property
    def state(self) -> Any:
        return self.pure.state

    @property
    def committed(self) -> CommittedState:
        return CommittedState(MetadataLoader(replace(self.pure.state.image, offset=Offset(16))))

    async def submit(self, decide: partial[Any], **options: Any) -> object:
        self.submitted.append((decide, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class ScriptedStream:
    """Sends every response that there is."""

    def __init__(self) -> None:
        self.subscribed: list[requests.MetadataStreamRequest] = []

    async def subscribe(
        self, request: requests.MetadataStreamRequest
    ) -> AsyncIterator[requests.MetadataStreamResponse]:
        self.subscribed.append(request)
        yield sample(requests.MetadataStreamResponse)


def sample_of(name: str) -> Any:
    """Return a value of a message type in which every field is set."""
    return sample(getattr(requests, name))


class ScriptedLeadership:
    """Has a term, unless the test takes it."""

    cluster_id = CLUSTER_ID
    epoch, leader = LeaderEpoch(6), BrokerId(102)
    followers = ()
    directory_id = None
    node_id, listener_name = BrokerId(100), "GRPC"

    def __init__(self, controller: ScriptedController, stream: ScriptedStream) -> None:
        self._term: Any = Term(controller, stream, [])  # type: ignore[arg-type]
        self.committed = controller.committed
        self.is_active = True
        self.is_claiming = False
        self.claims = asyncio.Event()
        self.confirmations = 0
        self.changes: list[VoterChangeRequest] = []
        self.refusal: KafkaError | None = None
        self.successors: list[BrokerId | None] = []

    async def change_voters(self, request: VoterChangeRequest) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.changes.append(request)

    def resign(self, successor: BrokerId | None = None) -> None:
        self.successors.append(successor)

    async def claimed(self, timeout_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.claims.wait(), timeout_s)

    async def confirmed(self) -> None:
        self.confirmations += 1

    @property
    def term(self) -> Term:
        if not self.is_active:
            raise NotLeaderError
        return self._term  # type: ignore[no-any-return]


def service_of(leadership: ScriptedLeadership) -> ControllerService:
    return ControllerService(
        leadership=leadership,  # type: ignore[arg-type]
        heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        hold_ms=HOLD_MS,
        randomness=Random(1),
        new_id=lambda: UUID(int=1),
        monotonic_s=lambda: 0.0,
    )


@pytest.fixture
def it(runner: asyncio.Runner) -> Iterator[SimpleNamespace]:
    """Serves the calls as the program does, on any port."""
    controller, stream = ScriptedController(), ScriptedStream()
    leadership = ScriptedLeadership(controller, stream)
    service = service_of(leadership)

    async def start() -> tuple[grpc.aio.Server, grpc.aio.Channel, int]:
        server = grpc.aio.server(options=OPTIONS)
        add_to_server(service, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return server, grpc.aio.insecure_channel(f"127.0.0.1:{port}"), port

    async def stop() -> None:
        await channel.close()
        await server.stop(None)

    server, channel, port = runner.run(start())
    stub: Any = ControllerStub(channel)
    yield SimpleNamespace(
        stub=stub, controller=controller, stream=stream, leadership=leadership, port=port
    )
    runner.run(stop())


def test_every_call_has_its_row_here() -> None:
    assert set(CALLS) == set(DECIDED) | READ | OF_QUORUM


@pytest.mark.parametrize("name", DECIDED)
async def test_a_call_carries_every_field_to_its_decision_and_back(
    it: SimpleNamespace, name: str
) -> None:
    decision, deadline = DECIDED[name]
    request = sample_of(CALLS[name].input_type.name)
    answer = sample_of(CALLS[name].output_type.name)

    it.controller.answer = answer
    response = await getattr(it.stub, name)(to_proto(request))
    assert from_proto(response) == answer

    decide, options = it.controller.submitted[-1]
    assert (decide.func, decide.args) == (decision, (request,))
    expected = getattr(request, deadline) if isinstance(deadline, str) else deadline
    assert options["deadline_ms"] == expected


async def test_a_heartbeat_that_waited_too_long_still_counts_as_contact(
    it: SimpleNamespace,
) -> None:
    it.controller.answer = sample_of("BrokerHeartbeatResponse")
    request = sample_of("BrokerHeartbeatRequest")
    await it.stub.BrokerHeartbeat(to_proto(request))
    late = it.controller.submitted[-1][1]["late"]
    assert (late.func, late.args) == (brokers.late_heartbeat, (request,))


def name_of(element: Any) -> object:
    names = ("name", "resource_name", "entity")
    return next((getattr(element, each) for each in names if hasattr(element, each)), None)


def codes_of(response: Any) -> tuple[list[object], list[tuple[int, str]]]:
    """Return which elements a response has, by name, and their codes; or the one at its top."""
    if hasattr(response, "error_code"):
        return [], [(response.error_code, response.error_message)]
    (elements,) = (
        getattr(response, field)
        for field in ("topics", "responses", "results", "entries", "filter_results")
        if hasattr(response, field)
    )
    return [name_of(each) for each in elements], [
        (each.error_code, each.error_message) for each in elements
    ]


@pytest.mark.parametrize("name", DECIDED)
async def test_an_error_of_a_whole_operation_is_answered_at_the_top_or_for_each_element(
    it: SimpleNamespace, name: str
) -> None:
    error = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it waited too long")

    it.controller.answer = error
    request = sample_of(CALLS[name].input_type.name)
    response = from_proto(await getattr(it.stub, name)(to_proto(request)))

    names, codes = codes_of(response)
    assert codes == [(error.code, error.message)] * max(len(names), 1)
    lists = ("topics", "resources", "entries", "creations", "filters")
    elements = next((getattr(request, one) for one in lists if hasattr(request, one)), ())
    # Results of access control entries are known by their places.
    assert names == [None if name == "CreateAcls" else name_of(each) for each in elements]
    if name == "DeleteTopics":
        assert [each.topic_id for each in response.responses] == [
            each.topic_id for each in request.topics
        ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("BrokerRegistration", pb.BrokerRegistrationRequest()),
        ("BrokerHeartbeat", pb.BrokerHeartbeatRequest(full_log_dirs=[b"short"])),
        (
            "AssignReplicasToDirs",
            pb.AssignReplicasToDirsRequest(assignments=[{"topic_id": b"short"}]),
        ),
        (
            "AlterPartition",
            pb.AlterPartitionRequest(changes=[{"topic_id": b"short"}]),
        ),
        (
            "DeleteTopics",
            pb.DeleteTopicsRequest(topics=[{"topic_id": b"short"}]),
        ),
    ],
)
async def test_what_cannot_be_translated_is_refused_and_not_decided(
    it: SimpleNamespace, name: str, message: Any
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await getattr(it.stub, name)(message)

    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "where an id has 16" in (refused.value.details() or "")
    assert it.controller.submitted == []


async def test_a_request_larger_than_grpc_takes_by_itself_is_taken(it: SimpleNamespace) -> None:
    # A hundred thousand assignments, or more directory ids, are no more than this.
    request = PureController().registration(1, "A1", cluster_id="x" * 5_000_000)

    it.controller.answer = sample_of("BrokerRegistrationResponse")
    await it.stub.BrokerRegistration(to_proto(request))
    assert it.controller.submitted[-1][0].args == (request,)


async def test_reassignments_are_listed_from_what_is_committed(it: SimpleNamespace) -> None:
    pure = it.controller.pure
    for broker in (1, 2):
        pure.add_broker(broker, f"D{broker}")
    for topic in ("a", "b"):
        pure.create(topic, (1,), (1,))
    wish = requests.PartitionToReassign(topic="a", partition=1, replicas=brokers_of(2))
    asked = requests.AlterPartitionReassignmentsRequest(partitions=(wish,))
    pure.ask(reassignments.alter_partition_reassignments, asked)
    for named in (None, (("a", 0), ("a", 1)), ()):
        request = requests.ListPartitionReassignmentsRequest(topic_partitions=named)
        response = await it.stub.ListPartitionReassignments(to_proto(request))
        expected = reassignments.list_partition_reassignments(request, pure.state.image)
        assert from_proto(response) == expected
    assert it.controller.submitted == []
    assert it.leadership.confirmations == 3


async def test_the_quorum_is_described_by_the_controller_and_what_it_committed(
    it: SimpleNamespace,
) -> None:
    settings = it.controller.state.settings
    answer = from_proto(await it.stub.DescribeQuorum(pb.DescribeQuorumRequest()))
    (leader,) = answer.current_voters
    assert (leader.replica_id, leader.log_end_offset) == (settings.node_id, 17)
    assert answer == requests.DescribeQuorumResponse(
        cluster_id=settings.cluster_id,
        leader_id=settings.node_id,
        leader_epoch=LeaderEpoch(5),
        high_watermark=Offset(17),
        current_voters=(leader,),
    )


async def test_a_change_of_the_voters_is_made_by_the_quorum(it: SimpleNamespace) -> None:
    add, remove = sample(requests.AddRaftVoterRequest), sample(requests.RemoveRaftVoterRequest)

    assert from_proto(await it.stub.AddRaftVoter(to_proto(add))).error_code == 0
    assert from_proto(await it.stub.RemoveRaftVoter(to_proto(remove))).error_code == 0

    added, removed = it.leadership.changes
    assert added.voter == (add.voter_id, add.voter_directory_id)
    assert [(each.name, each.host, each.port) for each in added.endpoints] == [
        (each.name, each.host, each.port) for each in add.listeners
    ]
    assert (added.timeout_ms, added.acks_commit) == (add.timeout_ms, add.ack_when_committed)
    assert removed.voter == (remove.voter_id, remove.voter_directory_id)


async def test_a_change_that_the_quorum_refuses_is_answered_with_its_error(
    it: SimpleNamespace,
) -> None:
    it.leadership.refusal = KafkaError(ErrorCode.DUPLICATE_VOTER, "a voter already")

    request = to_proto(sample(requests.AddRaftVoterRequest))
    answer = from_proto(await it.stub.AddRaftVoter(request))

    assert (answer.error_code, answer.error_message) == (
        ErrorCode.DUPLICATE_VOTER,
        "a voter already",
    )


async def test_the_level_of_the_quorum_is_raised_apart_from_other_features(
    it: SimpleNamespace,
) -> None:
    it.controller.answer = requests.UpdateFeaturesResponse()
    levels = {"kraft.version": 1, "transaction.version": 2}
    request = requests.UpdateFeaturesRequest(
        feature_updates=tuple(
            requests.FeatureUpdate(feature=name, max_version_level=level)
            for name, level in levels.items()
        )
    )

    await it.stub.UpdateFeatures(to_proto(request))

    (raised,) = it.leadership.changes
    assert raised == RaiseKRaftVersionRequest(level=1)
    checked, made = (decide.args[0] for decide, _ in it.controller.submitted)
    assert (len(checked.feature_updates), checked.validate_only) == (2, True)
    assert [each.feature for each in made.feature_updates] == ["transaction.version"]


async def test_a_leader_resigns_in_the_epoch_that_is_meant_only(it: SimpleNamespace) -> None:
    def request(epoch: int) -> Any:
        return to_proto(
            requests.ResignLeadershipRequest(
                leader_epoch=LeaderEpoch(epoch), successor=BrokerId(101)
            )
        )

    await it.stub.ResignLeadership(request(5))
    await it.stub.ResignLeadership(request(4))

    assert it.leadership.successors == [101]


async def test_a_node_without_a_term_tells_what_it_knows_and_is_not_healthy(
    it: SimpleNamespace, tmp_path: Path
) -> None:
    config = config_of(tmp_path, it.port)
    healthy = await asyncio.to_thread(serves_brokers, config.node)
    it.leadership.is_active = False
    answer = from_proto(await it.stub.DescribeQuorum(pb.DescribeQuorumRequest()))
    inactive = await asyncio.to_thread(serves_brokers, config.node)

    assert answer == requests.DescribeQuorumResponse(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        cluster_id=CLUSTER_ID,
        leader_id=BrokerId(102),
        leader_epoch=LeaderEpoch(6),
        high_watermark=Offset(17),
    )
    where = f"controller 100 at 127.0.0.1:{it.port}"
    assert healthy == (True, f"{where} is active in epoch 5")
    known = "it knows of epoch 6, committed up to offset 16"
    assert inactive == (False, f"{where} responds, but is not active; {known}")
    names = ("OTHERS", config.node.controller_listener_names[0])
    follower = msgspec.structs.replace(config.node, controller_listener_names=names)
    follows = await asyncio.to_thread(serves_brokers, follower)
    assert follows == (True, f"{where} follows controller 102 in epoch 6")


async def test_what_needs_the_active_controller_is_refused_without_a_term(
    it: SimpleNamespace,
) -> None:
    it.leadership.is_active = False
    for name in {*DECIDED, "ListPartitionReassignments"}:
        with pytest.raises(grpc.aio.AioRpcError, match="NOT_CONTROLLER") as refused:
            await getattr(it.stub, name)(to_proto(sample_of(CALLS[name].input_type.name)))
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert it.controller.submitted == []


async def test_a_refusal_names_the_leader_and_says_whether_it_may_have_been_carried_out(
    it: SimpleNamespace,
) -> None:
    transport = GrpcTransport(f"127.0.0.1:{it.port}")
    message = to_proto(sample_of("BrokerHeartbeatRequest"))
    it.leadership.is_active = False
    with pytest.raises(NotControllerError) as not_active:
        await transport.unary("BrokerHeartbeat", message, DEADLINE_S)
    stream = transport.stream("MetadataStream", to_proto(sample_of("MetadataStreamRequest")))
    with pytest.raises(NotControllerError) as no_stream:
        await anext(stream)
    it.leadership.is_active = True
    it.controller.answer = NotLeaderError(is_outcome_unknown=True)
    with pytest.raises(NotControllerError) as resigned:
        await transport.unary("BrokerHeartbeat", message, DEADLINE_S)
    await transport.close()

    for each, is_outcome_unknown in ((not_active, False), (no_stream, False), (resigned, True)):
        assert each.value.is_outcome_unknown is is_outcome_unknown
        assert each.value.hint is not None
        assert (each.value.hint.leader_id, each.value.hint.leader_epoch) == (102, 6)


async def test_each_controller_says_who_leads_and_where_the_others_are(it: SimpleNamespace) -> None:
    endpoints = tuple(
        BrokerEndpoint(name=name, host="host", port=port, security_protocol=0)
        for name, port in (("KAFKA", 9093), ("GRPC", 9094))
    )
    record = RegisterControllerRecord(
        controller_id=101,
        incarnation_id=UUID(int=1),
        zk_migration_ready=False,
        end_points=endpoints,
        features=(),
    )
    delta = MetadataDelta(it.controller.state.image)
    delta.replay(record, 20)
    it.leadership.committed = SimpleNamespace(image=delta.apply(20, 6, 0))
    known = requests.FindControllerResponse(
        node_id=BrokerId(100),
        leader_id=BrokerId(102),
        leader_epoch=LeaderEpoch(6),
        is_active=True,
        controllers=(requests.ControllerAddress(node_id=BrokerId(101), host="host", port=9094),),
    )
    asked = pb.FindControllerRequest()
    assert from_proto(await it.stub.FindController(asked)) == known
    it.leadership.is_active, it.leadership.leader = False, None
    it.leadership.is_claiming = True
    claiming = msgspec.structs.replace(known, leader_id=BrokerId(100), is_active=False)
    assert from_proto(await it.stub.FindController(asked)) == claiming


async def test_requests_wait_for_the_claim_of_a_node_that_was_elected(it: SimpleNamespace) -> None:
    it.leadership.is_active, it.leadership.is_claiming = False, True
    it.controller.answer = requests.BrokerHeartbeatResponse(is_caught_up=True)
    message = to_proto(sample_of("BrokerHeartbeatRequest"))
    call = asyncio.ensure_future(it.stub.BrokerHeartbeat(message))
    await asyncio.wait([call], timeout=HOLD_MS / 3000)
    assert not call.done()
    it.leadership.is_active = True
    it.leadership.claims.set()
    assert (await call).is_caught_up


async def test_requests_do_not_wait_longer_for_a_claim_than_they_may(it: SimpleNamespace) -> None:
    it.leadership.is_active, it.leadership.is_claiming = False, True
    message = to_proto(sample_of("BrokerHeartbeatRequest"))
    with pytest.raises(grpc.aio.AioRpcError, match="NOT_CONTROLLER"):
        await it.stub.BrokerHeartbeat(message, timeout=DEADLINE_S)


async def test_no_more_requests_wait_for_a_claim_than_memory_is_given_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controller.serve.service.HELD_REQUESTS_MAX", 1)
    leadership = ScriptedLeadership(ScriptedController(), ScriptedStream())
    leadership.is_active, leadership.is_claiming = False, True
    service = service_of(leadership)
    message = to_proto(sample_of("BrokerHeartbeatRequest"))
    waiting = asyncio.ensure_future(service.unary("BrokerHeartbeat", message))
    await asyncio.sleep(0)
    assert service.held == 1
    with pytest.raises(NotLeaderError):
        await asyncio.wait_for(service.unary("BrokerHeartbeat", message), HOLD_MS / 3000)
    leadership.claims.set()
    with pytest.raises(NotLeaderError):
        await waiting
    assert service.held == 0


async def test_the_metadata_stream_sends_what_the_subscription_yields(it: SimpleNamespace) -> None:
    known = sample_of("MetadataStreamRequest")
    cluster_id = it.controller.state.settings.cluster_id
    message = to_proto(known)
    message.cluster_id = cluster_id
    received = [from_proto(each) async for each in it.stub.MetadataStream(message)]

    assert received == [sample_of("MetadataStreamResponse")]
    assert it.stream.subscribed == [from_proto(message)]


async def test_g03_wrong_cluster_in_plain_text(it: SimpleNamespace) -> None:
    other = sample_of("MetadataStreamRequest")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await anext(aiter(it.stub.MetadataStream(to_proto(other))))

    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert "INCONSISTENT_CLUSTER_ID" in (refused.value.details() or "")
    assert it.stream.subscribed == []


class DecidingController(ScriptedController):
    """Decides what is submitted, and keeps the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[object] = []

    async def submit(self, decide: Any, **options: Any) -> object:
        result = decide(self.pure.state, 0)
        self.records += result.records
        return result.response


async def test_g03_wrong_cluster() -> None:
    """A broker of the same authority and another cluster is refused, and is not registered."""
    ca = Authority()
    controller, stream = DecidingController(), ScriptedStream()
    with HeldPorts.hold(1) as held:
        (port,) = held.numbers
        server = GrpcServer(
            Endpoint(name="CONTROLLER", host="127.0.0.1", port=port),
            RpcServerTls(
                keys=lambda: rpc_keys_of(ca.issue("controller"), ca),
                principals=broker_principals("User:CN=broker-{id}", SUBJECT_ITSELF),
                now=now,
            ),
        )
        server.bind(service_of(ScriptedLeadership(controller, stream)))
        await server.start()
        mine = rpc_keys_of(ca.issue("broker-1"), ca)
        transport = GrpcTransport(f"localhost:{port}", lambda: mine)
        try:
            registration = msgspec.structs.replace(
                sample_of("BrokerRegistrationRequest"), broker_id=BrokerId(1), cluster_id="other"
            )
            answer = await transport.unary("BrokerRegistration", to_proto(registration), 5.0)
            wanted = msgspec.structs.replace(
                sample_of("MetadataStreamRequest"), broker_id=BrokerId(1), cluster_id="other"
            )
            with pytest.raises(ControllerUnavailableError) as refused:
                await anext(transport.stream("MetadataStream", to_proto(wanted)))
            # A client that is not the broker that it names learns no cluster id.
            stranger = msgspec.structs.replace(wanted, broker_id=BrokerId(2))
            with pytest.raises(ControllerUnavailableError, match="is not broker 2") as denied:
                await anext(transport.stream("MetadataStream", to_proto(stranger)))
        finally:
            await transport.close()
            await server.stop(None)

    assert from_proto(answer).error_code is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert controller.records == []
    assert "FAILED_PRECONDITION: INCONSISTENT_CLUSTER_ID" in str(refused.value)
    assert controller.state.settings.cluster_id not in str(denied.value)
    assert stream.subscribed == []
