"""Clusters that are not there: one line, an exit code, and an end to the wait."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin_tool import waiting
from jbodlab.cli.program import main
from jbodlab.kafka_admin import client
from jbodlab.kafka_admin.client import bootstrap_servers
from jbodlab.kafka_admin.errors import AdminError
from lab.machine.ports import HeldPorts
from tests.command_lines import started


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def silent(silent_server: socket.socket) -> str:
    """Its address."""
    return f"127.0.0.1:{silent_server.getsockname()[1]}"


def test_a_bootstrap_list_is_host_and_port() -> None:
    assert bootstrap_servers("a:1, [::1]:9092,b.c:65535") == [
        ("a", 1),
        ("::1", 9092),
        ("b.c", 65535),
    ]
    for wrong in ("a", "a:", ":1", "a:x", "a:65536", "a:1,b"):
        with pytest.raises(AdminError, match="expected an address HOST:PORT, got "):
            bootstrap_servers(wrong)
    with pytest.raises(AdminError, match="expected an address HOST:PORT, got "):
        bootstrap_servers(" , ")


@pytest.mark.parametrize(
    "words",
    [
        "topics list",
        "topics delete a --yes",
        "dirs list",
        "dirs drain broker-1/1",
        "dirs revive broker-1/1",
        "reassign list",
    ],
)
def test_every_command_says_who_refuses(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with HeldPorts.hold(1) as held:
        address = f"127.0.0.1:{held.numbers[0]}"
        bootstrap = f"{address},nobody.invalid:9092"

        assert main([*words.split(), "--bootstrap-server", bootstrap]) == 1

    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert found.err.startswith(
        f"jbodlab: cannot connect to {address}: Connection refused; cannot connect to "
        "nobody.invalid:9092: "
    )


def test_a_silent_server_is_given_up(
    silent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_S", 0.5)
    assert main(["topics", "list", "--bootstrap-server", silent]) == 1
    assert capsys.readouterr().err == (
        f"jbodlab: no Kafka broker answers at {silent} within 0.5 s\n"
    )


def test_a_long_wait_says_for_whom(
    silent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "BOOTSTRAP_TIMEOUT_S", 0.5)
    monkeypatch.setattr(waiting, "PROGRESS_AFTER_S", 0.0)
    assert main(["topics", "list", "--bootstrap-server", silent]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"waiting for {silent}"


def test_properties_are_read_before_anything_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    words = ["topics", "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)]

    assert main(words) == 1
    assert f"cannot read {path}: No such file or directory" in capsys.readouterr().err

    path.write_text("security.protocol=TLS\n")
    assert main(words) == 1
    assert "invalid value 'TLS' for configuration security.protocol" in capsys.readouterr().err

    path.write_text("linger.ms=5\n")
    assert main(words) == 1
    assert f"{path}: unknown property linger.ms has no effect\n" in capsys.readouterr().err


@pytest.mark.process
def test_ctrl_c_is_one_line(silent_server: socket.socket, silent: str) -> None:
    with started("topics", "list", "--bootstrap-server", silent) as process, asked(silent_server):
        # It waits for an answer.
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    # It may have said for what it waits.
    assert err.splitlines()[-1] == "jbodlab: interrupted"
    assert "Traceback" not in err


def asked(server: socket.socket) -> socket.socket:
    """Return the first connection through which somebody says something."""
    server.settimeout(60)
    while True:
        connection, _ = server.accept()
        connection.settimeout(60)
        if connection.recv(1):
            return connection
        connection.close()
