"""Which cluster `run` takes: the one that is up, or one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from jbodlab.cli import program
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.parser import Parser
from lab import up_and_down
from lab.cluster import layout, processes
from lab.cluster.engine import ENGINE_VARIABLE
from lab.commands.fault_nouns import RUN
from lab.commands.own_cluster import chosen_cluster
from lab.commands.running import NOT_KNOWN
from lab.errors import LabError, WrongCallError
from lab.interrupts import Interrupts
from lab.state_files import StateFiles
from lab.up_and_down import Shape

KAFKA = "kafka:4.3.1"


class Run:
    """Takes the cluster of a command line; what would be started is noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JBODLAB_STATE_DIR", str(folder / "state"))
        self.files = StateFiles.open()
        self.shapes: list[Shape] = []
        self.started: list[str] = []
        self.is_refused = False
        monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
        monkeypatch.setattr(up_and_down, "up", self._up)
        self.state = layout.plan(
            "x", folder / "x", "id", processes.own_user(), range(1, 4), log_dirs=1
        )

    def __call__(self, *words: str) -> bool:
        parser = Parser("jbodlab run", RUN.help)
        RUN.arguments(parser)
        parser.add_argument("--cluster", default="x")
        options = parser.parse_args(["--fail", "broker-1/1", *words])
        with chosen_cluster(options, self.files, Interrupts(), lambda _: None) as found:
            return found.stays

    def command(self, *words: str) -> tuple[int, list[str]]:
        """Call the whole command; returns its exit code, and the names of what it started."""
        code = program.main(["run", *words, "--fail", "broker-1/1", "--", "true"])
        return code, self.started

    def _up(self, name: str, _user: object, shape: Shape, *_: object) -> ClusterState:
        self.shapes.append(shape)
        self.started.append(name)
        if self.is_refused:
            raise LabError("no room")
        return self.state


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_nodes_of_a_cluster_of_its_own_are_as_the_command_line_says(run: Run) -> None:
    assert not run("--engine", KAFKA, "--controllers", "3", "--jvm-options=-Xmx1g")
    assert not run("--engine", KAFKA, "--combined", "--config", "a=b")

    first, second = run.shapes
    assert (first.controllers, first.is_combined, first.jvm_options) == (3, False, "-Xmx1g")
    assert (second.controllers, second.is_combined, second.config) == (1, True, {"a": "b"})


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("--controllers", "3"), "the engine jbodlab has one controller, not 3"),
        (("--combined",), "a node of the engine jbodlab has one role"),
        (("--jvm-options=-Xmx1g",), "the engine jbodlab has no JVM"),
        (("--engine", "kafka:4"), "expected an engine"),
    ],
)
def test_what_its_engine_does_not_have_is_a_wrong_call(
    run: Run, words: tuple[str, ...], refused: str
) -> None:
    with pytest.raises(WrongCallError, match=f"^{refused}"):
        run(*words)
    assert not run.shapes


@pytest.mark.parametrize(
    "words",
    [
        ("--engine", "jbodlab"),
        ("--config", "a=b"),
        ("--jvm-options=-Xmx1g",),
        ("--controllers", "1"),
        ("--combined",),
    ],
)
def test_options_of_nodes_have_no_effect_on_a_cluster_that_is_up(
    run: Run, words: tuple[str, ...]
) -> None:
    run.files.write(run.state)
    with pytest.raises(WrongCallError, match=f"x is up, so {words[0].partition('=')[0]} has no"):
        run(*words)


def test_without_a_cluster_and_without_options_there_is_none(run: Run) -> None:
    with pytest.raises(LabError):
        run()


@pytest.mark.parametrize(
    ("words", "variable"), [(("--engine", KAFKA), ""), (("--config", "a=b"), ""), ((), KAFKA)]
)
def test_what_it_starts_needs_no_name(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], variable: str
) -> None:
    monkeypatch.setenv(ENGINE_VARIABLE, variable)
    run.is_refused = True

    assert run.command(*words) == (NOT_KNOWN, ["default"])


def test_a_cluster_that_is_up_needs_no_name_though_the_variable_is_set(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.files.write(run.state)
    monkeypatch.setenv(ENGINE_VARIABLE, KAFKA)

    _, started = run.command("--after", "never")

    assert not started
    assert "cluster x at" in capsys.readouterr().err


def test_without_a_cluster_the_command_tells_how_to_start_one(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.command() == (1, [])
    assert "no cluster runs on this machine; start one with `jbodlab up`" in capsys.readouterr().err
