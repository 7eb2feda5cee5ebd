"""Commands that work on Apache Kafka's brokers: the declaration, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

from fault_injection.kinds import KINDS
from jbodlab.cli import program
from jbodlab.cli.on_kafka import COMMANDS, FAULTS, How, OnKafka
from lab.cluster import ClusterSpec, layout
from lab.cluster.engine import Engine
from lab.machine.processes import own_user
from lab.ui import watching

PAGE = Path(__file__).parents[2] / "docs" / "your-kafka.md"


def rows(title: str) -> dict[str, OnKafka]:
    """The rows of a table of the page."""
    lines = PAGE.read_text("utf-8").splitlines()
    begin = lines.index(f"| {title} | On jbodlab | On Apache Kafka | Difference or reason |")
    found = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        name, ours, how, text = (cell.strip() for cell in line.strip("|").split("|"))
        assert ours == "works"
        found[name.strip("`")] = OnKafka(How(how), text)
    return found


def test_the_page_shows_the_declared_commands_and_faults() -> None:
    assert rows("Command") == dict(COMMANDS)
    assert rows("Fault") == dict(FAULTS)


def test_every_command_is_declared_once_by_itself_or_verb_by_verb() -> None:
    for name in program.nouns():
        verbs = [key.partition(" ")[2] for key in COMMANDS if key.startswith(f"{name} ")]
        if not verbs:
            assert name in COMMANDS
            continue
        assert name not in COMMANDS
        assert sorted(f"{name} {verb}" for verb in verbs) == sorted(program.commands_of(name))
    nouns = {key.partition(" ")[0] for key in COMMANDS}
    assert nouns == set(program.nouns())


def test_every_kind_of_fault_is_declared() -> None:
    assert list(FAULTS) == list(KINDS)


def test_what_differs_or_is_refused_has_a_reason() -> None:
    for one in (*COMMANDS.values(), *FAULTS.values()):
        assert bool(one.text) == (one.how is not How.WORKS)


def test_the_live_page_of_a_cluster_of_kafka_says_what_it_cannot_know(tmp_path: Path) -> None:
    for engine, not_known in ((Engine("4.3.1"), (COMMANDS["ui"].text,)), (Engine(), ())):
        state = layout.plan(
            "x", tmp_path, "id", own_user(), (1, 2), ClusterSpec(brokers=1, engine=engine)
        )
        assert watching.own(state, tmp_path).not_known == not_known
