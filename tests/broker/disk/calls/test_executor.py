from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.disk.calls.executor import DirectoryExecutor
from broker.disk.calls.no_space import NoSpaceError
from broker.disk.directory.lifecycle import LogDirState
from broker.disk.directory.log_dir import LogDir
from jbodlab.vocabulary.error_code import ErrorCode
from jbodlab.vocabulary.errors import CorruptRecordError, KafkaError, LogDirError
from tests.broker.disks import directory_id, eio, eventually
from tests.waiting import turns


def log_dir() -> tuple[LogDir, list[str]]:
    made = LogDir(Path("/data/d1"), directory_id(1))
    reports: list[str] = []

    def report(failed: LogDir, cause: str) -> None:
        reports.append(cause)
        failed.go_offline(cause)

    made.report_failures_to(report)
    return made, reports


async def test_calls_run_in_order_on_one_other_thread() -> None:
    directory, _ = log_dir()
    seen: list[tuple[int, int]] = []

    futures = [
        directory.run(lambda n=n: seen.append((n, threading.get_ident()))) for n in range(50)
    ]
    await asyncio.gather(*futures)

    assert [n for n, _ in seen] == list(range(50))
    assert len({thread for _, thread in seen}) == 1
    assert seen[0][1] != threading.get_ident()


async def test_results_reach_their_own_callers() -> None:
    directory, _ = log_dir()

    results = await asyncio.gather(*(directory.run(lambda n=n: n * n) for n in range(100)))

    assert results == [n * n for n in range(100)]


async def test_a_callback_gets_its_result_in_the_turn_in_which_the_result_arrives() -> None:
    directory, _ = log_dir()
    order: list[str] = []

    def done(result: str | None, error: BaseException | None) -> None:
        assert error is None
        order.append(str(result))
        asyncio.get_running_loop().call_soon(order.append, "next turn")

    directory.run_then(lambda: "first", done)
    last = directory.run(lambda: "last")
    last.add_done_callback(lambda _: order.append("callback of a future"))
    await last

    assert order == ["first", "next turn", "callback of a future"]


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class HandDriven:
    """Threads whose calls run when the test says so."""

    def __init__(self) -> None:
        self.calls: deque[Any] = deque()

    def queue(self) -> HandDriven:
        return self

    def put(self, call: Any) -> None:
        self.calls.append(call)

    def start(self, work: Callable[[], None], name: str) -> None:
        """Start nothing."""


async def test_a_callback_waits_for_the_callbacks_of_all_futures_before_it() -> None:
    threads: Any = HandDriven()

    def step() -> None:
        executor._run(*threads.calls.popleft())

    executor = DirectoryExecutor(
        "a directory",
        threads=threads,
        monotonic_s=lambda: 0.0,
        make_error=lambda cause: LogDirError(Path("/d"), directory_id(1), cause),
        on_failure=lambda cause: None,
        # The thread goes on in the middle of a drain, and while a callback runs.
        on_no_space=lambda cause: step(),
    )
    heard: list[int] = []
    first = executor.submit(lambda: 1)
    first.add_done_callback(lambda _: (heard.append(1), step()))
    second = executor.submit(full)
    second.add_done_callback(lambda _: heard.append(2))
    executor.submit_then(lambda: 3, lambda result, error: heard.append(3))
    executor.submit_then(lambda: 4, lambda result, error: heard.append(4))
    step()
    step()
    await turns()

    assert heard == [1, 2, 3, 4]
    assert isinstance(second.exception(), NoSpaceError)


async def test_a_callback_gets_the_error_of_an_abandoned_directory() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    errors: list[BaseException | None] = []
    directory.run_then(lambda: gate.wait(10), lambda _, error: errors.append(error))

    directory.go_offline("hung")
    directory.run_then(lambda: None, lambda _, error: errors.append(error))

    assert errors == [], "whoever abandons is in the middle of the failure"
    await turns()
    assert [type(error) for error in errors] == [LogDirError, LogDirError]
    gate.set()


async def test_a_call_that_nobody_waits_for_any_more_does_not_shift_the_results() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    first = directory.run(lambda: gate.wait(10))
    second = directory.run(lambda: "second")
    third = directory.run(lambda: "third")

    second.cancel()
    gate.set()

    assert await third == "third"
    assert await first is True


@pytest.mark.parametrize(
    "number",
    [errno.EIO, errno.EACCES, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EPERM],
)
async def test_an_io_error_fails_this_call_all_queued_and_all_later_ones(number: int) -> None:
    directory, reports = log_dir()
    touched: list[str] = []

    def fail() -> None:
        raise OSError(number, os.strerror(number), "/data/d1/t-0")

    gate = threading.Event()
    before = directory.run(lambda: gate.wait(10))
    failing = directory.run(fail)
    queued = [directory.run(lambda: touched.append("queued")) for _ in range(3)]
    gate.set()

    assert await before is True
    for future in (failing, *queued, directory.run(lambda: touched.append("later"))):
        with pytest.raises(LogDirError) as found:
            await future
        assert found.value.directory_id == directory_id(1)
        assert os.strerror(number) in found.value.cause
    assert touched == []
    assert len(reports) == 1
    assert directory.state is LogDirState.OFFLINE


