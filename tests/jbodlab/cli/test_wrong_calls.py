"""Wrong calls: one line that says what was expected, one that says where help is, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.cli.program import main
from tests.jbodlab.cli.shots import Shots


def test_wrong_calls_are_answered_with_what_was_meant(shots: Shots) -> None:
    shots.take(
        "stat",
        "tpics list",
        "topics lst",
        "topics",
        "--bogus",
        "--cluster x",
        "inject eio broker-1/2 --lenght 20s",
        "inject",
        "inject eio",
        "inject eio broker-1/1 --path /data/d1",
        "inject eio broker-1/1 --user kafka",
        "heal --all 3",
        "up --brokers 0",
        "up --kind tmfps",
        "up --size much",
        "up --cluster ../x",
        "up extra",
        "logs --lines",
        "completion powershell",
        "--output json completion bash",
        "status --output yaml",
        "topics list --cluster a --bootstrap-server b:1",
        "storage verify",
        "storage verify /data/d1 --rate 0",
        "storage dump",
        "what-if --fail-dir broker-1/1 --fail-broker 1",
        "what-if --bootstrap-server b:1 --input meta",
        "what-if --bootstrap-server b:1 --rate 0",
        "what-if --bootstrap-server b:1 --fail-broker 1 --format html",
        "replay --as-of 7",
        "run --fail broker-1/2",
        "run -- true",
        "rehearse --repeat 0 slow-disk",
        "rehearse --against kafak slow-disk",
        "rehearse --jvm-options -Xmx1g slow-disk",
        "rehearse --controllers 2 slow-disk",
        "up --controllers 8",
        "up --jvm-options --combined",
    )

    shots.compare("wrong-calls")


def test_what_fails_is_one_line_and_exit_code_1(shots: Shots, state_dir: Path) -> None:
    shots.take(
        "status",
        "status --cluster x",
        "topics list",
        "topics list --cluster x",
        "inject eio broker-1/2",
        "inject eio --path nowhere",
        "inject kill --path nowhere",
        "inject nonsense --path nowhere",
        "up --controllers 2",
        "up --combined",
        "up --jvm-options -Xmx1g",
        "heal",
        "heal 7",
        "start",
        "logs",
        "storage info --config nowhere",
        "storage verify nowhere",
        "storage dump nowhere.log",
        "storage repair nowhere --bootstrap-server 127.0.0.1:1",
        "why broker 1 --input nowhere",
    )

    shots.compare("failures")


def test_what_succeeds_without_a_cluster(shots: Shots) -> None:
    shots.take(
        "--version",
        "list",
        "--output json list",
        "list --output json",
        "down",
        "down --output json",
        "faults list",
        "faults list --output json",
        "faults kinds",
        "heal --all",
        "heal --path . --output json",
        "completion clusters",
    )

    shots.compare("without-a-cluster")


def test_ctrl_c_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jbodlab.cli.command.importlib.import_module", interrupted)

    assert main(["list"]) == 130
    assert capsys.readouterr() == ("", "jbodlab: interrupted\n")
