"""Rounds of compaction that another process makes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jbodlab.runtime.cleaner_process import CleanerProcess
from jbodlab.storage.compaction.compaction import dirty_range
from jbodlab.storage.compaction.compaction_plan import (
    CleanerDiedError,
    CleaningStoppedError,
    Rate,
    RateThrottle,
    RoundPlan,
)
from jbodlab.storage.compaction.compaction_round import CompactionRound
from jbodlab.vocabulary.errors import CorruptRecordError
from tests.jbodlab.storage.compaction.cleaning import CompactedLog

pytestmark = pytest.mark.process


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CompactedLog]:
    made = CompactedLog(tmp_path, segment_bytes=2_000)
    for number in range(100):
        made.append((b"%d" % (number % 7), b"x" * 50))
    made.roll()
    yield made
    made.log.abandon()


@pytest.fixture
def process() -> Iterator[CleanerProcess]:
    made = CleanerProcess()
    yield made
    made.close()


def plan_of(log: CompactedLog) -> RoundPlan:
    state = log.log.state
    dirty = dirty_range(state, log.end, 1)
    return RoundPlan.of(state, log.directory, dirty, now_ms=1, map_bytes=1 << 20)


def throttle(_size: int) -> None:
    """Go on."""


def test_it_makes_the_same_files_as_a_round_in_this_process(log, process) -> None:
    plan = plan_of(log)
    here = CompactionRound(log.fs, plan, throttle)
    expected = here.begin(), here.clean(0), here.clean(1)
    files = {path.name: path.read_bytes() for path in log.directory.glob("*.cleaned")}

    found = process.begin(log.fs, plan, throttle, Rate()), process.clean(0), process.clean(1)

    assert found == expected
    assert files == {path.name: path.read_bytes() for path in log.directory.glob("*.cleaned")}
    assert process.begin(log.fs, plan, throttle, Rate()) == expected[0]


def test_damage_is_told_as_here(log, process) -> None:
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)

    with pytest.raises(CorruptRecordError, match="wrong CRC") as error:
        process.begin(log.fs, plan_of(log), throttle, Rate())

    assert (error.value.path, error.value.position) == (path, 0)


def test_an_error_of_the_disk_is_told_with_its_number_and_file(log, process) -> None:
    (log.directory / "00000000000000000000.index.cleaned").mkdir()

    with pytest.raises(IsADirectoryError) as error:
        process.begin(log.fs, plan_of(log), throttle, Rate())

    assert str(error.value.filename).endswith(".index.cleaned")


def test_a_folder_that_is_gone_is_no_failure_of_the_disk(log, process) -> None:
    plan = plan_of(log)
    log.directory.rename(log.directory.with_name("gone"))

    with pytest.raises(CleaningStoppedError):
        process.begin(log.fs, plan, throttle, Rate())


def test_a_round_that_is_called_off_ends_with_its_process_and_another_begins(log, process) -> None:
    def stop(_size: int) -> None:
        raise CleaningStoppedError("cancelled")

    with pytest.raises(CleaningStoppedError):
        process.begin(log.fs, plan_of(log), stop, Rate(10))

    assert process.begin(log.fs, plan_of(log), throttle, Rate()).keys == 7


def test_it_ends_in_the_middle_of_its_work_with_who_has_asked(log, process) -> None:
    """Else it would write files beside those that the next process of the broker writes."""

    def vanish(_size: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.begin(log.fs, plan_of(log), vanish, Rate(10))
    assert process._connection is not None
    assert process._process is not None

    process._connection.close()

    assert process._process.wait(20) == 0


def test_a_process_that_dies_is_a_failure_and_no_round_that_was_called_off(log, process) -> None:
    process.begin(log.fs, plan_of(log), throttle, Rate())
    assert process._process is not None
    process._process.kill()

    with pytest.raises(CleanerDiedError, match="status -9"):
        process.clean(0)

    assert process.begin(log.fs, plan_of(log), throttle, Rate()).keys == 7


def test_a_round_that_is_under_way_hears_of_another_rate(log, process) -> None:
    rate = Rate(10)
    looks = 0

    def look_on(_size: int) -> None:
        nonlocal looks
        looks += 1
        rate.bytes_per_second = None

    # At the first rate it would take twenty minutes.
    assert process.begin(log.fs, plan_of(log), look_on, rate).keys == 7
    assert looks > 0
    rate.bytes_per_second = 1e9
    assert process.clean(0).former


class Clock(threading.Event):
    """A flag whose waits set its clock forward.

    Attributes:
        now_s: Monotonic.
        then: Called after each wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 100.0
        self.then: Callable[[], None] = lambda: None

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now_s += timeout
        self.then()
        return False


def test_another_rate_holds_for_what_is_waited_for() -> None:
    clock, rate = Clock(), Rate(1_000)
    paced = RateThrottle(clock, rate, lambda: clock.now_s)

    def slow_down() -> None:
        if clock.now_s >= 101:
            rate.bytes_per_second = 500

    clock.then = slow_down
    paced(2_000)

    # The first 1,000 bytes took a second, the others two.
    assert 102.8 <= clock.now_s <= 103.1


def test_a_rate_is_kept_by_waiting_as_long_as_bytes_take() -> None:
    clock = Clock()
    paced = RateThrottle(clock, Rate(1_000), lambda: clock.now_s)
    for _ in range(10):
        paced(500)

    assert 104.9 <= clock.now_s <= 105
    clock.set()
    with pytest.raises(CleaningStoppedError):
        paced(0)
