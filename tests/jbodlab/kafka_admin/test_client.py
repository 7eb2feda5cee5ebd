"""The administration client against brokers that answer as they are told."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from jbodlab.kafka_admin import offsets as kafka_offsets
from jbodlab.kafka_admin.client import AdminClient, opened
from jbodlab.kafka_admin.errors import (
    AdminError,
    NoAnswerError,
    RequestError,
    UnsupportedRequestError,
    check,
)
from jbodlab.kafka_admin.groups import describe_group, list_groups
from jbodlab.kafka_admin.offsets import LATEST, list_offsets
from jbodlab.kafka_admin.properties import AdminProperties, admin_properties
from jbodlab.kafka_admin.topics import describe_topics
from jbodlab.kafka_admin.transactions import describe_transaction
from jbodlab.kafka_wire import message
from jbodlab.kafka_wire.api_key import ApiKey
from jbodlab.kafka_wire.api_table import request_reader, response_class, response_encoder
from jbodlab.kafka_wire.headers import no_tags, read_request_header
from jbodlab.kafka_wire.kio_import import ErrorCode
from jbodlab.vocabulary.ids import TopicPartition
from lab.machine.ports import HeldPorts
from tests.waiting import runner_on

MANY = 10_000
VERSIONS = {ApiKey.API_VERSIONS: (0, 4), ApiKey.METADATA: (0, 13)}

Answer = Callable[[Any], Mapping[str, Any] | None]
"""Request -> fields of the response; None closes the connection."""

runner = runner_on(asyncio.new_event_loop)


class FakeBroker:
    """Answers by API; `asked` has the API and the version of each request that came."""

    def __init__(self, answers: Mapping[ApiKey, Answer], versions: Mapping[ApiKey, Any]) -> None:
        self.answers = dict(answers)
        self.versions = {**VERSIONS, **versions}
        self.asked: list[tuple[ApiKey, int]] = []
        self.port = 0
        self.others: dict[int, FakeBroker] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                head = read_request_header(frame)
                key, version = ApiKey(head.api_key), head.api_version
                self.asked.append((key, version))
                request, _ = request_reader(key, version, MANY)(frame, head.body_offset)
                values = self._values(key, request)
                if values is None:
                    break
                values = {"error_code": ErrorCode.none, **values}
                response = message.made(response_class(key, version), values)
                start = bytearray(struct.pack(">i", head.correlation_id) + no_tags(key, version))
                body = b"".join(response_encoder(key, version)(response, start))
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _values(self, key: ApiKey, request: Any) -> Mapping[str, Any] | None:
        if key in self.answers:
            return self.answers[key](request)
        if key is ApiKey.API_VERSIONS:
            ranges = [(int(one), *both) for one, both in self.versions.items()]
            names = ("api_key", "min_version", "max_version")
            return {"api_keys": [dict(zip(names, one, strict=True)) for one in ranges]}
        brokers = [
            {"node_id": node, "host": "127.0.0.1", "port": each.port, "rack": None}
            for node, each in {1: self, **self.others}.items()
        ]
        return {"brokers": brokers, "cluster_id": "c", "controller_id": 1, "topics": []}


@asynccontextmanager
async def cluster(
    answers: Mapping[ApiKey, Answer] | None = None,
    versions: Mapping[ApiKey, Any] | None = None,
    properties: AdminProperties | None = None,
    brokers: int = 1,
) -> AsyncIterator[tuple[AdminClient, FakeBroker]]:
    """A client and the broker 1 that it reached; others are in its `others`."""
    async with AsyncExitStack() as stack:
        made = [FakeBroker(answers or {}, versions or {}) for _ in range(brokers)]
        for each in made:
            server = await asyncio.start_server(each.serve, "127.0.0.1", 0)
            stack.callback(server.close)
            each.port = server.sockets[0].getsockname()[1]
            each.others = dict(enumerate(made[1:], 2))
        home = made[0]
        opening = opened([("127.0.0.1", home.port)], properties or admin_properties({}))
        yield await stack.enter_async_context(opening), home


def test_a_request_has_the_newest_version_with_all_its_fields() -> None:
    find = ApiKey.FIND_COORDINATOR

    def version(served: range, values: message.Fields, key: ApiKey = find) -> int | None:
        made = message.request(key, served, values)
        return None if made is None else made[0]

    # From 4 on several keys are asked for at once.
    assert version(range(7), {"key": "a", "key_type": 0}) == 3
    assert version(range(3), {"key": "a", "key_type": 0}) == 2
    assert version(range(4, 7), {"key": "a", "key_type": 0}) is None
    assert version(range(99, 120), {"key": "a"}) is None
    assert version(range(3), {"duration_filter": 1}, ApiKey.LIST_TRANSACTIONS) == 2
    assert version(range(1), {"duration_filter": 1}, ApiKey.LIST_TRANSACTIONS) is None


async def test_what_a_release_does_not_serve_is_asked_for_otherwise() -> None:
    def topics(request: Any) -> Mapping[str, Any]:
        names = [one.name for one in request.topics]
        found = [{"error_code": ErrorCode.none, "name": name, "partitions": []} for name in names]
        brokers = [{"node_id": 1, "host": "127.0.0.1", "port": 1, "rack": None}]
        return {"brokers": brokers, "topics": found}

    async with cluster() as (client, home):
        with pytest.raises(UnsupportedRequestError) as refused:
            await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, {"topics": ()})
        home.answers[ApiKey.METADATA] = topics
        assert list(await describe_topics(client, ["own"])) == ["own"]
    assert str(refused.value) == "broker 1 does not support the request DescribeTopicPartitions"
    assert home.asked.count((ApiKey.API_VERSIONS, 3)) == 1


async def test_a_lost_connection_is_tried_again() -> None:
    lost = 3

    def answer(_: Any) -> Mapping[str, Any] | None:
        nonlocal lost
        lost -= 1
        return None if lost >= 0 else {"results": []}

    answers = {ApiKey.DESCRIBE_CONFIGS: answer}
    async with cluster(answers, {ApiKey.DESCRIBE_CONFIGS: (1, 4)}) as (client, home):
        assert not (await client.call(ApiKey.DESCRIBE_CONFIGS, {"resources": ()})).results
    # Another release may have come back.
    assert home.asked.count((ApiKey.API_VERSIONS, 3)) == 4


async def test_the_wait_for_a_broker_that_refuses_ends() -> None:
    async with cluster(brokers=2, properties=AdminProperties(patience_s=0.2)) as (client, home):
        with HeldPorts.hold(1) as held:
            home.others[2] = SimpleNamespace(port=held.numbers[0])  # type: ignore[assignment]
            await client.brokers()
            with pytest.raises(NoAnswerError) as refused:
                await client.call(ApiKey.METADATA, {"topics": ()}, 2)
        with pytest.raises(NoAnswerError, match="broker 7 is not a live broker of the cluster"):
            await client.call(ApiKey.METADATA, {"topics": ()}, 7)
    assert str(refused.value) == "no connection to broker 2: Connection refused"


async def test_a_broker_that_is_silent_is_named_with_the_time() -> None:
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await asked.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    properties = admin_properties({"request.timeout.ms": "200"})
    async with cluster(properties=properties, brokers=2) as (client, home):
        home.others[2].port = server.sockets[0].getsockname()[1]
        await client.brokers()
        with pytest.raises(NoAnswerError, match=r"^no answer from broker 2 within 0\.2 s$"):
            await client.call(ApiKey.METADATA, {"topics": ()}, 2)
    asked.set()
    server.close()


async def test_what_is_no_broker_is_named_with_a_reason() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(web, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with HeldPorts.hold(1) as held:
        # A name with several addresses, too.
        servers = [("localhost", held.numbers[0]), ("127.0.0.1", port)]
        with pytest.raises(AdminError) as refused:
            async with opened(servers, admin_properties({})):
                pass
    server.close()
    first, _, second = str(refused.value).partition("; ")
    assert first == f"cannot connect to localhost:{held.numbers[0]}: Connection refused"
    assert second.startswith(f"127.0.0.1:{port} does not serve such a client: ")
    assert second.endswith("(see security.protocol)")


async def test_a_coordinator_that_loads_or_has_moved_is_asked_again() -> None:
    states = [ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator, ErrorCode.none]
    found = iter([ErrorCode.coordinator_not_available, *[ErrorCode.none] * 3])

    def find(request: Any) -> Mapping[str, Any]:
        assert (request.key, request.key_type) == ("payments", 1)
        return {
            "error_code": next(found),
            "error_message": None,
            "node_id": 1,
            "host": "",
            "port": 1,
        }

    def describe(request: Any) -> Mapping[str, Any]:
        state = {"error_code": states.pop(0), "transactional_id": "payments", "topics": []}
        rest = {"transaction_state": "Empty", "producer_id": 5, "producer_epoch": 1}
        return {"transaction_states": [{**state, **rest, "transaction_start_time": None}]}

    answers = {ApiKey.FIND_COORDINATOR: find, ApiKey.DESCRIBE_TRANSACTIONS: describe}
    versions = {ApiKey.FIND_COORDINATOR: (0, 6), ApiKey.DESCRIBE_TRANSACTIONS: (0, 0)}
    async with cluster(answers, versions) as (client, _):
        entry = await describe_transaction(client, "payments")
    # A transaction that has not begun.
    assert (entry["state"], entry["producer_id"], entry["start_ms"]) == ("Empty", 5, -1)


async def test_what_a_broker_refuses_is_its_text_or_the_name_of_its_error() -> None:
    texts = ["no", None]

    def refuse(_: Any) -> Mapping[str, Any]:
        code = ErrorCode.cluster_authorization_failed
        return {"error_code": code, "error_message": texts.pop(0), "results": []}

    answers = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: refuse}
    versions = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0)}
    async with cluster(answers, versions) as (client, _):
        for text in ("alice: no", "alice: CLUSTER_AUTHORIZATION_FAILED"):
            answer = await client.call(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, {"users": None})
            with pytest.raises(RequestError) as refused:
                check(answer, "alice")
            assert str(refused.value) == text


async def test_a_value_that_the_protocol_cannot_hold_is_refused_in_one_line() -> None:
    topic = {"name": "own", "num_partitions": 1 << 40, "replication_factor": 1}
    async with cluster(versions={ApiKey.CREATE_TOPICS: (2, 7)}) as (client, _):
        with pytest.raises(AdminError, match=r"^a value is too large for the request CreateTopics"):
            await client.call(ApiKey.CREATE_TOPICS, {"topics": [topic]})


def test_fields_that_are_not_named_have_their_defaults() -> None:
    made = message.request(ApiKey.CREATE_TOPICS, range(2, 8), {"topics": [{"name": "own"}]})
    assert made is not None
    version, request = made
    assert (version, request.topics[0].configs, request.validate_only) == (7, (), False)


async def test_a_group_of_a_coordinator_that_loads_is_asked_for_again() -> None:
    codes = [ErrorCode.coordinator_load_in_progress, ErrorCode.none]

    def listed(_: Any) -> Mapping[str, Any]:
        code = codes.pop(0)
        names = [("readers", "consumer"), ("tasks", "connect")] if code is ErrorCode.none else []
        rest = {"group_state": "PreparingRebalance", "group_type": "Classic"}
        groups = [{"group_id": name, "protocol_type": kind, **rest} for name, kind in names]
        return {"error_code": code, "groups": groups}

    answers = {ApiKey.LIST_GROUPS: listed}
    async with cluster(answers, {ApiKey.LIST_GROUPS: (0, 5)}) as (client, _):
        found, problems = await list_groups(client)
    assert [tuple(one) for one in found] == [("readers", "classic", "preparing rebalancing")]
    assert problems == []


@pytest.mark.parametrize("newest", [5, 6])
async def test_a_group_that_no_broker_knows_is_none_in_each_version(newest: int) -> None:
    def described(request: Any) -> Mapping[str, Any]:
        code = ErrorCode.group_id_not_found if newest == 6 else ErrorCode.none
        rest = {"protocol_type": "", "protocol_data": "", "members": []}
        one = {"error_code": code, "group_id": request.groups[0], "group_state": "Dead", **rest}
        return {"groups": [one]}

    def find(_: Any) -> Mapping[str, Any]:
        return {"error_message": None, "node_id": 1, "host": "", "port": 1}

    answers = {ApiKey.DESCRIBE_GROUPS: described, ApiKey.FIND_COORDINATOR: find}
    versions = {ApiKey.DESCRIBE_GROUPS: (0, newest), ApiKey.FIND_COORDINATOR: (0, 6)}
    async with cluster(answers, versions) as (client, _):
        assert await describe_group(client, "readers") is None


async def test_an_offset_is_asked_of_the_next_leader_where_one_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_offsets, "LEADER_DEADLINE_S", 0.3)
    codes = [ErrorCode.not_leader_or_follower, ErrorCode.none]

    def topics(_: Any) -> Mapping[str, Any]:
        ids = {"replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
        led = {"error_code": ErrorCode.none, "leader_id": 1, **ids}
        partitions = [{"partition_index": 0, **led}, {"partition_index": 1, **led, "leader_id": -1}]
        topic = {"error_code": ErrorCode.none, "name": "own", "partitions": partitions}
        return {"brokers": [], "topics": [topic]}

    def offsets(request: Any) -> Mapping[str, Any]:
        (topic,) = request.topics
        assert [one.partition_index for one in topic.partitions] == [0]
        one = {"partition_index": 0, "error_code": codes.pop(0), "offset": 7, "timestamp": -1}
        return {"topics": [{"name": topic.name, "partitions": [one]}]}

    first, second = TopicPartition("own", 0), TopicPartition("own", 1)
    versions = {ApiKey.LIST_OFFSETS: (1, 7)}
    async with cluster({ApiKey.LIST_OFFSETS: offsets}, versions) as (client, home):
        home.answers[ApiKey.METADATA] = topics
        found = await list_offsets(client, [first, second], LATEST)
    assert found[first] == (7, -1)
    assert str(found[second]) == "LEADER_NOT_AVAILABLE"
