"""Which Java runs Apache Kafka, and what is said where none does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.machine import kafka_jars
from lab.machine.kafka_jars import NoKafkaError, java, require, run

IN_VAIN = """\
NOTE: Picked up JDK_JAVA_OPTIONS: -XX:Nonsense
Picked up JAVA_TOOL_OPTIONS: -XX:Nonsense
Unrecognized VM option 'Nonsense'
Error: Could not create the Java Virtual Machine.
Error: A fatal exception has occurred. Program will exit.
"""


def test_the_java_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    require("java")

    assert java() == f"{tmp_path}/bin/java"
    monkeypatch.delenv("JAVA_HOME")
    assert java() == "java"
    with pytest.raises(NoKafkaError, match=r"^java is not installed: Apache Kafka needs Java 17"):
        require("java")


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/gone")

    with pytest.raises(NoKafkaError, match=r"^JAVA_HOME /gone has no bin/javac$"):
        require("javac")


@pytest.mark.process
def test_variables_that_give_java_its_options_are_named_where_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in kafka_jars.JAVA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    command = (sys.executable, "-c", f"import sys; sys.exit({IN_VAIN!r})")
    with pytest.raises(NoKafkaError, match=r"^it fails: Unrecognized VM option 'Nonsense'$"):
        run("it fails", *command, deadline_s=30)

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:Nonsense")

    with pytest.raises(NoKafkaError, match=r"'Nonsense' \(options of JAVA_TOOL_OPTIONS are in"):
        run("it fails", *command, deadline_s=30)
