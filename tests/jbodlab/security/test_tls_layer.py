"""The layer without a socket: any bytes, in any pieces."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbodlab.config.tls_keys import listener_tls
from jbodlab.security import tls_files
from jbodlab.security.tls_layer import HANDSHAKE_BYTES_MAX, TlsError, TlsLayer
from tests.certificates import Authority, now

CA = Authority()
_ISSUED = CA.issue("broker-1")


def _context() -> ssl.SSLContext:
    found = listener_tls(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": _ISSUED.private_key(),
            "ssl.keystore.certificate.chain": _ISSUED.chain,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": CA.pem,
            "ssl.client.auth": "required",
        },
        "",
        logs_in=False,
    )
    return tls_files.server_context(found, tls_files.read(found, now()))


CONTEXT = _context()


class Client:
    """The other side, in memory, with a certificate."""

    def __init__(self, folder: Callable[[], str]) -> None:
        context = ssl.create_default_context(cadata=CA.pem)
        context.load_cert_chain(folder())
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.is_open = False

    def take(self, data: bytes) -> bytes:
        self.incoming.write(data)
        if not self.is_open:
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
                self.is_open = True
        return self.outgoing.read()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Client]:
    path = CA.issue("alice").write(tmp_path_factory.mktemp("keys") / "alice.pem")
    return lambda: Client(lambda: str(path))


def fed(layer: TlsLayer, data: bytes, piece: int = 1 << 16) -> bytes:
    """Give bytes to a layer in pieces; returns what it sends and raises what it raises."""
    sent = b""
    for start in range(0, len(data), piece):
        layer.receive(memoryview(data[start : start + piece]))
        if not layer.is_open:
            layer.handshake()
        sent += layer.take()
    return sent


def opened(client: Client, piece: int = 1 << 16) -> TlsLayer:
    layer = TlsLayer(CONTEXT)
    data = client.take(b"")
    while data:
        data = client.take(fed(layer, data, piece))
    assert layer.is_open
    assert client.is_open
    return layer


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 16])
def test_a_handshake_may_come_in_any_pieces(client: Callable[[], Client], piece: int) -> None:
    layer = opened(client(), piece)

    assert layer.certificate is not None


@settings(deadline=None, max_examples=50)
@given(st.binary(min_size=1, max_size=70_000), st.integers(1, 40_000), st.integers(1, 40_000))
def test_what_is_sent_arrives_whatever_the_pieces(
    client: Callable[[], Client], data: bytes, piece: int, room: int
) -> None:
    other = client()
    layer = opened(other)
    other.tls.write(data)
    received, buffer = b"", memoryview(bytearray(room))
    sent = other.outgoing.read()
    for start in range(0, len(sent), piece):
        layer.receive(memoryview(sent[start : start + piece]))
        while count := layer.read_into(buffer):
            received += bytes(buffer[:count])
            if count < room:
                break
    assert received == data
    layer.write(data)
    other.incoming.write(layer.take())
    back = b""
    with contextlib.suppress(ssl.SSLWantReadError):
        while True:
            back += other.tls.read(1 << 16)
    assert back == data


@settings(deadline=None, max_examples=300)
@given(st.binary(min_size=1, max_size=2000), st.integers(1, 2000))
def test_any_bytes_are_an_error_or_wait_for_more(data: bytes, piece: int) -> None:
    for start in (b"", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\x01\x00\x01"):
        layer = TlsLayer(CONTEXT)
        with contextlib.suppress(TlsError):
            fed(layer, start + data, piece)
        assert not layer.is_open


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_a_changed_handshake_opens_nothing_that_was_not_meant(
    client: Callable[[], Client], data: st.DataObject
) -> None:
    hello = bytearray(client().take(b""))
    for _ in range(data.draw(st.integers(1, 4))):
        hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    layer = TlsLayer(CONTEXT)
    with contextlib.suppress(TlsError):
        fed(layer, bytes(hello))
    assert not layer.is_open


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_a_changed_record_is_an_error_and_never_other_bytes(
    client: Callable[[], Client], data: st.DataObject
) -> None:
    other = client()
    layer = opened(other)
    other.tls.write(b"a request")
    sent = bytearray(other.outgoing.read())
    at = data.draw(st.integers(0, len(sent) - 1))
    sent[at] ^= data.draw(st.integers(1, 255))
    buffer = memoryview(bytearray(100))
    layer.receive(memoryview(sent))
    try:
        assert layer.read_into(buffer) == 0
    except TlsError:
        assert layer.take()


def test_a_handshake_without_end_is_cut_off() -> None:
    layer = TlsLayer(CONTEXT)
    for _ in range(HANDSHAKE_BYTES_MAX // 1024):
        layer.receive(memoryview(b"\x16" * 1024))
    with pytest.raises(TlsError, match="a handshake of over"):
        layer.receive(memoryview(b"\x16"))


def test_the_end_of_a_client_is_noticed(client: Callable[[], Client]) -> None:
    other = client()
    layer = opened(other)
    with contextlib.suppress(ssl.SSLWantReadError):
        other.tls.unwrap()
    layer.receive(memoryview(other.outgoing.read()))

    assert layer.read_into(memoryview(bytearray(10))) == 0
    assert layer.has_ended
    layer.end()
