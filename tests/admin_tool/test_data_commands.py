"""Command lines about records, groups, offsets and configs that need no cluster."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from admin_tool import client
from admin_tool.records import seconds, separator, split
from lab.cluster.ports import HeldPorts
from tests.command_lines import CommandLines

NOBODY = ("--bootstrap-server", "127.0.0.1:1")
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
def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLines:
    return CommandLines(capsys, monkeypatch)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("line", EVERY_COMMAND)
def test_a_cluster_that_cannot_be_reached_is_one_line(line: str, lines: CommandLines) -> None:
    with HeldPorts.hold(1) as held:
        at = ("--bootstrap-server", f"127.0.0.1:{held.numbers[0]}")
        assert lines.seen(line, *at) == (
            "! jbodlab: cannot connect to ADDRESS: Connection refused\nexit 1\n"
        )


def test_a_server_that_does_not_answer_is_given_up(
    silent: socket.socket, lines: CommandLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "METADATA_TIMEOUTS_S", (0.2, 0.3))
    assert lines.seen("offsets orders", "--bootstrap-server", address(silent)) == (
        "! jbodlab: no Kafka broker answers at ADDRESS within 0.5 s\nexit 1\n"
    )


@pytest.mark.process
def test_ctrl_c_while_nobody_answers_is_one_line(silent: socket.socket) -> None:
    program = "import sys; from jbodlab.cli.program import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "groups", "list"]
    with subprocess.Popen(
        [*command, "--bootstrap-server", address(silent)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run that was put in the background ignores it, and children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            silent.settimeout(60)
            # The first only tries whether somebody is there.
            silent.accept()[0].close()
            with silent.accept()[0]:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (130, "", "jbodlab: interrupted\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("records produce", "missing TOPIC"),
        ("records produce t --property x", "--property: expected KEY=VALUE, got 'x'"),
        ("records produce t --partition 0 --partition 1", "--partition: expected one partition"),
        ("records consume t --from x", "--from: expected beginning, end or an offset, got 'x'"),
        (
            "records consume t --timeout 5",
            "--timeout: expected a duration such as 500ms, 10s or 2m, got '5'",
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
def test_a_wrong_call_says_what_was_expected(line: str, message: str, lines: CommandLines) -> None:
    noun, *verb = line.split()[:1] if line.startswith("offsets") else line.split()[:2]
    command = " ".join(["jbodlab", noun, *verb])
    assert (
        lines.seen(line, *NOBODY) == f"! {command}: {message}\n! try `{command} --help`\nexit 2\n"
    )


def test_properties_are_handed_to_the_library(tmp_path: Path, lines: CommandLines) -> None:
    path = tmp_path / "client.properties"
    at = ("--client-config", str(path), *NOBODY)
    assert lines.seen("offsets t", *at) == (
        f"! jbodlab: cannot read {path}: No such file or directory\nexit 1\n"
    )

    path.write_text("linger.sm=5\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = ("--client-config", str(path), "--bootstrap-server", address(server))
        assert lines.seen("offsets t", *at) == (
            '! jbodlab: No such configuration property: "linger.sm"\nexit 1\n'
        )


def test_lines_have_a_key_where_a_separator_is_given() -> None:
    assert split(b"a:b", None, 1) == (None, b"a:b")
    assert split(b"a:b:c", ":", 1) == (b"a", b"b:c")
    assert split(b":", ":", 1) == (b"", b"")
    assert separator(r"\t") == "\t"


def test_durations_have_a_unit() -> None:
    assert [seconds(text) for text in ("500ms", "10s", "1.5s", "2m")] == [0.5, 10, 1.5, 120]
