"""Processes for Kafka's tools: the jars are fetched once, and one process answers as many would."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jbodlab.metadata.records import frame
from jbodlab.metadata.records.config_records import NoOpRecord
from tests.kafka import jars
from tests.kafka.tools import DUMP_LOG, STORAGE, KafkaTools
from tests.storage_tool.dumping import values, write

Call = tuple[str, list[object], str]


def nothing(_: Path) -> Call:
    return DUMP_LOG, [], ""


def a_log(folder: Path) -> Call:
    path = write(folder, values("value ä€😀".encode()))
    return DUMP_LOG, ["--print-data-log", "--files", path], ""


def a_log_that_kafkas_tool_does_not_survive(folder: Path) -> Call:
    path = write(folder, bytes(100))
    return DUMP_LOG, ["--print-data-log", "--files", path], ""


def a_random_word(_: Path) -> Call:
    return STORAGE, ["no-such-command"], ""


def input_on_its_standard_input(_: Path) -> Call:
    return "KafkaRecords", [], f"{frame.encode(NoOpRecord(), 0).hex()}\nff\n"


@pytest.mark.kafka
@pytest.mark.parametrize(
    "call",
    [
        nothing,
        a_log,
        a_log_that_kafkas_tool_does_not_survive,
        a_random_word,
        input_on_its_standard_input,
    ],
)
def test_a_call_prints_the_same_here_and_in_a_process_of_its_own(
    call: Callable[[Path], Call], kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    main, arguments, text = call(tmp_path)

    here = kafka_tools.run(main, *arguments, text=text)
    alone = kafka_tools.run_alone(main, *arguments, text=text)

    assert (here.code, here.out) == (alone.code, alone.out)
    # Below the tool's own the frames of a trace differ.
    assert above_the_frames(here.err) == above_the_frames(alone.err)


def above_the_frames(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("\tat ")]


@pytest.mark.kafka
def test_a_tool_that_ends_the_java_process_is_named_and_the_next_call_starts_another(
    kafka_tools: KafkaTools,
) -> None:
    with pytest.raises(AssertionError, match=r"^ToolServer .*: it ended the Java process with 0"):
        kafka_tools.run("ToolServer")

    assert kafka_tools.run("KafkaRecords").code == 0


def test_what_all_processes_need_is_made_once_by_who_holds_the_lock(tmp_path: Path) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        with (tmp_path / "lock").open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (folder / "jar").write_text("whole")

    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: jars.once(tmp_path, "jars", make), range(4)))

    assert len(made) == 1
    assert {(folder / "jar").read_text() for folder in folders} == {"whole"}


def test_what_was_half_made_is_made_anew(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise jars.NoKafkaError("no network")

    with pytest.raises(jars.NoKafkaError):
        jars.once(tmp_path, "jars", fail)
    folder = jars.once(tmp_path, "jars", lambda made: (made / "jar").touch())

    assert [path.name for path in folder.iterdir()] == ["jar"]


def test_the_reason_is_told_where_there_are_no_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(jars.NoKafkaError, match=r"^java is not installed: "):
        jars.fetched(cache=tmp_path)