async def test_the_failure_is_reported_before_any_caller_learns_of_it() -> None:
    order: list[str] = []
    directory = LogDir(Path("/data/d1"), None)
    directory.report_failures_to(lambda _failed, _cause: order.append("reported"))

    failing = directory.run(eio)
    failing.add_done_callback(lambda _future: order.append("caller"))
    with pytest.raises(LogDirError):
        await failing

    assert order == ["reported", "caller"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
async def test_the_processs_own_fault_does_not_cost_a_directory(number: int) -> None:
    directory, reports = log_dir()

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(KafkaError) as found:
        await directory.run(fail)

    assert found.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert await directory.run(lambda: "still here") == "still here"
    assert directory.is_online
    assert reports == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_a_disk_that_takes_no_more_is_full_and_not_lost(number: int) -> None:
    directory, reports = log_dir()

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    with pytest.raises(NoSpaceError, match=os.strerror(number)) as found:
        await directory.run(fail)

    assert found.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert await directory.run(lambda: "still here") == "still here"
    assert directory.is_online
    assert directory.space.disk.is_full
    assert not directory.space.takes(1)
    assert reports == []


async def test_damaged_records_pass_through_and_the_directory_stays() -> None:
    directory, reports = log_dir()

    def damaged() -> None:
        raise CorruptRecordError(Path("/data/d1/t-0/x.log"), 61, "crc")

    with pytest.raises(CorruptRecordError):
        await directory.run(damaged)

    assert directory.is_online
    assert reports == []


async def test_a_hanging_thread_is_abandoned_and_nobody_waits_for_it() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    hanging = directory.run(lambda: gate.wait(20))
    queued = directory.run(lambda: None)
    await eventually(lambda: directory.queues["serving"].running_call)

    directory.go_offline("no answer within 2000 ms")

    for future in (hanging, queued, directory.run(lambda: None)):
        assert future.done()
        with pytest.raises(LogDirError, match="no answer within 2000 ms"):
            future.result()
    gate.set()  # A result that comes back late is dropped.
    await eventually(lambda: directory.queues["serving"].running_call == 0)
    await turns()


async def test_files_of_a_failed_directory_can_still_be_given_back() -> None:
    directory, _ = log_dir()
    with pytest.raises(LogDirError):
        await directory.run(eio)
    closed = threading.Event()

    directory.clean_up(eio)
    directory.clean_up(closed.set)

    await eventually(closed.is_set)


async def test_the_age_of_the_running_call_can_be_seen_from_the_loop() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    assert directory.queues["serving"].running_call == 0

    future = directory.run(lambda: gate.wait(20))
    await eventually(lambda: directory.queues["serving"].running_call)
    seen = directory.queues["serving"].running_call
    gate.set()
    await future
    gate.clear()
    other = directory.run(lambda: gate.wait(20))
    await eventually(lambda: directory.queues["serving"].running_call)

    assert directory.queues["serving"].running_call not in (0, seen)
    gate.set()
    await other


async def test_the_queue_says_how_many_wait_and_how_long_they_waited() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    serving, upkeep = directory.queues["serving"], directory.queues["upkeep"]

    futures = [directory.run(lambda: gate.wait(20)) for _ in range(3)]

    assert (serving.queue_length, upkeep.queue_length) == (3, 0)
    gate.set()
    await asyncio.gather(*futures)
    assert serving.queue_length == 0
    assert (serving.wait.count, serving.latency.count, upkeep.wait.count) == (3, 3, 0)


async def test_callers_with_and_without_a_future_hear_in_the_order_of_their_calls() -> None:
    directory, _ = log_dir()
    gate = threading.Event()
    heard: list[int] = []
    directory.run(lambda: gate.wait(10))
    for n in range(20):
        if n % 3:
            directory.run_then(lambda n=n: n, lambda result, _: heard.append(result or 0))
        else:
            future = directory.run(lambda n=n: n)
            future.add_done_callback(lambda done: heard.append(done.result()))

    gate.set()
    await eventually(lambda: len(heard) == 20)

    assert heard == list(range(20))


async def test_a_callback_that_fails_keeps_no_result_from_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    directory, _ = log_dir()
    directory.run_then(lambda: 0, lambda *_: 1 // 0)

    assert await directory.run(lambda: "next") == "next"
    directory.stop()

    assert "ZeroDivisionError" in caplog.text


async def test_callbacks_of_a_lost_directory_come_after_whoever_tells_of_the_loss() -> None:
    directory, reports = log_dir()
    heard: list[str] = []
    directory.run_then(eio, lambda _, error: heard.append(f"{type(error).__name__} {reports}"))
    directory.run_then(lambda: 1, lambda _, error: heard.append(type(error).__name__))
    await eventually(lambda: len(heard) == 2)
    directory.run_then(lambda: 1, lambda _, error: heard.append(type(error).__name__))
    assert len(heard) == 2
    await turns()

    assert heard == [f"LogDirError {reports}", "LogDirError", "LogDirError"]
    assert len(reports) == 1
