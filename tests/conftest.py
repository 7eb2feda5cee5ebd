"""Hooks and fixtures of all tests."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import sys
import urllib.request
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from lab.machine.folders import remove_leftovers
from tests import printed, secrets
from tests.durations import Durations
from tests.kafka.jars import NoKafkaError, fetched
from tests.kafka.tools import KafkaTools
from tests.unfinished import UnfinishedTests

# Whatever a test starts runs the sources beside it, wherever pytest was called, and whatever is
# installed: servers, tools, the Python workers of Spark.
os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])

# Servers that a test asks lie on this machine, whatever proxies the environment names.
urllib.request.install_opener(urllib.request.build_opener(urllib.request.ProxyHandler({})))

# Also where a test does not look at it: a field that is not declared, or missing, fails the test.
printed.hold()

# Thousands of tests are objects that stay: looking through them again and again for garbage took
# half of what collecting them takes.
gc.set_threshold(100_000, 50, 100)

# Log lines are looked through for secrets; nobody may write one at any level.
for _program in ("jbodlab", "broker", "controller", "storage_tool"):
    logging.getLogger(_program).setLevel(logging.DEBUG)

STARTS_PROCESSES = ("cluster", "process", "spark", "compose", "kafka", "soak")
"""Marks of the tests that may start a process; a test with none of them is marked `unit`."""
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"}

# How long an example takes says how busy the machine is.
settings.register_profile("without a deadline", deadline=None)
settings.load_profile("without a deadline")

COSTLY = ("compose", "spark", "kafka", "cluster", "process")
"""In this order tests are handed out: what takes longest begins first, units fill up the end."""

LONG = ("compose", "spark")
LONG_TIMEOUT_S = 900
"""A test that builds images or replays logs takes minutes where others work on the same cores."""

_running_unit: str | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Have a run over several workers say what hangs in it when it is cut off.

    One that is asked to (`JBODLAB_TEST_DURATIONS`) also says which files take longer than before.
    """
    if "JBODLAB_TEST_DURATIONS" in os.environ:
        config.pluginmanager.register(Durations())
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        unfinished = UnfinishedTests()
        config.pluginmanager.register(unfinished)
        unfinished.listen()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Mark the units and the groups, and leave out what takes long, unless asked for: `-m soak`.

    Around all others: workers look for the groups in the same hook, each before a hook of ours.
    """
    for item in items:
        if not any(item.get_closest_marker(name) for name in STARTS_PROCESSES):
            item.add_marker("unit")
    if "soak" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("soak") is not None]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item.get_closest_marker("soak") is None]
    for item in items:
        has_own = item.get_closest_marker("timeout") is not None
        if not has_own and any(item.get_closest_marker(name) for name in LONG):
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=_turn)
    yield


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to go on where groups were asked for and are not made."""
    gc.freeze()
    is_asked_for = getattr(session.config.option, "loadgroup", False)
    if is_asked_for and session.items and "@" not in session.items[0].nodeid:
        raise pytest.UsageError("this pytest-xdist makes no groups of this pytest's tests")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    """Fail a test in whose log or output a secret stands (case O01)."""
    report = yield
    found = secrets.shown("\n".join(text for _, text in report.sections))
    if found and report.passed:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} logs or prints {found}"
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Hand out groups so that a run goes on where a worker dies."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.work_groups import GroupScheduling

    return GroupScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object | None) -> None:
    """Print how a worker ended that nobody had asked to: by which signal, or with which code."""
    if error:
        from tests.work_groups import how_ended

        print(f"\n[{node.gateway.id}] {how_ended(node)}", flush=True)


def pytest_unconfigure() -> None:
    """Let everything be collected at the end: what is not, some libraries tell of as leaked."""
    gc.unfreeze()


def _group(item: pytest.Item) -> str:
    """Tests that run in one process: a file; all of Spark, which would else be started many times.

    Files that share something costly else name their group themselves.
    """
    if item.get_closest_marker("spark"):
        return "spark"
    return item.nodeid.partition("::")[0]


def _turn(item: pytest.Item) -> int:
    marks = [item.get_closest_marker(name) is not None for name in COSTLY]
    return marks.index(True) if True in marks else len(COSTLY)


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of a test that is a coroutine function, and of its fixtures."""
    with asyncio.Runner() as runner:
        yield runner


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make the loop of a coroutine test before, and close it after, all its other fixtures."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        names = item.fixturenames
        if "runner" in names:
            names.remove("runner")
        names.insert(0, "runner")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Run a fixture that is an asynchronous generator on the loop of its test."""
    function = fixturedef.func
    if not inspect.isasyncgenfunction(function):
        return (yield)
    runner = request.getfixturevalue("runner")

    def on_loop(**arguments: object) -> Iterator[object]:
        generator = function(**arguments)
        yield runner.run(anext(generator))
        runner.run(anext(generator, None))

    fixturedef.func = on_loop  # type: ignore[misc]
    try:
        return (yield)
    finally:
        fixturedef.func = function  # type: ignore[misc]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on its loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    pyfuncitem.funcargs["runner"].run(test)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Let no unit start a process, its fixtures included."""
    global _running_unit
    _running_unit = item.nodeid if item.get_closest_marker("unit") else None
    try:
        return (yield)
    finally:
        _running_unit = None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """After the last test what all have shared is closed, processes and mounts included."""
    global _running_unit
    if nextitem is None:
        _running_unit = None
    return (yield)


def _refuse_processes(event: str, args: tuple[Any, ...]) -> None:
    if _running_unit is not None and event in STARTS:
        pytest.fail(
            f"{_running_unit} starts a process ({event} {args[0] if args else ''}) "
            f"and has none of the marks {', '.join(STARTS_PROCESSES)}"
        )


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remove what killed runs have left: servers, mounts, folders."""
    _remove_leftovers(session)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove what killed workers of this run have left."""
    _remove_leftovers(session)


def _remove_leftovers(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        remove_leftovers()


sys.addaudithook(_refuse_processes)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder of Apache Kafka's released jars; who asks is skipped where they cannot be had."""
    try:
        return fetched()
    except NoKafkaError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def kafka_tools(kafka_jars: Path) -> Iterator[KafkaTools]:
    """Kafka's command line tools, in one Java process for all tests of this process."""
    del kafka_jars
    try:
        tools = KafkaTools()
    except NoKafkaError as error:
        pytest.skip(str(error))
    yield tools
    tools.close()
