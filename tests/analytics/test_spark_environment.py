"""Where the user's own settings of Spark keep it from starting, one sentence names them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analytics.errors import ReplayInputError
from analytics.job.spark_environment import explained, failure, refusal
from lab.machine.waiting import wait_for
from tests.analytics.commands import python
from tests.analytics.shared import FIXTURES

LOG = FIXTURES / "4.3.1-disks" / "controller"
TRACE = """\
26/11/29 ERROR SparkContext: Error initializing SparkContext.
java.lang.RuntimeException: the outer one
\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:1)
Caused by: java.io.FileNotFoundException: File file:/gone/events does not exist
\tat org.apache.hadoop.fs.RawLocalFileSystem.get(RawLocalFileSystem.java:2)
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A file of defaults in SPARK_CONF_DIR."""
    return tmp_path / "spark-defaults.conf"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"SPARK_HOME": "/gone"}, "SPARK_HOME /gone has no bin/spark-submit: unset it"),
        ({"SPARK_REMOTE": "sc://h"}, "SPARK_REMOTE is set, and a replay does not run over"),
        ({"SPARK_LOCAL_REMOTE": "1"}, "SPARK_LOCAL_REMOTE is set, and a replay does not run over"),
        ({"SPARK_API_MODE": "Connect"}, "SPARK_API_MODE is connect, and a replay does not run"),
        ({"SPARK_API_MODE": "classic", "SPARK_HOME": "", "SPARK_REMOTE": ""}, ""),
    ],
)
def test_variables_that_ask_for_another_spark_are_named(
    variables: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    found = refusal(variables, tmp_path)

    assert found.startswith(sentence)
    assert bool(found) is found.endswith("or replay with --engine local")


@pytest.mark.parametrize(
    "line", ["spark.remote=sc://h", "spark.remote  sc://h", "spark.api.mode: Connect"]
)
def test_a_file_of_defaults_that_asks_for_another_spark_is_named(conf: Path, line: str) -> None:
    conf.write_text(f"# of the team\n\n{line}\n")

    found = refusal({"SPARK_CONF_DIR": str(conf.parent)}, conf.parent)

    key = "spark.remote" if "remote" in line else "spark.api.mode"
    assert found.startswith(f"{key} is set in {conf}, and a replay")


@pytest.mark.parametrize(
    ("line", "variable", "named"),
    [
        (
            "spark.eventLog.dir file:/gone/events/",
            "JAVA_TOOL_OPTIONS",
            "spark.eventLog.dir in FILE",
        ),
        ("", "PYSPARK_SUBMIT_ARGS", "PYSPARK_SUBMIT_ARGS, SPARK_CONF_DIR, FILE"),
    ],
    ids=["the setting whose value the cause names", "else all that had a part in the start"],
)
def test_what_the_user_has_set_is_told(conf: Path, line: str, variable: str, named: str) -> None:
    conf.write_text(f"spark.eventLog.enabled true\n{line}\n")
    variables = {"SPARK_CONF_DIR": str(conf.parent), variable: "--x"}

    assert failure("it ended", TRACE, variables, conf.parent) == (
        "Spark does not start: java.io.FileNotFoundException: File file:/gone/events does not "
        f"exist; see {named.replace('FILE', str(conf))}, or replay with --engine local"
    )


JAVA_SAID = (
    "Unrecognized VM option 'Nonsense'\nError: Could not create the Java Virtual Machine.\n"
    "Error: A fatal exception has occurred. Program will exit.\n"
)


@pytest.mark.parametrize(
    ("error", "printed", "variables", "said"),
    [
        ("Java has ended", JAVA_SAID, {}, "Unrecognized VM option 'Nonsense'"),
        ("too old\nmore", "", {}, "too old"),
        ("it ended", "", {"SPARK_LOCAL_DIRS": "1"}, "it ended; see SPARK_LOCAL_DIRS, or RUN"),
        (
            "it ended",
            "",
            {"PYSPARK_GATEWAY_PORT": "1"},
            "it ended; see PYSPARK_GATEWAY_PORT, or RUN",
        ),
    ],
    ids=["what Java says before it ends", "else the first line", "scratch folders", "the gateway"],
)
def test_the_cause_is_named(
    tmp_path: Path, error: str, printed: str, variables: dict[str, str], said: str
) -> None:
    text = said.replace("RUN", "replay with --engine local")
    assert failure(error, printed, variables, tmp_path) == f"Spark does not start: {text}"


def fail(package: Path) -> None:
    with explained(package):
        os.write(2, TRACE.encode())
        raise RuntimeError("it ended")


def test_what_is_printed_while_a_start_fails_is_not_shown(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(ReplayInputError, match=r"java\.io\.FileNotFoundException"):
        fail(tmp_path)
    with explained(tmp_path):
        os.write(2, b"a warning\n")

    shown: list[str] = []
    wait_for("the warning", lambda: shown.append(capfd.readouterr().err) or "".join(shown))
    assert "".join(shown) == "a warning\n"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("variable", "named"),
    [
        ("PYSPARK_SUBMIT_ARGS", "Error: Unrecognized option: --nonsense; see PYSPARK_SUBMIT_ARGS"),
        (
            "SPARK_CONF_DIR",
            "java.lang.ClassNotFoundException: com.gone.Plugin; see spark.plugins in",
        ),
        ("SPARK_REMOTE", "SPARK_REMOTE is set"),
    ],
)
def test_a_replay_says_it_in_one_line(conf: Path, variable: str, named: str) -> None:
    conf.write_text("spark.plugins com.gone.Plugin\n")
    values = {"PYSPARK_SUBMIT_ARGS": "--nonsense pyspark-shell", "SPARK_REMOTE": "sc://localhost"}
    value = values.get(variable, str(conf.parent))
    words = ["replay", "--input", str(LOG), "--results", str(conf.parent / "out")]

    done = python("-m", "jbodlab", *words, variables={**os.environ, variable: value})

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert named in line
    assert line.endswith("or replay with --engine local")
