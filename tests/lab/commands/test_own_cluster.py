"""Which cluster `run` takes: the one that is up, or one of its own."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

import pytest

from fault_injection.preload import Control
from fault_injection.targets import PRELOADED
from jbodlab.cli.choice import NoClusterError
from jbodlab.cli.command import add, commands
from jbodlab.cli.lab_state import ClusterState
from jbodlab.cli.output import Output
from jbodlab.cli.parser import Parser
from lab import up_and_down
from lab.cluster import ClusterSpec, layout
from lab.cluster.engine import ENGINE_VARIABLE
from lab.commands.own_cluster import chosen_cluster, chosen_name
from lab.errors import LabError, WrongCallError
from lab.machine import processes
from lab.machine.interrupts import Interrupts
from lab.state_files import StateFiles

KAFKA = "kafka:4.3.1"


class Run:
    """Takes the cluster of a command line; what would be started is noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JBODLAB_STATE_DIR", str(folder / "state"))
        self.files = StateFiles.open()
        self.shapes: list[ClusterSpec] = []
        self.breakable: list[Path | None] = []
        monkeypatch.delenv(ENGINE_VARIABLE, raising=False)
        monkeypatch.setattr(up_and_down, "up", self._up)
        self.state = layout.plan(
            "x",
            folder / "x",
            "id",
            processes.own_user(),
            range(1, 4),
            ClusterSpec(brokers=2, disks=1),
        )

    def __call__(self, *words: str) -> bool:
        options = self._options("--cluster", "x", *words)
        with chosen_cluster(options, self.files, Interrupts(), lambda _: None) as found:
            self.breakable = [broker.target_node().rules for broker in found.cluster.brokers]
            return found.stays

    def name(self, *words: str) -> str:
        """The name of the cluster that is chosen."""
        return chosen_name(self._options(*words), self.files, Output(is_json=False))

    def _options(self, *words: str) -> Namespace:
        parser = Parser("jbodlab run", "run")
        add(parser, commands()["run"].arguments)
        parser.add_argument("--cluster")
        return parser.parse_args(["--fail", "broker-1/1", *words])

    def _up(self, _name: str, _user: object, shape: ClusterSpec, *_: object) -> ClusterState:
        self.shapes.append(shape)
        self.files.write(self.state)
        for node in self.state.brokers:
            folder = Path(self.state.root) / f"broker-{node.node_id}"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            Control.create(folder / PRELOADED)
        return self.state


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_nodes_of_a_cluster_of_its_own_are_as_the_command_line_says(run: Run) -> None:
    assert not run("--engine", KAFKA, "--controllers", "3", "--jvm-options=-Xmx1g")
    assert not run("--engine", KAFKA, "--combined", "--config", "a=b")

    first, second = run.shapes
    assert (first.controllers, first.combined, first.jvm_options) == (3, False, "-Xmx1g")
    assert (second.controllers, second.combined, second.config) == (1, True, {"a": "b"})


def test_single_calls_of_a_cluster_of_its_own_can_be_broken(run: Run) -> None:
    assert not run("--engine", KAFKA)
    assert run.breakable
    assert None not in run.breakable


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("--controllers", "2"), "the engine jbodlab has an odd number of controllers, not 2"),
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


def test_a_cluster_of_its_own_needs_no_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoClusterError, match="no cluster runs on this machine"):
        run.name()
    assert run.name("--engine", KAFKA) == run.name("--controllers", "3") == "default"
    monkeypatch.setenv(ENGINE_VARIABLE, KAFKA)
    assert run.name() == "default"
    assert run.name("--cluster", "five") == "five"


def test_the_variable_names_what_to_start_only_while_no_cluster_is_up(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.files.write(run.state)
    monkeypatch.setenv(ENGINE_VARIABLE, KAFKA)
    assert run.name() == "x"
    assert run.name("--engine", KAFKA) == "default"
