"""Command lines about records, groups, offsets and configs that need no cluster."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin_tool import client
from admin_tool.records import separator, split
from lab.machine.ports import HeldPorts
from tests.command_lines import CommandLines, started

EVERY_COMMAND = (
    "records produce orders",
    "records consume orders",
    "groups list",
    "groups describe readers",
    "groups reset readers --topic orders --to latest",
    "groups delete readers",
    "configs describe topic orders",
    "configs alter topic orders --set retention.ms=5",
    "offsets orders",
)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("line", EVERY_COMMAND)
def test_a_cluster_that_cannot_be_reached_is_one_line(line: str) -> None:
    with HeldPorts.hold(1) as held:
        assert CommandLines(f"127.0.0.1:{held.numbers[0]}").seen(line) == (
            "! jbodlab: cannot connect to ADDRESS: Connection refused\nexit 1\n"
        )


def test_a_server_that_does_not_answer_is_given_up(
    silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "METADATA_TIMEOUTS_S", (0.2, 0.3))
    assert CommandLines(address(silent)).seen("records consume orders") == (
        "! jbodlab: no Kafka broker answers at ADDRESS within 0.5 s\nexit 1\n"
    )


@pytest.mark.process
def test_ctrl_c_while_nobody_answers_is_one_line(silent: socket.socket) -> None:
    with started("records", "consume", "t", "--bootstrap-server", address(silent)) as process:
        silent.settimeout(60)
        # The first only tries whether somebody is there.
        silent.accept()[0].close()
        with silent.accept()[0]:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "jbodlab: interrupted\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("records produce", "missing TOPIC"),
        ("records produce t --property x", "--property: expected KEY=VALUE, got 'x'"),
        ("records consume t --from x", "--from: expected beginning, end or an offset, got 'x'"),
        (
            "records consume t --timeout 5",
            "--timeout: expected a duration such as 250ms, 20s or 1m30s, got '5'",
        ),
        (
            "records consume t --group g --from 5",
            "--group excludes --partition and --from with an offset",
        ),
        ("groups describe", "missing GROUP"),
        ("groups reset g --topic t", "missing --to"),
        ("configs describe topic", "missing NAME"),
        ("configs describe cluster c", "unexpected argument 'c'"),
        ("configs describe broker x", "expected the id of a broker, got 'x'"),
        ("configs alter topic t", "missing --set or --delete"),
        ("configs alter topic t --set x", "--set: expected KEY=VALUE, got 'x'"),
        ("offsets", "missing TOPIC or --matching"),
        (
            "offsets t --at soon",
            "--at: expected earliest, latest, max-timestamp or a time such as "
            "2026-01-31T23:59:59+01:00, got 'soon'",
        ),
    ],
)
def test_a_wrong_call_says_what_was_expected(line: str, message: str) -> None:
    noun, *verb = line.split()[:1] if line.startswith("offsets") else line.split()[:2]
    command = " ".join(["jbodlab", noun, *verb])
    assert (
        CommandLines("127.0.0.1:1").seen(line)
        == f"! {command}: {message}\n! try `{command} --help`\nexit 2\n"
    )


def test_properties_are_handed_to_the_library(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    given = ("--command-config", str(path))
    assert CommandLines("127.0.0.1:1").seen("records consume t", *given) == (
        f"! jbodlab: cannot read {path}: No such file or directory\nexit 1\n"
    )

    path.write_text("linger.sm=5\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert CommandLines(address(server)).seen("records consume t", *given) == (
            '! jbodlab: No such configuration property: "linger.sm"\nexit 1\n'
        )


def test_lines_have_a_key_where_a_separator_is_given() -> None:
    assert split(b"a:b", None, 1) == (None, b"a:b")
    assert split(b"a:b:c", ":", 1) == (b"a", b"b:c")
    assert split(b":", ":", 1) == (b"", b"")
    assert separator(r"\t") == "\t"
