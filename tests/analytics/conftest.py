"""Fixtures that all tests of the replay share: one Spark session, and one replay of each log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from analytics.engines import LOCAL
from analytics.job.command import replay
from analytics.job.session import start_session
from tests.analytics.commands import ROOT, python
from tests.analytics.page_tables import some_of_everything
from tests.analytics.s3_server import S3Server, s3_server
from tests.analytics.shared import FIXTURES, Made, Replayed, contents, made
from tests.analytics.small_logs import Answered, answered, answered_by_spark
from tests.kafka.jars import NoKafkaError

COMMAND_TIMEOUT_S = 600
"""A virtual machine that starts, beside whatever else runs on the machine."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give all tests with Spark to one worker, where there are several: a second session costs."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One quiet local session for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        # As in a session of a user, formats that are installed are looked up.
        patch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
        session = start_session(0)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def made_of(request: pytest.FixtureRequest) -> Answered:
    """Files that a table is made of: a test that uses it runs once for each engine."""
    if request.param == "local":
        return answered
    return partial(answered_by_spark, request.getfixturevalue("spark"))


@pytest.fixture(scope="session")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    """A log in which directories fail, replayed once for all tests, by the command.

    As from a shell that knows nothing of the sources, in a folder where they are not.
    """
    output = tmp_path_factory.mktemp("disks") / "out"
    source = FIXTURES / "4.3.1-disks"
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHON"))}
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        "from jbodlab.cli.program import main; sys.exit(main(['replay', *sys.argv[1:]]))"
    )
    paths = ["--engine", LOCAL, "--input", str(source / "controller"), "--results", str(output)]
    done = python(
        *("-c", program, *paths),
        folder=output.parent,
        variables=variables,
        deadline_s=COMMAND_TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    left = contents(output)
    yield Replayed(source, output, done.stdout)
    assert contents(output) == left, f"a test has changed {output}"


@pytest.fixture(scope="session")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    """A log in which topics and settings are changed, replayed once for all tests."""
    output = tmp_path_factory.mktemp("admin")
    source = FIXTURES / "3.9.2-admin"
    report = replay(source / "controller", output, LOCAL).report
    left = contents(output)
    yield Replayed(source, output, report)
    assert contents(output) == left, f"a test has changed {output}"


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The figures of tables with one of everything."""
    return made(tmp_path_factory.mktemp("everything"), **some_of_everything())


@pytest.fixture(scope="session")
def nothing(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The figures of empty tables."""
    return made(tmp_path_factory.mktemp("nothing"))


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that speaks S3."""
    try:
        with s3_server(tmp_path_factory.mktemp("s3")) as running:
            yield running
    except NoKafkaError as error:
        pytest.skip(str(error))
