"""The HTTP door: what is answered, what is refused, and that nobody can keep it busy."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from jbodlab.config.node_config import read_values
from jbodlab.runtime import metrics_endpoint
from jbodlab.runtime.metrics import Metric, metrics_of_servers, values
from jbodlab.runtime.metrics_endpoint import Address, MetricsEndpoint, metrics_address
from jbodlab.security.secret import Secret
from jbodlab.vocabulary.errors import ConfigError


def one_metric() -> Iterator[Metric]:
    yield from values({"kafka_server_KafkaServer_BrokerState": 3})


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


@pytest.fixture
def endpoint(runner: asyncio.Runner) -> Iterator[MetricsEndpoint]:
    endpoint = MetricsEndpoint(Address("127.0.0.1", 0), one_metric)
    runner.run(endpoint.start())
    yield endpoint
    runner.run(endpoint.close())


async def test_metrics_are_answered_and_the_connection_is_closed(endpoint: MetricsEndpoint) -> None:
    answer = await ask(endpoint.port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    name = b"kafka_server_KafkaServer_BrokerState"
    meaning = metrics_of_servers()[name.decode()].meaning.encode()
    text = b"# HELP %b %b\n# TYPE %b gauge\n%b 3\n" % (name, meaning, name, name)
    assert (
        answer
        == (
            b"HTTP/1.1 200 OK\r\n"
            b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(text)
        )
        + text
    )


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET /metrics?name=x HTTP/1.1", 200),
        (b"GET /metrics HTTP/1.0", 200),
        (b"HEAD /metrics HTTP/1.1", 200),
        (b"GET / HTTP/1.1", 404),
        (b"GET /metricsx HTTP/1.1", 404),
        (b"POST /metrics HTTP/1.1", 405),
        (b"GET /metrics", 400),
        (b"\x16\x03\x01 nonsense \xff", 400),
        (b"GET /metrics SPDY/3", 400),
        (b"GET  /metrics HTTP/1.1", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: y", 400),
        (b"GET /metrics HTTP/1.1\r\nno colon", 400),
    ],
)
async def test_each_request_has_its_status(
    request_line: bytes, expected: int, endpoint: MetricsEndpoint
) -> None:
    answer = await ask(endpoint.port, request_line + b"\r\nHost: x\r\n\r\n")
    assert status(answer) == expected
    if request_line.startswith(b"HEAD"):
        assert answer.endswith(b"\r\n\r\n")


async def test_a_request_without_end_is_refused(endpoint: MetricsEndpoint) -> None:
    answer = await ask(endpoint.port, b"GET /metrics HTTP/1.1\r\n" + b"x" * 20_000)
    assert status(answer) == 431


async def test_a_slow_request_is_dropped(
    monkeypatch: pytest.MonkeyPatch, endpoint: MetricsEndpoint
) -> None:
    monkeypatch.setattr(metrics_endpoint, "HTTP_REQUEST_S", 0.05)

    with pytest.raises(ConnectionError):
        raise_if_closed(await ask(endpoint.port, b"GET /met"))
    assert status(await ask(endpoint.port, b"GET /metrics HTTP/1.0\r\n\r\n")) == 200


def raise_if_closed(answer: bytes) -> None:
    if not answer:
        raise ConnectionError


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of the endpoint, which tells nobody
            await asyncio.sleep(0.001)


async def test_connections_beyond_a_number_wait_and_are_served(endpoint: MetricsEndpoint) -> None:
    count = metrics_endpoint.HTTP_CONNECTIONS_MAX
    open_ones = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(count)]
    await until(lambda: len(endpoint._connections) == count)
    request = b"GET /metrics HTTP/1.0\r\n\r\n"
    waiting = [asyncio.create_task(ask(endpoint.port, request)) for _ in range(3 * count)]
    await until(lambda: endpoint._acceptor.is_waiting)
    assert len(endpoint._connections) == count
    for _, writer in open_ones:
        writer.close()
    assert [status(await each) for each in waiting] == [200] * 3 * count


async def test_a_request_whose_end_is_missing_is_ended_by_its_next_bytes(
    endpoint: MetricsEndpoint,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    for each in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n":
        writer.write(bytes([each]))
        await asyncio.sleep(0)
    assert status(await reader.read()) == 200
    writer.close()


async def test_a_reader_that_stops_is_dropped(
    monkeypatch: pytest.MonkeyPatch, endpoint: MetricsEndpoint
) -> None:
    monkeypatch.setattr(metrics_endpoint, "HTTP_REQUEST_S", 0.2)
    long = [Metric("g", [("", {"a": "z" * (16 << 20)}, 1)])]
    monkeypatch.setattr(endpoint, "_collect", lambda: long)
    _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=1024)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    await until(lambda: len(endpoint._connections) == 1)
    await until(lambda: not endpoint._connections)
    writer.transport.abort()


async def test_a_client_that_goes_away_does_no_harm(endpoint: MetricsEndpoint) -> None:
    for sent in (b"", b"GET /metrics HTTP/1.1\r\n", b"GET /metrics HTTP/1.0\r\n\r\n"):
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(sent)
        writer.transport.abort()
    assert status(await ask(endpoint.port, b"GET /metrics HTTP/1.0\r\n\r\n")) == 200


async def test_what_cannot_be_collected_is_an_error_of_that_request_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, endpoint: MetricsEndpoint
) -> None:
    fail = True

    def collect() -> Iterator[Metric]:
        yield from values({"g": 1})
        if fail:
            raise ZeroDivisionError

    monkeypatch.setattr(endpoint, "_collect", collect)
    assert status(await ask(endpoint.port, b"GET /metrics HTTP/1.0\r\n\r\n")) == 500
    fail = False
    assert status(await ask(endpoint.port, b"GET /metrics HTTP/1.0\r\n\r\n")) == 200
    assert "ZeroDivisionError" in caplog.text


async def test_a_taken_port_is_a_wrong_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        endpoint = MetricsEndpoint(Address(*taken.getsockname()), one_metric)
        with pytest.raises(ConfigError, match=r"jbodlab\.metrics\.port: cannot be bound"):
            await endpoint.start()
        await endpoint.close()


def test_metrics_are_off_unless_a_port_is_set() -> None:
    def address(**settings: str) -> object:
        named = {f"jbodlab.metrics.{key}": value for key, value in settings.items()}
        values, unknown = read_values(named)
        assert unknown == []
        return metrics_address(values)

    assert address() is None
    assert address(host="0.0.0.0") is None
    assert address(port="9404") == Address("127.0.0.1", 9404)
    with pytest.raises(ConfigError):
        address(port="70000")


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "broker-1"])
def test_an_address_that_others_reach_is_not_served_without_a_token(host: str) -> None:
    settings = {"jbodlab.metrics.port": "9404", "jbodlab.metrics.host": host}
    with pytest.raises(ConfigError, match=r"jbodlab\.metrics\.token: must be set where"):
        metrics_address(read_values(settings)[0])

    found = metrics_address(read_values({**settings, "jbodlab.metrics.token": "s3cret"})[0])

    assert found == Address(host, 9404, Secret("s3cret"))
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_an_address_of_this_machine_needs_no_token(host: str) -> None:
    settings = {"jbodlab.metrics.port": "9404", "jbodlab.metrics.host": host}
    assert metrics_address(read_values(settings)[0]) == Address(host, 9404)


def test_a_token_that_no_header_can_carry_is_refused_unseen() -> None:
    settings = {"jbodlab.metrics.port": "9404", "jbodlab.metrics.token": "two words"}
    with pytest.raises(ConfigError) as raised:
        metrics_address(read_values(settings)[0])
    assert "two" not in str(raised.value)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", 401),
        ("Authorization: Bearer s3cret\r\n", 200),
        ("authorization: bearer s3cret\r\n", 200),
        ("Authorization: Bearer s3cre\r\n", 401),
        ("Authorization: Bearer s3cret2\r\n", 401),
        ("Authorization: Bearer \xe9\r\n", 401),
        ("Authorization: Basic s3cret\r\n", 401),
        ("Authorization: s3cret\r\n", 401),
    ],
)
async def test_without_the_token_nothing_is_told(header: str, expected: int) -> None:
    endpoint = MetricsEndpoint(Address("127.0.0.1", 0, Secret("s3cret")), one_metric)
    await endpoint.start()
    try:
        for path in ("/metrics", "/other"):
            head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n".encode("latin-1")
            answer = await ask(endpoint.port, head)
            assert status(answer) == (404 if expected == 200 and path == "/other" else expected)
    finally:
        await endpoint.close()
