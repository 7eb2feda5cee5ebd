from __future__ import annotations

from typing import Any

import pytest

from broker.bounds.limits import SAMPLES_MAX
from broker.disk.slowness import (
    LOOKS_IN_A_ROW,
    VALUES_MIN,
    IoSamples,
    LatencyWindow,
    Sample,
    SlowSettings,
    SlowWatch,
    Stall,
    TimedWork,
    excess,
    without_stalls,
)

PROBE, APPEND = TimedWork.PROBE, TimedWork.APPEND
SETTINGS = SlowSettings(threshold_ms=1_000, outlier_factor=5, min_ms=100, window_ms=10_000)


def window(*seconds: float, window_ms: int = 10_000) -> LatencyWindow:
    """A window with a look and one probe every half second."""
    made = LatencyWindow(window_ms)
    for number, took_s in enumerate(seconds):
        now_s = number * 0.5
        made.add({PROBE: [Sample(now_s - took_s, now_s)]}, (), now_s)
    return made


def watch(*looks: tuple[float, list[float]]) -> list[bool]:
    """Judge a directory look after look; returns whether it was slow after each."""
    watched = SlowWatch(SETTINGS)
    states = []
    for own_ms, peers_ms in looks:
        watched.looked({PROBE: own_ms}, [{PROBE: peer_ms} for peer_ms in peers_ms])
        states.append(watched.is_slow)
    return states


def test_half_of_all_calls_must_be_slow() -> None:
    assert window(0.01, 0.01, 3.0, 0.01, 0.01).medians_ms == {PROBE: pytest.approx(10)}
    assert window(0.01, 0.3, 0.3, 0.3, 0.01).medians_ms == {PROBE: pytest.approx(300)}


def test_too_few_values_say_nothing() -> None:
    assert window(*[1.0] * (VALUES_MIN - 1)).medians_ms == {}
    assert window(*[1.0] * VALUES_MIN).medians_ms == {PROBE: pytest.approx(1_000)}


def test_what_left_the_window_does_not_count() -> None:
    slow_then_fast = [1.0] * 6 + [0.01] * 4

    assert window(*slow_then_fast, window_ms=2_000).medians_ms == {PROBE: pytest.approx(10)}


def test_many_appends_of_one_look_count_as_one_value() -> None:
    made = LatencyWindow(10_000)
    for number in range(VALUES_MIN):
        took_s = 0.5 if number else 0.001
        calls = [Sample(0, took_s)] * (1 if number else 200)
        made.add({APPEND: calls}, (), float(number))

    assert made.medians_ms == {APPEND: pytest.approx(500)}


def test_time_in_which_the_process_stood_still_is_not_the_disks() -> None:
    call = Sample(10.0, 13.0)

    assert without_stalls(call, []) == pytest.approx(3.0)
    assert without_stalls(call, [Stall(9.0, 12.5)]) == pytest.approx(0.5)
    assert without_stalls(call, [Stall(11.0, 12.0), Stall(12.5, 20.0)]) == pytest.approx(1.5)
    assert without_stalls(call, [Stall(1.0, 2.0), Stall(14.0, 15.0)]) == pytest.approx(3.0)
    assert without_stalls(call, [Stall(0.0, 20.0)]) == 0
    long_ago = [Stall(number / 100, number / 100 + 0.005) for number in range(900)]
    assert without_stalls(call, [*long_ago, Stall(9.5, 12.0)]) == pytest.approx(1.0)


def test_stalls_that_do_not_concern_a_call_are_not_looked_through() -> None:
    class Counted(list[Stall]):
        looks = 0

        def __getitem__(self, index: Any) -> Any:
            self.looks += 1
            return super().__getitem__(index)

    stalls = Counted(Stall(number, number + 0.5) for number in range(256))

    assert without_stalls(Sample(100.25, 101.0), stalls) == pytest.approx(0.5)
    assert 0 < stalls.looks <= 10


@pytest.mark.parametrize(
    ("own_ms", "peers_ms", "settings", "is_slow"),
    [
        # The threshold counts whatever the peers do, where there is one.
        (1_000, [1_000, 1_000], SETTINGS, True),
        (999, [999, 999], SETTINGS, False),
        (9_000, [], SlowSettings(threshold_ms=0), False),
        (9_000, [], SlowSettings(threshold_ms=-1), False),
        # An outlier is several times slower than its peers, of which half may be slow.
        (250, [50, 50], SETTINGS, True),
        (249, [50, 50], SETTINGS, False),
        (250, [50], SlowSettings(outlier_factor=0), False),
        (400, [380, 420], SETTINGS, False),
        (400, [380, 1], SETTINGS, True),
        # Below the minimum nothing is slow.
        (99, [0.1], SETTINGS, False),
        (100, [0.1], SETTINGS, True),
        (99, [], SlowSettings(threshold_ms=50, min_ms=100), False),
        # Alone there is nothing to compare with.
        (400, [], SETTINGS, False),
    ],
)
def test_slow_is_what_exceeds_the_threshold_or_its_peers(
    own_ms: float, peers_ms: list[float], settings: SlowSettings, is_slow: bool
) -> None:
    assert bool(excess({PROBE: own_ms}, [{PROBE: each} for each in peers_ms], settings)) is is_slow


def test_without_the_same_kind_of_work_there_is_nothing_to_compare_with() -> None:
    assert not excess({APPEND: 400}, [{PROBE: 1}], SETTINGS)


def test_slow_is_entered_and_left_after_several_looks_in_a_row() -> None:
    slow, fast = (400.0, [1.0, 1.0]), (1.0, [1.0, 1.0])
    before = LOOKS_IN_A_ROW - 1

    assert watch(*[slow] * before, fast, *[slow] * before) == [False] * (2 * before + 1)
    assert watch(*[slow] * LOOKS_IN_A_ROW)[-1]
    assert watch(*[slow] * LOOKS_IN_A_ROW, *[fast] * before)[-1]
    assert not watch(*[slow] * LOOKS_IN_A_ROW, *[fast] * LOOKS_IN_A_ROW)[-1]


def test_the_limits_of_the_way_back_are_lower() -> None:
    entering = [(100.0, [1.0])] * LOOKS_IN_A_ROW

    assert watch(*entering, *[(60.0, [1.0])] * 10)[-1]
    assert not watch(*entering, *[(49.0, [1.0])] * LOOKS_IN_A_ROW)[-1]


def test_without_enough_values_the_last_word_stands() -> None:
    watched = SlowWatch(SETTINGS)
    for _ in range(LOOKS_IN_A_ROW):
        watched.looked({PROBE: 2_000}, [])
    assert watched.cause == "probe takes 2000.0 ms; threshold: 1000 ms"

    for _ in range(10):
        assert not watched.looked({}, [])

    assert watched.is_slow


def test_samples_are_bounded_and_taken_once() -> None:
    samples = IoSamples()
    for number in range(SAMPLES_MAX + 5):
        samples.note(APPEND, number, number + 1)

    taken = samples.take()

    assert len(taken[APPEND]) == SAMPLES_MAX
    assert taken[APPEND][0] == Sample(5, 6)
    assert samples.take() == {PROBE: [], APPEND: []}
